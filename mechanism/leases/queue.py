"""Who waits for GPUs, and who is the first to accept some that are free.

`CandidateOrder` goes by an order and a rule. Policies are other queues (`apportion.sim.tiers`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.cluster import TIERS
from apportion.mechanism.decider import promises
from apportion.mechanism.leases.jobs import WaitingJobs, on_tick
from apportion.mechanism.orders import keys_of
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.leases.active import ActiveLeases
    from apportion.mechanism.leases.jobs import GangClass, LeasedJobs
    from apportion.mechanism.leases.rules import Rule
    from apportion.mechanism.leases.timers import DelayTimers
    from apportion.mechanism.orders import Order
    from apportion.mechanism.scheduler import GangProgress, Placement
    from apportion.mechanisms.past import Past
    from apportion.types import Floats

    Turn = tuple[float, ...]  # keys of the order, the start of the wait, and the job


class Candidate(NamedTuple):
    """A waiting job that accepts free GPUs of a type.

    Attributes
    ----------
    job, kind
        Its number, and the position of the accelerator type.
    tightest, widest
        Tiers that it accepts and finds free: it gets the fastest placement within the widest.
    placement
        Where just its GPUs are to be; ``None`` to leave that to the placement.
    """

    job: int
    kind: int
    tightest: int
    widest: int
    placement: Placement | None = None


class JobQueue:
    """Jobs that wait; a subclass says who is first.

    `bind` is called once, `begin` whenever GPUs are to be offered, and then `first` until it
    returns None.
    """

    jobs: LeasedJobs
    timers: DelayTimers
    leases: ActiveLeases

    def bind(self, jobs: LeasedJobs, timers: DelayTimers, leases: ActiveLeases) -> None:
        """Learn of which jobs, delay timers and leases this is the queue."""
        self.jobs, self.timers, self.leases = jobs, timers, leases
        self.size = 0
        self.declined = set[tuple[int, int]]()

    def join(self, job: int, now_s: float) -> None:
        """Let a job wait from now on."""
        self.jobs.released_s[job], self.jobs.waiting[job] = now_s, True
        self.size += 1

    def leave(self, job: int) -> None:
        """Let a job wait no more."""
        self.jobs.waiting[job] = False
        self.size -= 1

    def begin(self, now_s: float) -> None:
        """Begin to offer what is free at a time: nobody comes to wait until that is done."""
        self.declined.clear()

    def first(self, now_s: float, room: Sequence[int]) -> Candidate | None:
        """Return the first job to accept any of the GPUs that are free; None for nobody.

        Parameters
        ----------
        now_s
            The time, seconds.
        room
            Most GPUs that one gang can have free at each option ``type * 3 + tier``.
        """
        raise NotImplementedError

    def decline(self, candidate: Candidate) -> None:
        """Take in that the placement has no GPUs of that type for a job in this instant."""
        self.declined.add((candidate.job, candidate.kind))

    def next_change_s(self, now_s: float, room: Sequence[int]) -> float:
        """Return when a job accepts what it rejects now, or infinity for never, seconds."""
        raise NotImplementedError

    def accepts_at_once(self, job: int, option: int) -> bool:
        """Whether a job that waits alone would surely take GPUs at an option again."""
        return False

    def timers_changed(self, gpus: int) -> None:
        """Take in that the delay timers of gangs of a size have changed."""
        return

    def observe(self, ran: GangProgress) -> None:
        """Learn from what ran."""
        return

    def take_over(self, past: Past) -> None:
        """Begin in the middle."""
        return

    def waiting(self, room: Sequence[int]) -> WaitingJobs:
        """Return the waiting jobs that need no more GPUs than are free for one gang."""
        here = self.jobs.table.active
        job = here[self.jobs.waiting[here]]
        job = job[self.jobs.table.scale[job] <= max(room)]
        return WaitingJobs(job, self.jobs, self.timers, room)


class CandidateOrder(JobQueue):
    """Jobs in an order, each accepting by a rule; see `OfferScheduler`.

    Jobs that accept the same after the same wait stand in one sorted list (`GangClass.turns`), so
    that most of those that wait are not looked at.

    Parameters
    ----------
    order
        Whose turn it is.
    rule
        Which tiers a job accepts after which wait.
    """

    def __init__(self, order: Order, rule: Rule) -> None:
        self._order, self._rule = order, rule
        self._lasting = promises(order, "lasting", "keys", "turn")
        self._steady = promises(rule, "steady", "patience_s")
        self._turn: dict[int, Turn] = {}
        self._new: dict[int, None] = {}
        self._classes: dict[int, GangClass] = {}  # of those that wait, by identity

    def join(self, job: int, now_s: float) -> None:
        """Let a job wait from now on; it has its turn when offers begin."""
        super().join(job, now_s)
        self._new[job] = None
        if not self._steady:  # nobody surely accepts what another accepts
            self.jobs.gang_class[job] = replace(self._class_of(job), waits_s=[], turns=[])

    def leave(self, job: int) -> None:
        """Let a job wait no more."""
        super().leave(job)
        self._new.pop(job, None)
        turn = self._turn.pop(job, None)
        if turn is not None:
            alike = self._class_of(job)
            del alike.turns[bisect_left(alike.turns, turn)]
            if not alike.turns:
                del self._classes[id(alike)]

    def begin(self, now_s: float) -> None:
        """Rank the jobs that are new, or all whose turns may have changed."""
        super().begin(now_s)
        if not self._steady:
            self.timers_changed(0)
        if not self._lasting:
            self._new |= dict.fromkeys(self._turn)
            for alike in self._classes.values():
                alike.turns.clear()
            self._turn.clear()
            self._classes.clear()
        if not self._new:
            return
        waiting = WaitingJobs(np.array([*self._new]), self.jobs, self.timers, ())
        keys = [*keys_of(self._order, now_s, waiting), waiting.released_s]
        for *key, released_s, job in zip(*(each.tolist() for each in keys), self._new, strict=True):
            # Rounded, or the last digits of sums would tell equal jobs apart.
            self._turn[job] = turn = (*map(significant, key), released_s, job)
            alike = self._class_of(job)
            insort(alike.turns, turn)
            self._classes[id(alike)] = alike
        self._new.clear()

    def first(self, now_s: float, room: Sequence[int]) -> Candidate | None:
        """Return the first job to accept anything that is free, and the type where it is fastest.

        Of equally fast types that with the tighter tier, then the one that it had last.
        """
        best: Turn | None = None
        accepted: list[int] = []
        most = max(room)
        for alike in self._classes.values():
            turns = alike.turns
            if alike.gpus > most or (best is not None and best < turns[0]):
                continue
            free, waits_s = _free_options(alike, room), self._waits_s(int(turns[0][-1]))
            wait_s = min([waits_s[k] for k in free], default=inf)
            for turn in turns if wait_s < inf else ():
                if best is not None and best < turn:
                    break
                if turn[-2] + wait_s <= now_s:
                    over = [k for k in free if turn[-2] + waits_s[k] <= now_s]
                    if self.declined:
                        job = int(turn[-1])
                        over = [k for k in over if (job, k // len(TIERS)) not in self.declined]
                    if over:
                        best, accepted = turn, over
                        break
        return None if best is None else self._candidate(int(best[-1]), accepted)

    def _candidate(self, job: int, accepted: Sequence[int]) -> Candidate:
        """Return what a job accepts of the fastest type."""
        kind = 0
        if self.jobs.run_s.shape[1] > len(TIERS):
            slowdown = self._class_of(job).slowdown
            last = self.jobs.option.item(job) // len(TIERS)

            def worth(k: int) -> tuple[float, int, bool, int]:
                return significant(slowdown[k]), k % len(TIERS), k // len(TIERS) != last, k

            kind = min(accepted, key=worth) // len(TIERS)
            accepted = [k for k in accepted if k // len(TIERS) == kind]
        return Candidate(job, kind, accepted[0] % len(TIERS), accepted[-1] % len(TIERS))

    def next_change_s(self, now_s: float, room: Sequence[int]) -> float:
        """Return when the next delay timer ends for which GPUs are free, seconds."""
        change_s, most = inf, max(room)
        for alike in self._classes.values():
            if alike.gpus <= most:
                waits_s = self._waits_s(int(alike.turns[0][-1]))
                for wait_s in {waits_s[k] for k in _free_options(alike, room)} - {0.0, inf}:
                    ends_s = [turn[-2] + wait_s for turn in alike.turns]
                    change_s = min([change_s, *(end_s for end_s in ends_s if end_s > now_s)])
        return change_s

    def accepts_at_once(self, job: int, option: int) -> bool:
        """Whether a job takes GPUs at an option, or a wider one of the type, without a wait."""
        end = option - option % len(TIERS) + len(TIERS)
        return self._steady and 0.0 in self._waits_s(job)[option:end]

    def timers_changed(self, gpus: int) -> None:
        """Ask the rule again about gangs of a size; about all if it may go by anything."""
        for alike in (self.jobs.classes if self._steady else self._classes).values():
            if alike.gpus == gpus or not self._steady:
                alike.waits_s = []

    def _waits_s(self, job: int) -> list[float]:
        """Return the wait after which a job, as all of its class, accepts each option."""
        alike = self._class_of(job)
        if not alike.waits_s:
            waiting = WaitingJobs(np.array([job]), self.jobs, self.timers, ())
            (alike.waits_s,) = on_tick(waits_s(self._rule, waiting)).tolist()
        return alike.waits_s

    def _class_of(self, job: int) -> GangClass:
        return self.jobs.gang_class[job]


def _free_options(alike: GangClass, room: Sequence[int]) -> list[int]:
    """Return the options at which one of some gangs could have GPUs."""
    gpus, runs_at = alike.gpus, alike.runs_at
    return [k for k, free in enumerate(room) if gpus <= free and runs_at[k]]


def accepts_from_s(rule: Rule, waiting: WaitingJobs) -> Floats:
    """Return when each job begins to accept each option, seconds, shape (waiting, options)."""
    return np.asarray(on_tick(waiting.released_s[:, None] + waits_s(rule, waiting)))


def next_acceptance_s(rule: Rule, now_s: float, waiting: WaitingJobs) -> float:
    """Return when the first job accepts by a rule what is free and not accepted now, seconds."""
    from_s = accepts_from_s(rule, waiting)
    return float(from_s[waiting.fits & (from_s > now_s)].min(initial=inf))


def waits_s(rule: Rule, waiting: WaitingJobs) -> Floats:
    """Return the waits after which each job accepts each option, seconds, shape (waiting, options).

    They are those of the rule by tier, whatever the type, but for a gang that is faster at a wider
    tier of a type: it does not hold out for a tighter one there.
    """
    waits: Any = np.asarray(rule.patience_s(waiting), dtype=np.float64)
    if waiting.types > 1:
        waits = np.tile(waits, waiting.types)
    for row, alike in enumerate(waiting.gang_classes):
        for tight, wide in alike.wider_faster:
            waits[row, wide] = min(waits[row, tight], waits[row, wide])
    return np.asarray(waits)
