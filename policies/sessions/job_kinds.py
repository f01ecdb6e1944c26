"""Who is in a session: kinds and classes of jobs, in the order in which these came."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from apportion.policies.instance import Instance


Description = tuple[tuple[float, ...], tuple[tuple[str, Any], ...]]
"""Steps/s under each option, and the given columns of the jobs table by name."""

_SPARE = 1000
"""Kinds without jobs that are remembered at least."""


@dataclass(slots=True, eq=False)
class JobKind:
    """What was said of a job, the class that it belongs to, and how many rows are like it.

    A row of the jobs table whose column ``count`` says so stands for `each` jobs, not one.
    """

    said: Description
    place: int
    count: int = 0

    @property
    def each(self) -> int:
        """Jobs that one row stands for."""
        return int(dict(self.said[1]).get("count", 1))


@dataclass(eq=False)
class JobClasses:
    """Kinds and classes of jobs, with counts.

    Parameters
    ----------
    columns
        Columns of the jobs table in which jobs of a class agree.

    Attributes
    ----------
    known
        Kinds by description; those without jobs are forgotten in time.
    count
        Jobs of each class.
    """

    columns: Sequence[str]
    known: dict[Description, JobKind] = field(default_factory=dict)
    count: list[int] = field(default_factory=list)
    _place_of: dict[bytes, int] = field(default_factory=dict)
    _rows: list[Instance] = field(default_factory=list)

    def kinds_of(self, said: Sequence[Description], jobs: Instance) -> list[JobKind]:
        """Return the kind of each of some jobs that are in order, new ones made where needed."""
        kinds = []
        for row, description in enumerate(said):
            kind = self.known.get(description)
            if kind is None:
                kind = self.known[description] = JobKind(description, self._class_of(jobs, row))
            kinds.append(kind)
        return kinds

    def _class_of(self, jobs: Instance, row: int) -> int:
        """Return the class of a job; a new one if there is none like it."""
        one = jobs.subset(np.array([row]), np.ones(1))
        read = [one.columns[name] for name in self.columns]
        key = b"|".join(
            np.ascontiguousarray(part).tobytes()
            for part in (one.throughput, one.usage.toarray(), *read)
        )
        if key not in self._place_of:
            self._place_of[key] = len(self._rows)
            kept = {name: one.columns[name] for name in (*self.columns, "count")}
            self._rows.append(one.with_columns(kept))
            self.count.append(0)
        return self._place_of[key]

    def come(self, kind: JobKind) -> None:
        """Count one more row of a kind."""
        kind.count += 1
        self.count[kind.place] += kind.each

    def go(self, kind: JobKind) -> None:
        """Count one row less of a kind."""
        kind.count -= 1
        self.count[kind.place] -= kind.each

    def forget(self, jobs: int) -> None:
        """Forget kinds without jobs, if there are more of them than jobs and some to spare."""
        if len(self.known) > 2 * jobs + _SPARE:
            self.known = {said: kind for said, kind in self.known.items() if kind.count}

    def pack(self) -> dict[JobKind, JobKind]:
        """Drop the classes without jobs, if most are; return what became of kinds that have some.

        Kinds are not changed, so what was made of them before keeps the places that it had.
        """
        live = [place for place, count in enumerate(self.count) if count]
        if 2 * len(live) >= len(self.count):
            return {}
        new_place = {place: new for new, place in enumerate(live)}
        new = {
            kind: JobKind(kind.said, new_place[kind.place], kind.count)
            for kind in self.known.values()
            if kind.place in new_place
        }
        self.known = {kind.said: kind for kind in new.values()}
        self._place_of = {
            key: new_place[place] for key, place in self._place_of.items() if place in new_place
        }
        self._rows = [self._rows[place] for place in live]
        self.count = [self.count[place] for place in live]
        return new

    def instance(self) -> Instance:
        """Return an instance whose rows are the classes, with at least one job each."""
        rows = self._rows
        own = np.arange(len(rows))
        names = rows[0].columns
        columns = {name: np.concatenate([row.columns[name] for row in rows]) for name in names}
        return replace(
            rows[0],
            throughput=np.vstack([row.throughput for row in rows]),
            member_row=own,
            member_job=own,
            member_share=np.ones(own.size),
            own_usage=sparse.csr_array(sparse.vstack([row.usage for row in rows])),
            columns={**columns, "count": np.maximum(np.array(self.count, dtype=float), 1.0)},
        )


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
