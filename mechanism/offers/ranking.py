"""The waiting jobs in the order of their turns, kept from offer to offer."""

from __future__ import annotations

from bisect import bisect_left, insort
from math import inf, isclose
from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.decider import promises
from apportion.mechanism.offers.candidates import InOrder, Served
from apportion.mechanism.offers.holders import whole_ticks
from apportion.mechanism.offers.waiting import WaitingJobs
from apportion.mechanism.orders import keys_of
from apportion.mechanisms.settings import TICK_S
from apportion.ties import EXACT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.offers.candidates import Takers
    from apportion.mechanism.offers.leased_jobs import LeasedJobs
    from apportion.mechanism.offers.serving import InTurn
    from apportion.mechanism.offers.timer_book import TimerBook
    from apportion.mechanism.offers.waiting import ClusterSize

    Turn = tuple[float, ...]  # keys of the order, the start of the wait, and the job


class _Alike:
    """Jobs of one size that accept each tier after the same wait."""

    def __init__(self, gpus: int) -> None:
        self.gpus = gpus
        self.turns: list[Turn] = []  # of those that wait and are ranked, ascending
        self.timers: tuple[float, float] | None = None  # of which the patience follows
        self.patience_s: list[float] = []


class Ranking:
    """Finds the first job to accept anything that is free, without a look at all that wait.

    For orders whose keys stay as they are while a job waits (`Order.lasting`), and rules by which
    jobs of one size and model accept the same after the same wait (`Rule.steady`), on one type of
    GPU. A job that gets GPUs as soon as it waits, as when a lease is renewed, is not ranked.

    Parameters
    ----------
    takers
        Order and rule.
    jobs, timers, size
        Who waits, for how long jobs hold out, and how large machines and racks are.
    """

    def __init__(
        self, takers: InOrder, jobs: LeasedJobs, timers: TimerBook, size: ClusterSize
    ) -> None:
        self._order, self._rule = takers.order, takers.rule
        self._jobs, self._timers, self._size = jobs, timers, size
        self._by_model = bool(takers.rule.job_types)
        self._kinds: dict[tuple[int, int], _Alike] = {}
        self._alike: dict[int, _Alike] = {}  # of each job that has waited
        self._turn: dict[int, Turn] = {}
        self._turns: list[Turn] = []  # the same, ascending

    @classmethod
    def of(
        cls, takers: Takers | InTurn, jobs: LeasedJobs, timers: TimerBook, size: ClusterSize
    ) -> Ranking | None:
        """Return the ranking of whoever decides, None where there is none to be kept."""
        if not isinstance(takers, InOrder) or not takers.steady or not size.alike:
            return None
        lasts = jobs.types == 1 and promises(takers.order, "lasting", "keys", "turn")
        return cls(takers, jobs, timers, size) if lasts else None

    def first(self, now_s: float, room: Sequence[int]) -> Served | None:
        """Return the first job to accept what is free; None if there is none.

        Parameters
        ----------
        now_s
            The time, seconds.
        room
            Most GPUs that one gang can have free at each tier.
        """
        new, best = self._begun(), self._first_ranked(now_s, room)
        accept = {job: tiers for job in new if (tiers := self._tiers(job, now_s, room))}
        alone = best is None and len(accept) == 1
        self._jobs.turned = {*accept} if alone else set()
        if alone:
            (first,) = accept
            new.remove(first)
        if new:
            self._rank(new, now_s)
        if not alone:
            turns = [self._turn[job] for job in accept] + ([] if best is None else [best])
            if not turns:
                return None
            first = int(min(turns)[-1])
        tiers = accept.get(first) or self._tiers(first, now_s, room)
        return Served(first, tiers[0], tiers[-1])

    def _begun(self) -> list[int]:
        """Forget who waits no more, and return who has begun to wait, ascending."""
        jobs, begun = self._jobs, list[int]()
        for job in jobs.turned:
            turn = self._turn.pop(job, None)
            if turn is not None:
                for turns in (self._turns, self._alike_of(job).turns):
                    del turns[bisect_left(turns, turn)]
            if jobs.waiting.item(job):
                begun.append(job)
        return sorted(begun)

    def _rank(self, new: list[int], now_s: float) -> None:
        """Let jobs stand where their turn is."""
        waiting = WaitingJobs(np.array(new), self._jobs, self._timers, self._size, ())
        keys = [*keys_of(self._order, now_s, waiting), waiting.released_s]
        for *key, job in zip(*(each.tolist() for each in keys), new, strict=True):
            turn = self._turn[job] = (*self._settled(key), job)
            insort(self._turns, turn)
            insort(self._alike_of(job).turns, turn)

    def _settled(self, key: list[float]) -> Turn:
        """Return keys with those of a ranked job in place of each that differs by rounding only."""
        settled: Turn = ()
        for value in key:
            place, known = bisect_left(self._turns, (*settled, value)), len(settled)
            for turn in self._turns[max(place - 1, 0) : place + 1]:
                if turn[:known] == settled and isclose(turn[known], value, rel_tol=EXACT):
                    value = turn[known]
            settled += (value,)
        return settled

    def _alike_of(self, job: int) -> _Alike:
        """Return those who accept what a job accepts."""
        alike = self._alike.get(job)
        if alike is None:
            jobs = self._jobs
            gpus = jobs.told.scale.item(job)
            key = gpus, jobs.type_code.item(job) if self._by_model else 0
            alike = self._alike[job] = self._kinds.setdefault(key, _Alike(gpus))
        return alike

    def _settle(self, alike: _Alike, job: int) -> None:
        """Ask the rule for how long a job rejects each tier, as all like it do."""
        waiting = WaitingJobs(np.array([job]), self._jobs, self._timers, self._size, ())
        (alike.patience_s,) = self._rule.patience_s(waiting).tolist()
        alike.timers = self._timers.of_size[alike.gpus]

    def _tiers(self, job: int, now_s: float, room: Sequence[int]) -> list[int]:
        """Return the tiers that a job accepts and finds free."""
        alike, tiers = self._alike_of(job), list[int]()
        gpus, released_s = alike.gpus, self._jobs.released_s.item(job)
        if alike.timers != self._timers.of_size[gpus]:
            self._settle(alike, job)
        for tier, wait_s in enumerate(alike.patience_s):
            if gpus <= room[tier] and (not wait_s or _is_over(released_s, wait_s, now_s)):
                tiers.append(tier)
        return tiers

    def _first_ranked(self, now_s: float, room: Sequence[int]) -> Turn | None:
        """Return the turn of the first ranked job to accept what is free."""
        best, most = None, max(room)
        for alike in self._kinds.values():
            turns, gpus = alike.turns, alike.gpus
            if gpus > most or not turns or (best is not None and best < turns[0]):
                continue
            if alike.timers != self._timers.of_size[gpus]:
                self._settle(alike, int(turns[0][-1]))
            wait_s = inf
            for each_s, free in zip(alike.patience_s, room, strict=True):
                if gpus <= free and each_s < wait_s:
                    wait_s = each_s
            if not wait_s:
                best = turns[0]
            elif wait_s < inf:
                best = self._over(turns, wait_s, now_s, best)
        return best

    def _over(
        self, turns: list[Turn], wait_s: float, now_s: float, best: Turn | None
    ) -> Turn | None:
        """Return the first turn of a job that has waited for so long, or one that comes before."""
        released_s = self._jobs.released_s
        for turn in turns:
            if best is not None and best < turn:
                break
            if _is_over(released_s.item(int(turn[-1])), wait_s, now_s):
                return turn
        return best


def _is_over(released_s: float, wait_s: float, now_s: float) -> bool:
    """Whether a wait that began at some time is over, to the tick."""
    over_s = released_s + wait_s
    return over_s <= now_s or (over_s < now_s + TICK_S and whole_ticks(over_s) <= now_s)
