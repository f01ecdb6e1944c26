"""Whether a job whose lease ends would get the GPUs again that it has.

Leases that follow each other without a change.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.mechanisms.settings import TICK_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.mechanism.offers.candidates import Served
    from apportion.mechanism.offers.holdings import Holdings
    from apportion.mechanism.offers.leased_jobs import LeasedJobs
    from apportion.mechanism.offers.offering import Offering
    from apportion.mechanism.offers.timer_book import TimerBook
    from apportion.mechanism.offers.waiting import ClusterSize


class Renewals(NamedTuple):
    """A job gets the same GPUs again at `first_s` and then every `cycle_s`, in seconds."""

    first_s: float
    cycle_s: float

    def before(self, now_s: float) -> int:
        """Return how many renewals lie before a time."""
        return max(math.ceil((now_s - self.first_s) / self.cycle_s), 0)

    def start_s(self, number: int) -> float:
        """Return the time of a renewal; the first one is number 0."""
        return self.first_s + number * self.cycle_s

    def remembered(self, now_s: float, history_s: float) -> list[float]:
        """Return the times of renewals before now of which delay timers must be told.

        Those between the first and the last stretch of the timers' history are left out: by then
        no longer wait is remembered, and one more wait of nothing changes nothing.
        """
        count = self.before(now_s)
        if not count:
            return []
        edge = math.ceil(history_s / self.cycle_s) + 1
        numbers = [*range(min(count, edge)), *range(max(edge, count - edge), count)]
        return [self.start_s(number) for number in numbers]


def remembered(
    asleep: Mapping[int, Renewals], now_s: float, history_s: float
) -> list[tuple[float, int]]:
    """Return time and job of renewals of which delay timers must be told, in order."""
    return sorted(
        (renewed_s, job)
        for job, renewals in asleep.items()
        for renewed_s in renewals.remembered(now_s, history_s)
    )


class Keeping:
    """Asks what would come of an offer if a job gave its GPUs back, and leaves all as it is.

    Parameters
    ----------
    jobs, holdings, timers, size
        What is known of jobs, GPUs, delay timers, and machines.
    offering
        Knows who takes what.
    whatever_the_rule
        Whether a job accepts the tier that it has, whatever its rule.
    """

    def __init__(
        self,
        jobs: LeasedJobs,
        holdings: Holdings,
        timers: TimerBook,
        size: ClusterSize,
        offering: Offering,
        *,
        whatever_the_rule: bool,
    ) -> None:
        self._jobs, self._holdings, self._offering = jobs, holdings, offering
        self._timers, self._size = timers, size
        self._whatever_the_rule = whatever_the_rule
        self._alone: dict[tuple[int, int, bool, bool], Served | None] = {}

    def keeps(self, job: int, now_s: float) -> bool:
        """Whether a job whose lease ends now would get the GPUs that it has.

        That is if, with these given back, it is the first to accept anything and finds nothing
        better.
        """
        served = self._served_again(job, now_s, self._holdings.room_with([job]))
        return self._offering.stays(job, served, self._jobs.tier.item(job))

    def surely_keeps(self, job: int, now_s: float) -> bool:
        """Whether a job would get the GPUs that it has at every end of a lease from now on.

        That is if it is on its best placement (whoever asks has looked), nobody waits, and it
        accepts no tighter tier and no other type even if all were free. Then leases need not be
        told apart until a job arrives, completes, or waits. Placements that choose anew promise
        nothing.
        """
        if self._jobs.waiting_of_size or self._holdings.placer.chooses_anew:
            return False
        served = self._served_alone(job, now_s)
        if served is None or served.tightest < self._jobs.tier[job]:
            return False
        return self._offering.stays(job, served, self._jobs.tier.item(job))

    def _served_alone(self, job: int, now_s: float) -> Served | None:
        """Say what a job would accept that waits from now on, alone, everything being free."""
        size = self._jobs.told.scale[job]
        machine_s, rack_s = self._timers.of_size[size]
        if not self._size.alike:
            (beyond,) = self._size.beyond(size[None], self._jobs.runs_on(np.array([job])))
            machine_s, rack_s = self._timers.timers_s(int(size), int(beyond))
        if not self._offering.steady or 0 < machine_s < TICK_S or 0 < rack_s < TICK_S:
            return self._served_again(job, now_s, self._holdings.room_of_all)
        key = job, int(self._jobs.option(job)), machine_s == 0, rack_s == 0
        if key not in self._alone:
            self._alone[key] = self._served_again(job, now_s, self._holdings.room_of_all)
        return self._alone[key]

    def _served_again(self, job: int, now_s: float, room: Sequence[int]) -> Served | None:
        """Say what a job that waits from now on would accept; None if another comes first."""
        jobs, option, released_s = self._jobs, self._jobs.option(job), self._jobs.released_s[job]
        jobs.wait(job)
        jobs.released_s[job] = now_s
        waiting = self._offering.serving.waiting(room)
        if self._whatever_the_rule:
            waiting = replace(waiting, held_option=np.where(waiting.job == job, option, -1))
        served = self._offering.serving.first_of(now_s, waiting)
        jobs.wait(job, waits=False)
        jobs.released_s[job] = released_s
        return served if served is not None and served.job == job else None
