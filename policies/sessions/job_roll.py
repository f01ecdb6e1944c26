"""The jobs of a session in the order in which they came, and snapshots that cost little."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from apportion.policies.sessions.job_kinds import JobKind


@dataclass(frozen=True, slots=True, eq=False)
class RollSnapshot:
    """Who was on the roll at a time.

    The lists are those of the roll, which only grow; the bytes tell which of their entries count.
    """

    _ids: list[Hashable]
    _kinds: list[JobKind]
    _present: bytes

    def ids(self) -> list[Hashable]:
        """Ids of the jobs, in the order in which they came."""
        return list(compress(self._ids, self._present))

    def kinds(self) -> list[JobKind]:
        """Their kinds."""
        return list(compress(self._kinds, self._present))


class JobRoll:
    """Jobs by id, each with its kind. Who leaves is crossed out; lists are made anew in time."""

    def __init__(self) -> None:
        self._ids: list[Hashable] = []
        self._kinds: list[JobKind] = []
        self._present = bytearray()
        self._place: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._place)

    def __contains__(self, job: Hashable) -> bool:
        return job in self._place

    def __getitem__(self, job: Hashable) -> JobKind:
        return self._kinds[self._place[job]]

    def add(self, job: Hashable, kind: JobKind) -> None:
        """Append a job."""
        self._place[job] = len(self._ids)
        self._ids.append(job)
        self._kinds.append(kind)
        self._present.append(1)

    def remove(self, job: Hashable) -> JobKind:
        """Cross a job out and return its kind."""
        place = self._place.pop(job)
        self._present[place] = 0
        kind = self._kinds[place]
        if 2 * len(self._place) < len(self._ids):
            self.revise(lambda _, kind: kind)
        return kind

    def revise(self, kind_of: Callable[[Hashable, JobKind], JobKind]) -> None:
        """Write the roll anew, with what a function makes of each job and its kind."""
        now = self.snapshot()
        self._ids = now.ids()
        self._kinds = [kind_of(job, kind) for job, kind in zip(self._ids, now.kinds(), strict=True)]
        self._present = bytearray(b"\x01" * len(self._ids))
        self._place = {job: place for place, job in enumerate(self._ids)}

    def snapshot(self) -> RollSnapshot:
        """Keep who is there now."""
        return RollSnapshot(self._ids, self._kinds, bytes(self._present))
