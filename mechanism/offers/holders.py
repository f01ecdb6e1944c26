"""Who holds GPUs, what is new about it, and when each works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.scheduler import Change, Gangs, Spells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["Holders", "SpellBook"]


class Holders:
    """Jobs that have GPUs, in the order in which they got them; and who came or was stopped.

    Parameters
    ----------
    scale
        GPUs of each gang, shape (jobs,).
    """

    def __init__(self, scale: Ints) -> None:
        self._scale = scale
        self._there: dict[int, None] = {}
        self._coming: set[int] = set()
        self._stopped: set[int] = set()

    def begin(self, job: int, *, goes_on: bool = False) -> None:
        """Let a job have GPUs, others than before unless it goes on with those it gave back."""
        self._there[job] = None
        if goes_on:
            self._stopped.discard(job)
        else:
            self._coming.add(job)

    def end(self, job: int, *, stopped: bool) -> None:
        """Let a job give its GPUs back, because it is stopped, done, or moved from the start."""
        del self._there[job]
        if stopped:
            self._stopped.add(job)

    def at_work(self, end_s: list[float], now_s: float) -> list[int]:
        """Return the jobs whose leases end after now, ascending."""
        return sorted(job for job in self._there if end_s[job] > now_s)

    def change(self, spells: SpellBook, kind: Ints, *, offered: bool) -> Change:
        """Return who has GPUs from now on, by the type of each job, and forget what was new."""
        there = list(self._there)
        job = np.array(there, dtype=np.intp)
        change = Change(
            Gangs(job, job, kind[job], self._scale[job]),
            starts=np.array([*map(self._coming.__contains__, there)], dtype=bool),
            stop=np.array(sorted(self._stopped), dtype=np.intp),
            spells=spells.of(job),
            resolved=offered,
        )
        self._coming.clear()
        self._stopped.clear()
        return change

    def state(self) -> list[int]:
        """Return who has GPUs, between two decisions, for JSON."""
        return list(self._there)

    def restore(self, state: list[int]) -> None:
        """Take up a state of `state`."""
        self._there = dict.fromkeys(state)


class SpellBook:
    """When each job works: from when on, for how long, and how long it rests after that."""

    def __init__(self, jobs: int) -> None:
        self._rows: Floats = np.full((3, jobs), np.inf)
        self.changed = False

    def ready_s(self, job: int) -> float:
        """Return when a job begins to work."""
        return float(self._rows[0, job])

    def work(self, job: int, ready_s: float, work_s: float, rest_s: float) -> None:
        """Let a job work, after a rest without length or before one that never ends for good."""
        if rest_s in (0.0, np.inf):
            work_s = rest_s = np.inf
        before_s, worked_s, rested_s = self._rows[:, job]
        # A renewal that comes when the next spell begins anyway changes nothing.
        same = worked_s == work_s < np.inf and rested_s == rest_s and before_s < np.inf
        if same and (ready_s - before_s) % (work_s + rest_s) == 0:
            ready_s = before_s
        self.changed |= (before_s, worked_s, rested_s) != (ready_s, work_s, rest_s)
        self._rows[:, job] = ready_s, work_s, rest_s

    def rest(self, job: int) -> None:
        """Let a job hold its GPUs and do nothing."""
        self.changed = True
        self._rows[0, job] = np.inf

    def of(self, jobs: Any) -> Spells:
        """Return the spells of some jobs."""
        self.changed = False
        return Spells(*self._rows[:, jobs])

    def state(self) -> list[list[float]]:
        """Return all of it, for JSON."""
        return self._rows.tolist()  # type: ignore[no-any-return]

    def restore(self, state: list[list[float]]) -> None:
        """Take up a state of `state`."""
        self._rows = np.array(state)
