"""The schedule of the log that a workload was read from, beside those who decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from apportion.mechanism.decider import Decider

__all__ = ["AsRecorded"]


@dataclass(frozen=True)
class AsRecorded(Decider):
    """Jobs start and end when their log says: what the cluster's own scheduler did.

    A row beside any others, with the same figures; it decides nothing, so that settings of a
    mechanism say nothing to it. The columns ``recorded_start_s`` and ``recorded_end_s`` say when,
    ``recorded_on`` on which type.
    """

    works_by: ClassVar[tuple[str, ...]] = ("rounds", "exact", "leases", "queue", "iterations")
    works_how: ClassVar[str] = "replays a log, with jobs whose gangs are known"
    replays: ClassVar[bool] = True

    name: str = "as_recorded"
    source: str = "the log of the workload"
