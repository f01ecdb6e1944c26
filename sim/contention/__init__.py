"""Iterations of jobs whose GPUs and links are shared.

`iteration` says what a job does in an iteration, `engine` lets iterations run, `record` is what a
timeline is made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.sim.contention.engine import LinkEngine as LinkEngine
    from apportion.sim.contention.iteration import Iteration as Iteration
    from apportion.sim.contention.iteration import Phase as Phase
    from apportion.sim.contention.iteration import Send as Send
    from apportion.sim.contention.iteration import all_reduced as all_reduced
    from apportion.sim.contention.iteration import in_phases as in_phases
    from apportion.sim.contention.iteration import overlapped as overlapped
    from apportion.sim.contention.record import Timeline as Timeline
    from apportion.sim.network.link_sharing import ETHERNET_10G as ETHERNET_10G
    from apportion.sim.network.link_sharing import FairSharing as FairSharing
    from apportion.sim.network.link_sharing import LinkSharing as LinkSharing
    from apportion.sim.network.link_sharing import SharedCost as SharedCost


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
