"""Iterations of jobs whose GPUs and links are shared: engines, how links share, what is done.

`iteration` says what a job does in an iteration, `links` how transfers share links, `plain` is the
engine to read, `fast` the compiled one of the same meaning, `record` what a timeline is made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.sim.contention.engine import Engine
    from apportion.sim.contention.iteration import (
        Iteration,
        Phase,
        Send,
        all_reduced,
        in_phases,
        overlapped,
    )
    from apportion.sim.contention.plain import PlainEngine
    from apportion.sim.contention.record import Timeline
    from apportion.sim.network.link_sharing import (
        ETHERNET_10G,
        FairSharing,
        LinkSharing,
        SharedCost,
    )

__all__ = [
    "ETHERNET_10G",
    "Engine",
    "FairSharing",
    "Iteration",
    "LinkSharing",
    "Phase",
    "PlainEngine",
    "Send",
    "SharedCost",
    "Timeline",
    "all_reduced",
    "in_phases",
    "overlapped",
]

if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
