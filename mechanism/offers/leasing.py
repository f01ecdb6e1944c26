"""Leases as a scheduler: jobs hold GPUs for a while, give them back, and are offered what is free.

Everything happens at multiples of `apportion.mechanism.offers.waiting.TICK_S`. Of what happens in
one instant completions come first, then arrivals, then returns of GPUs; then GPUs are offered; then
leases end, which may depend on who still waits.

Between two leases of a job that is sure to get the same GPUs again, nothing happens that another
job could notice. The job then sleeps: whoever lets it run knows from its `DutyCycle` when it works
and when it saves its state, and its leases are counted when a job arrives, completes or
gives GPUs back.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.offers.holders import (
    DutyCycles,
    End,
    Ends,
    Holders,
    next_tick,
    whole_ticks,
)
from apportion.mechanism.offers.keeping import Renewals, remembered
from apportion.mechanism.scheduler import NOBODY
from apportion.mechanisms.settings import TICK_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.offers.mechanism import LeaseMechanism
    from apportion.mechanism.offers.offering import Lease
    from apportion.mechanism.scheduler import Decision, Event, GangProgress
    from apportion.mechanisms.past import Past
    from apportion.types import Floats, Ints


class LeaseScheduler:
    """Offers, leases, checkpoints and migrations, see `apportion.mechanism.scheduler.Scheduler`.

    Parameters
    ----------
    mechanism
        Jobs, GPUs and timers, before the first job.
    told
        What is known of the jobs, those to come included.
    judged_as
        Job types as the scheduler's rule spells them, length (jobs,).
    learns
        Is told of what ran.
    every_lease
        Whether each lease is an event of its own: who decides may give a job that is on its best
        placement another one when nobody waits.

    Attributes
    ----------
    seconds
        Real time spent in offers, seconds.
    offers
        How often GPUs were offered.
    timers
        Delay timers in force.
    noted
        Is told of (time, GPUs of the gang) whenever the delay timers of a size may have changed;
        nobody by default.
    """

    event_driven = True

    def __init__(
        self,
        mechanism: LeaseMechanism,
        told: JobTable,
        judged_as: Sequence[str],
        *,
        learns: Callable[[GangProgress], None] | None = None,
        every_lease: bool = False,
    ) -> None:
        self._mechanism, self._terms, self._told = mechanism, mechanism.scheduler, told
        self.name = f"Scheduler {self._terms.label!r}"
        self._judged_as, self._learns = judged_as, learns
        self.timers = mechanism.timers
        self.noted: Callable[[float, int], None] | None = None
        self._lease_s = max(whole_ticks(self._terms.lease_s), TICK_S)
        self._scale: list[int] = told.scale.tolist()
        self._fastest: Floats = told.speed.max(axis=1)
        # Who ran last, where this is booked, and how fast each is at most.
        self._ran: tuple[Ints, Ints, Floats] = (NOBODY, NOBODY, np.empty(0))
        self._ends = Ends(told.jobs)
        self._asleep: dict[int, Renewals] = {}
        self._change_s, self._asked_s = np.inf, 0.0
        self._holders = Holders(told.scale, mechanism.placer.devices)
        job_types = told.job_type
        self._pause_s = [whole_ticks(s) for s in self._terms.checkpoints_s(job_types, self._scale)]
        # Of one instant, leases with a checkpoint end before those without. Where there are both,
        # who sleeps would have to know which of its own leases come before those of others.
        self._sleeps = not every_lease and (all(self._pause_s) or not any(self._pause_s))
        starts_s = self._terms.starts_s(job_types, self._scale)
        self._first_s, self._later_s = ([whole_ticks(s) for s in each] for each in starts_s)
        if "start_included" in told.facts:  # whoever has not started has not run either
            every = np.arange(told.jobs)
            self._first_s = told.lost_s(every, np.array(self._first_s)).tolist()
        self._end_s = [0.0] * told.jobs  # of the present lease of each holder
        self._started = [False] * told.jobs
        self._duty_cycles = DutyCycles(told.jobs)
        self.seconds, self.offers = 0.0, 0

    def take_over(self, past: Past) -> Ints:
        """Begin in the middle: leases end now, but of jobs that must stay."""
        now_s, fleeting = past.now_s, not self._terms.keep_placement
        for job in self._told.active.tolist():
            waited_s = float(past.waited_s[job])
            self._mechanism.admit(job, now_s - waited_s, self._judged_as[job])
            self._started[job] = bool(self._told.held_s[job].any())
        self._mechanism.take_over(past)
        for job, held in past.held.items():
            self._holders.take_over(job, held)
            self._duty_cycles.work(job, now_s, np.inf, np.inf)
            self._started[job], self._end_s[job] = True, np.inf
            if not past.stays[job]:
                self._end_s[job] = now_s
                self._ends.put(now_s, End.RETURN if fleeting else End.EXPIRY, job)
        self._expire(now_s)
        self._change_s = now_s
        return NOBODY

    def decide(self, event: Event) -> Decision | None:
        """Take in what happened, offer what is free, and end the leases that end now."""
        now_s, ran = event.now_s, event.ran
        done = NOBODY if ran is None else ran.done
        if ran is not None:
            self._book(ran)
        happened = bool(done.size or event.arrived.size)
        if happened:
            # The last jobs may have been done long before the next one came.
            self.wake(now_s if ran is None else self._asked_s + ran.length_s)
            for job in done.tolist():
                self._ends.drop(job)
                self._holders.complete(job)
                self._mechanism.complete(job)
            for job in event.arrived.tolist():
                self._mechanism.admit(job, now_s, self._judged_as[job])
        elif self._change_s != now_s and not self._ends.due(now_s, End.RETURN):
            self._expire(now_s)
        ending = self._taken_back(now_s, all_sure=not happened)
        offered = happened or bool(ending) or now_s == self._change_s
        if offered:
            self._offer(now_s, ending)
            self._expire(now_s)
        self._asked_s = now_s
        if not (offered or self._duty_cycles.changed):
            return None
        return self._holders.change(self._duty_cycles, self._mechanism.jobs.kind, offered=offered)

    def valid_for_s(self, now_s: float) -> float:
        """Return the time to the next end of a lease, return of GPUs, or end of a delay timer."""
        return min(self._ends.next_s, self._change_s) - now_s

    def unchanged_until_s(self, now_s: float) -> float:
        """Promise nothing: leases without an event are in the duty cycle, and need no decision."""
        return now_s

    def wake(self, now_s: float) -> None:
        """Count the leases of sleeping jobs up to now: when something happens, and in the end."""
        asleep, self._asleep = self._asleep, {}
        if self._terms.timers.tuned and not self._terms.keep_placement:
            # The delay timers hear of renewals after no wait, all in the order of time.
            for renewed_s, job in remembered(asleep, now_s, self._terms.timers.history_s):
                self._mechanism.renewed(job, renewed_s)
                if self.noted is not None:
                    self.noted(renewed_s, self._scale[job])
        for job, renewals in asleep.items():
            begun = max(renewals.before(now_s), 1)
            self._set_end(job, renewals.start_s(begun - 1) + self._lease_s)

    def figures(self) -> dict[str, Any]:
        """Return how often GPUs were offered, and how long that took, as a run calls it."""
        return {"policy_seconds": self.seconds, "solves": self.offers}

    def _book(self, ran: GangProgress) -> None:
        """Learn how long jobs ran, and how much of it they computed."""
        job, jobs = ran.gangs.job, self._mechanism.jobs
        if job is not self._ran[0]:
            self._ran = job, jobs.cells(job), self._fastest[job]
        _, cells, fastest = self._ran
        jobs.book(job, cells, ran.rate * ran.worked_s / fastest, ran.worked_s)
        if self._learns is not None:
            self._learns(ran)

    def _taken_back(self, now_s: float, *, all_sure: bool) -> list[int]:
        """Return the jobs that give GPUs back, after checkpoints, ascending.

        None if all of them are sure to get theirs again. Who goes on with them at once is not
        stopped.
        """
        due = self._ends.pop(now_s, End.RETURN)
        if not due:
            return due
        all_sure = all_sure and not (self._terms.keep_placement or self._mechanism.jobs.crowded)
        if all_sure and all(self._surely_keeps(job, now_s) for job in due):
            for job in due:
                self._fall_asleep(job, now_s)
            return []
        self.wake(now_s)
        if not any(self._pause_s):  # who slept gives back with those whose leases end as well
            self._expire(now_s)
        due = sorted([*due, *self._ends.pop(now_s, End.RETURN)])
        self._holders.touch(due)
        return due

    def _expire(self, now_s: float) -> None:
        """End the leases that end now: some are renewed, others' GPUs come back at once or soon."""
        for job in self._ends.pop(now_s, End.EXPIRY):
            if self._terms.keep_placement and self._surely_keeps(job, now_s):
                self._fall_asleep(job, now_s)
            elif self._terms.keep_placement and self._mechanism.keeps(job, now_s):
                self._end_s[job] = now_s + self._lease_s
                self._ends.put(self._end_s[job], End.EXPIRY, job)
            else:
                self._ends.put(now_s + self._pause_s[job], End.RETURN, job)
                if self._terms.keep_placement and self._pause_s[job]:
                    self._duty_cycles.rest(job)

    def _surely_keeps(self, job: int, now_s: float) -> bool:
        """Whether a job would have the same GPUs in all leases to come, if nothing happens."""
        return self._sleeps and self._mechanism.surely_keeps(job, now_s)

    def _fall_asleep(self, job: int, now_s: float) -> None:
        """Let a job run on from lease to lease, the first of which begins now."""
        lease_s = self._lease_s
        pause_s = 0.0 if self._terms.keep_placement else self._pause_s[job]
        self._asleep[job] = Renewals(now_s, lease_s + pause_s)
        self._duty_cycles.work(job, now_s, lease_s, pause_s)

    def _offer(self, now_s: float, ending: Sequence[int]) -> None:
        """Offer what is free once leases end, and move running jobs, which may leave more."""
        started = time.perf_counter()
        fresh: set[int] = set()
        more = True
        while more:
            leases, ending = self._mechanism.offer(now_s, ending), ()
            self.offers += 1
            self._holders.touch([lease.job for lease in leases])
            for lease in leases:
                self._start(lease, now_s)
            fresh |= {lease.job for lease in leases if not lease.continued}
            more = self._terms.migrates and self._migrate(fresh, now_s)
        self._change_s = next_tick(self._mechanism.next_change_s(now_s))
        self.seconds += time.perf_counter() - started

    def _migrate(self, fresh: set[int], now_s: float) -> bool:
        """Move jobs that run to faster placements; return whether any has moved."""
        moved = self._mechanism.migrate(self._holders.at_work(self._end_s, now_s))
        for lease in moved:
            self._move(lease, now_s, fresh=lease.job in fresh)
            # Moved again in this instant it loses nothing more, unless it is where it was.
            (fresh.discard if lease.continued else fresh.add)(lease.job)
        return bool(moved)

    def _start(self, lease: Lease, now_s: float) -> None:
        job, anew = lease.job, not lease.continued
        lost_s = 0.0
        if anew:
            lost_s = self._later_s[job] if self._started[job] else self._first_s[job]
        self._started[job] = True
        self._lease(job, now_s + lost_s, now_s + self._lease_s)
        if self.noted is not None:
            self.noted(now_s, self._scale[job])

    def _move(self, lease: Lease, now_s: float, *, fresh: bool) -> None:
        """Let a job go on elsewhere for the rest of its lease; one that is fresh loses nothing."""
        job = lease.job
        end_s, ready_s = self._end_s[job], max(self._duty_cycles.ready_s(job), now_s)
        if lease.continued:  # it has come back to what it had
            ready_s = now_s
        elif not fresh:
            ready_s = min(now_s + self._later_s[job], end_s)
        self._holders.touch([job])
        self._lease(job, ready_s, end_s)

    def _lease(self, job: int, ready_s: float, end_s: float) -> None:
        """Let a job make progress from one time to another."""
        pause_s = np.inf if self._terms.keep_placement else self._pause_s[job]
        self._duty_cycles.work(job, ready_s, end_s - ready_s, pause_s)
        self._set_end(job, end_s)

    def _set_end(self, job: int, end_s: float) -> None:
        """Set the end of a lease; where a checkpoint follows, only when its GPUs come back.

        Without one, what else happens in the instant comes first.
        """
        pause_s = self._pause_s[job]
        self._end_s[job] = end_s
        if pause_s and not self._terms.keep_placement:
            self._ends.put(end_s + pause_s, End.RETURN, job)
        else:
            self._ends.put(end_s, End.EXPIRY, job)
