"""Leases as a scheduler: jobs hold GPUs for a while, give them back, and are offered what is free.

    event -> LeaseScheduler.decide -> JobQueue.first -> ActiveLeases.take -> Decision
             who ends, who comes      who accepts what  who holds what

Everything happens at multiples of `apportion.mechanisms.settings.TICK_S`. Of what happens in one
instant completions come first, then arrivals, then the returns of GPUs; then what is free is
offered. Jobs whose leases end in one instant give back together, before any of them chooses.
"""

from __future__ import annotations

import math
import time
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.leases.active import ActiveLeases
from apportion.mechanism.leases.jobs import LeasedJobs, on_tick
from apportion.mechanism.leases.renewals import RenewalForecast
from apportion.mechanism.leases.timers import DelayTimers
from apportion.mechanism.scheduler import NOBODY
from apportion.mechanisms.settings import TICK_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.mechanism.decider import About
    from apportion.mechanism.leases.queue import JobQueue
    from apportion.mechanism.leases.terms import OfferScheduler
    from apportion.mechanism.scheduler import Decision, Event
    from apportion.mechanisms.past import Past
    from apportion.types import Ints


class LeaseScheduler:
    """Ends leases, offers what is free, and counts what starts and checkpoints cost.

    Parameters
    ----------
    terms
        What leases are like.
    about
        Jobs, those to come included, and devices in whole racks.
    queue
        Who waits, and who is first to accept what.

    Attributes
    ----------
    timers
        Delay timers in force.
    noted
        Is told (time, GPUs of the gang) whenever the delay timers of a size may have changed;
        nobody by default.
    """

    event_driven = True

    def __init__(self, terms: OfferScheduler, about: About, queue: JobQueue) -> None:
        self.name, self._terms, table = f"Scheduler {terms.label!r}", terms, about.jobs
        gpus, types = table.scale.tolist(), table.job_type
        if hasattr(terms.rule, "check"):
            for job_type in dict.fromkeys(types):
                terms.rule.check(job_type)
        self._jobs, self._queue = LeasedJobs(about), queue
        pause_s: list[float] = on_tick(terms.checkpoints_s(types, gpus)).tolist()
        self._leases = ActiveLeases(about.devices, self._jobs, pause_s)
        machines = [pool.gpus for pool in about.devices.pools]
        self.timers = DelayTimers(
            *(terms.timers, terms.lease_s),
            machine_gpus=max(int(each.max()) for each in machines),
            rack_gpus=max(int(each.sum(axis=1).max()) for each in machines),
        )
        queue.bind(self._jobs, self.timers, self._leases)
        self._lease_s = max(float(on_tick(terms.lease_s)), TICK_S)
        first_s, self._later_s = (on_tick(each).tolist() for each in terms.starts_s(types, gpus))
        if "start_included" in table.facts:  # whoever has not started has not run either
            first_s = table.lost_s(np.arange(table.jobs), np.array(first_s)).tolist()
        self._first_s: list[float] = first_s
        self._started = [False] * table.jobs
        self._renewals = RenewalForecast(self._leases, queue, self._lease_s, self._renewed)
        self._change_s, self._asked_s = inf, 0.0
        self.noted: Callable[[float, int], None] | None = None
        self.seconds, self.offers = 0.0, 0
        self._sizes: dict[int, None] = {}  # of gangs that have got GPUs, for tables

    def take_over(self, past: Past) -> Ints:
        """Begin in the middle: leases end now, but of jobs that must stay."""
        now_s, jobs, queue = past.now_s, self._jobs, self._queue
        jobs.run_s[:, ::3] = jobs.table.held_s  # at which tier is no matter
        for job in jobs.table.active.tolist():
            jobs.arrive(job)
            queue.join(job, float(on_tick(now_s - past.waited_s[job])))
            self._started[job] = bool(jobs.table.held_s[job].any())
        for job, held in past.held.items():
            queue.leave(job)
            self._leases.take_over(job, held, inf if past.stays[job] else now_s)
            self._leases.placer.remember(job, jobs.table.job_type[job])
            self._leases.duty[:, job] = now_s, inf, inf
            self._started[job] = True
        queue.take_over(past)
        self._change_s = now_s
        return NOBODY

    def decide(self, event: Event) -> Decision | None:
        """Take in what happened, end the leases that are over, and offer what is free."""
        now_s, ran, leases = event.now_s, event.ran, self._leases
        before_s, self._asked_s = self._asked_s, now_s
        done = list[int]()
        if ran is not None:
            self._jobs.book(ran)
            self._queue.observe(ran)
            done = ran.done.tolist()
        happened = bool(done or event.arrived.size or now_s == self._change_s)
        ending = leases.due(now_s, last=not happened)
        if not (happened or ending):
            return None
        if not happened and self._renewals.will_renew(ending):
            changed = self._renewals.renew(ending, now_s)
            return leases.decision(offered=False) if changed else None
        # The last jobs may have been done long before the next one came.
        self.wake(now_s if ran is None else before_s + ran.length_s)
        last = not happened and not any(leases.pause_s[job] for job in ending)
        ending += leases.due(now_s, last=last)  # of those whose renewals were passed over
        for job in done:
            leases.complete(job)
        for job in event.arrived.tolist():
            self._jobs.arrive(job)
            self._queue.join(job, now_s)
        for job in sorted(ending):
            leases.give_back(job)
            self._queue.join(job, now_s)
        self._offer(now_s)
        return leases.decision(offered=True)

    def valid_for_s(self, now_s: float) -> float:
        """Return the time to the next return of GPUs or end of a delay timer."""
        return min(self._leases.next_s, self._change_s) - now_s

    def unchanged_until_s(self, now_s: float) -> float:
        """Promise nothing: leases without an event are in the duty cycle, and need no decision."""
        return now_s

    def figures(self) -> dict[str, Any]:
        """Return how often GPUs were offered, and how long that took, as a run calls it."""
        return {"policy_seconds": self.seconds, "solves": self.offers}

    def wake(self, now_s: float) -> None:
        """Count the leases that were passed over up to now, for who asks for the timers."""
        self._renewals.wake(now_s)

    def _offer(self, now_s: float) -> None:
        """Offer what is free until nobody accepts; running jobs may move, which leaves more."""
        started, leases, fresh = time.perf_counter(), self._leases, set[int]()
        more = True
        while more:
            self.offers += 1
            had = self._granted(now_s)
            for job, again in had.items():
                self._start(job, now_s, again=again)
            fresh |= {job for job, again in had.items() if not again}
            more = self._terms.migrates and self._migrate(fresh, now_s)
        self._tell_timers(now_s)
        leases.forget()
        change_s = self._queue.next_change_s(now_s, leases.room) if self._queue.size else inf
        self._change_s = math.ceil(change_s / TICK_S) * TICK_S if change_s < inf else inf
        self.seconds += time.perf_counter() - started

    def _granted(self, now_s: float) -> dict[int, bool]:
        """Give GPUs to who accepts some, one by one; return who got any, and who had them."""
        queue, leases, had = self._queue, self._leases, dict[int, bool]()
        queue.begin(now_s)
        while queue.size and (candidate := queue.first(now_s, leases.room)):
            again = leases.take(candidate)
            if again is None:
                queue.decline(candidate)
                continue
            job = candidate.job
            queue.leave(job)
            tier = max(candidate.tightest, self._jobs.option.item(job) % 3)
            self._record(job, tier, now_s, now_s - self._jobs.released_s.item(job))
            had[job] = again
        if had and leases.placer.compares_whole:
            had = leases.compare(had)
        return had

    def _start(self, job: int, now_s: float, *, again: bool) -> None:
        """Let a job work for a lease; it loses a start unless it has `again` what it had."""
        lost_s = (self._later_s if self._started[job] else self._first_s)[job]
        self._started[job] = True
        self._leases.work(job, now_s if again else now_s + lost_s, now_s + self._lease_s)

    def _migrate(self, fresh: set[int], now_s: float) -> bool:
        """Move running jobs to faster GPUs for the rest of their leases; return whether any did.

        Who is `fresh` has come to its GPUs in this instant, and loses nothing more.
        """
        leases, moved = self._leases, False
        if not any(leases.room):
            return False
        for job in sorted([job for job in leases.held if not leases.is_at_best(job)]):
            end_s = leases.end_s(job)
            better = leases.better(job) if end_s > now_s else None
            if better is None:
                continue
            again, ready_s = leases.move(job, *better), max(leases.duty.item(0, job), now_s)
            if again:  # it has come back to what it had
                ready_s = now_s
            elif job not in fresh:
                ready_s = min(now_s + self._later_s[job], end_s)
            (fresh.discard if again else fresh.add)(job)
            leases.work(job, ready_s, end_s)
            moved = True
        return moved

    def _record(self, job: int, tier: int, now_s: float, wait_s: float) -> None:
        """Tell the delay timers for how long a job waited before it got a tier."""
        gpus = self._jobs.gpus[job]
        self._sizes[gpus] = None
        if self.timers.record(tier, gpus, now_s, wait_s):
            self._queue.timers_changed(gpus)

    def _renewed(self, job: int, now_s: float) -> None:
        """Tell the delay timers of a renewal that was passed over."""
        if self._terms.timers.tuned:
            self._record(job, self._jobs.option.item(job) % 3, now_s, 0.0)
            self._tell_timers(now_s)

    def _tell_timers(self, now_s: float) -> None:
        """Let tables have the timers of the gangs that have got GPUs."""
        if self.noted is not None:
            for gpus in self._sizes:
                self.noted(now_s, gpus)
        self._sizes.clear()
