"""Who is served first: asked anew for each gift, or once in an instant for all turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from apportion.cluster import TIERS
from apportion.mechanism.offers.candidates import Served, first_served
from apportion.mechanism.offers.ranking import Ranking
from apportion.mechanism.offers.waiting import WaitingJobs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from apportion.mechanism.offers.candidates import Takers
    from apportion.mechanism.offers.leased_jobs import LeasedJobs
    from apportion.mechanism.offers.timer_book import TimerBook
    from apportion.mechanism.offers.waiting import ClusterSize
    from apportion.types import Bools

    Turn = tuple[int, int, Sequence[int]]


@runtime_checkable
class InTurn(Protocol):
    """Who says in which turn jobs take what: the other way, beside `Takers`, to decide that."""

    @property
    def lasts(self) -> bool:
        """Whether turns, once said, are the same however many GPUs are given in the instant."""
        ...

    def turns(self, now_s: float, waiting: WaitingJobs) -> Iterator[Turn]:
        """Give waiting jobs: number, GPUs, and options that it accepts, best first.

        Option ``type * 3 + tier`` is a tier of an accelerator type. A job may have several turns.
        """
        ...

    def next_change_s(self, now_s: float, waiting: WaitingJobs) -> float:
        """Return when a job will accept what it rejects now, see `Takers`."""
        ...


class Turns:
    """Turns of one instant: whoever does not wait or finds no room has had its turn for good.

    Parameters
    ----------
    turns
        As `InTurn.turns` gives them.
    waits
        Which jobs wait, kept up to date by whoever gives, shape (jobs,).
    """

    def __init__(self, turns: Iterator[Turn], waits: Bools) -> None:
        self._turns, self._waits = turns, waits
        self._next = next(turns, None)

    def first(
        self, room: Sequence[int], declined: Collection[tuple[int, int]] = ()
    ) -> Served | None:
        """Return the first who waits and finds room on a type not declined; None for nobody."""
        waits, most = self._waits, max(room)
        while self._next is not None:
            job, gpus, options = self._next
            for option in options if gpus <= most else ():
                if gpus <= room[option] and waits.item(job):
                    kind, tier = divmod(option, len(TIERS))
                    if (job, kind) not in declined:
                        return Served(job, tier, tier, kind)
            self._next = next(self._turns, None)
        return None


class FirstServed:
    """Asks who of the waiting jobs is served first.

    Parameters
    ----------
    takers
        Decides who takes what.
    jobs, timers, size
        Who waits, for how long jobs hold out, and how large machines and racks are.
    """

    def __init__(
        self, takers: Takers | InTurn, jobs: LeasedJobs, timers: TimerBook, size: ClusterSize
    ) -> None:
        self._jobs, self._timers, self._size = jobs, timers, size
        self._takers: Any = takers
        self._in_turn = isinstance(takers, InTurn)
        self._turns: Turns | None = None
        self._ranking = Ranking.of(takers, jobs, timers, size)

    def begin(self) -> None:
        """Begin an instant, in which from now on GPUs are only given and nobody comes to wait."""
        self._turns = None

    def first(
        self, now_s: float, room: Sequence[int], declined: Sequence[tuple[int, int]] = ()
    ) -> Served | None:
        """Return who is served first if there is so much room, of jobs and types not declined."""
        if self._turns is not None:
            return self._turns.first(room, declined)
        if self._ranking is not None and not declined and not self._jobs.prefers_wider:
            return self._ranking.first(now_s, room)
        return self.first_of(now_s, self.waiting(room, declined), declined, lasts=True)

    def first_of(
        self,
        now_s: float,
        waiting: WaitingJobs,
        declined: Sequence[tuple[int, int]] = (),
        *,
        lasts: bool = False,
    ) -> Served | None:
        """Return the first of some waiting jobs; their turns may last for the instant."""
        takers = self._takers
        if not waiting.job.size:
            return None
        if not self._in_turn:
            return first_served(takers, now_s, waiting)
        turns = Turns(takers.turns(now_s, waiting), self._jobs.waiting)
        if lasts and takers.lasts:
            self._turns = turns
        return turns.first(waiting.room, declined)

    def waiting(self, room: Sequence[int], declined: Sequence[tuple[int, int]] = ()) -> WaitingJobs:
        """Describe the waiting jobs that could have GPUs if there is so much room.

        Parameters
        ----------
        room
            GPUs at every option.
        declined
            Jobs and types on which the placement has had no place for them.
        """
        job, jobs = self._jobs.able(max(room)), self._jobs
        if not declined:
            return WaitingJobs(job, jobs, self._timers, self._size, room)
        has = np.zeros((jobs.told.jobs, jobs.types), dtype=bool)
        has[tuple(np.transpose(declined))] = True
        job = job[~has[job].all(axis=1)]
        return WaitingJobs(job, jobs, self._timers, self._size, room, declined=has[job])
