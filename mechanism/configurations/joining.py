"""Workers that prepare while those that a job had before train on, as under EDL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.resumable import Resumable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from apportion.mechanism.devices import Held

__all__ = ["Joining"]

_ROUNDING = 1e-12


class Joining(Resumable):
    """Which GPUs of which jobs work, where others are not ready yet, and when they will be.

    New workers prepare for as long as a restart takes, perhaps for some mini-batches of the old
    ones more, and all that are new join at the same time. If there are more new ones before that,
    they all begin anew.
    """

    kept = ("_old", "_due_s")

    def __init__(self) -> None:
        self._old: dict[int, list[int]] = {}
        self._due_s: dict[int, float] = {}

    def working(self, job: int) -> list[int] | None:
        """Return the devices that work; None for all that the job has."""
        return self._old.get(job)

    def of(self, jobs: NDArray[np.intp]) -> list[list[int] | None] | None:
        """Return the devices of each of some jobs that work; None if all do of all."""
        return [self._old.get(job) for job in jobs.tolist()] if self._old else None

    @property
    def next_s(self) -> float:
        """When workers join next; infinite if none prepare."""
        return min(self._due_s.values(), default=float("inf"))

    def join(self, now_s: float) -> list[int]:
        """Let workers join that are ready; return their jobs, ascending."""
        late_s = now_s + _ROUNDING * abs(now_s)
        ready = sorted(job for job, due_s in self._due_s.items() if due_s <= late_s)
        self.forget(ready)
        return ready

    def forget(self, jobs: Iterable[int]) -> None:
        """Let jobs have nobody that prepares."""
        for job in jobs:
            self._old.pop(job, None)
            self._due_s.pop(job, None)

    def change(self, job: int, before: Held | None, now: Held, ready_s: float) -> bool:
        """Let a job have other devices; tell whether some that worked go on.

        Parameters
        ----------
        job, before, now
            What it had, and has.
        ready_s
            When workers that begin now are ready.
        """
        old, due_s = self._old.pop(job, None), self._due_s.pop(job, ready_s)
        if before is None or before[0] != now[0]:
            return False
        stay = _common(now[1], before[1] if old is None else old)
        if stay and len(stay) < len(now[1]):
            self._old[job] = stay
            begun = len(_common(now[1], before[1])) == len(now[1])
            self._due_s[job] = due_s if begun else ready_s
        return bool(stay)


def _common(devices: Sequence[int], others: Sequence[int]) -> list[int]:
    return [device for device in devices if device in others]
