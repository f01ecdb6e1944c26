"""Jobs that share GPUs and links: iterations, phases, and when jobs start.

`iteration` says what a job does in an iteration, `engine` lets iterations run, `phases` lets jobs
go through communication profiles in it. `shared_links` is the problem of the policy `rotations`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.sim.links.engine import LinkEngine as LinkEngine
    from apportion.sim.links.iteration import Iteration as Iteration
    from apportion.sim.links.iteration import Phase as Phase
    from apportion.sim.links.iteration import Send as Send
    from apportion.sim.links.iteration import all_reduced as all_reduced
    from apportion.sim.links.iteration import in_phases as in_phases
    from apportion.sim.links.iteration import overlapped as overlapped
    from apportion.sim.links.phases import PhaseJob as PhaseJob
    from apportion.sim.links.phases import PhaseRun as PhaseRun
    from apportion.sim.links.phases import run_phases as run_phases
    from apportion.sim.links.priorities import crux_priorities as crux_priorities
    from apportion.sim.links.priorities import gpu_intensity as gpu_intensity
    from apportion.sim.links.record import Timeline as Timeline
    from apportion.sim.links.shared_links import LinkShifts as LinkShifts
    from apportion.sim.links.shared_links import SharedLinks as SharedLinks
    from apportion.sim.network.link_sharing import ETHERNET_10G as ETHERNET_10G
    from apportion.sim.network.link_sharing import FairSharing as FairSharing
    from apportion.sim.network.link_sharing import LinkSharing as LinkSharing
    from apportion.sim.network.link_sharing import SharedCost as SharedCost
    from apportion.sim.network.link_sharing import max_min_rates as max_min_rates


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
