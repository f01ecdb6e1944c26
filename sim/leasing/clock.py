"""The clock of the lease-based mechanism: from event to event, past leases that change nothing."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import SolveError
from apportion.mechanism.offers.exact import TICK_S
from apportion.sim.engine.truth import ROUNDING
from apportion.sim.leasing.events import Event, Events, next_tick, whole_ticks
from apportion.sim.leasing.renewals import Renewals
from apportion.sim.network.shapes import shape_of_placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.offers import Lease, LeaseMechanism
    from apportion.sim.leasing.accounts import Accounts
    from apportion.sim.leasing.log import IntervalLog, TimerLog
    from apportion.sim.network import NetworkModel
    from apportion.sim.progress import Progress

__all__ = ["LeaseClock"]

_BEFORE_OFFERS = (Event.COMPLETION, Event.ARRIVAL, Event.RETURN)


class LeaseClock:
    """Runs the jobs of a workload under a lease-based mechanism.

    Everything happens at multiples of `apportion.mechanism.offers.exact.TICK_S`.

    Between two leases of a job that is sure to get the same GPUs again, nothing happens that
    another job could notice. Such leases are not events: the job sleeps until a job arrives,
    completes or gives GPUs back, and its leases are then counted. ``every_lease`` makes an event
    of each lease all the same, for tests: the outcome is the same.

    Attributes
    ----------
    policy_seconds
        Real time spent in offers, seconds.
    offers
        How often GPUs were offered.
    """

    def __init__(
        self,
        mechanism: LeaseMechanism,
        network: NetworkModel,
        accounts: Accounts,
        log: IntervalLog,
        timer_log: TimerLog | None,
        *,
        job_types: Sequence[str],
        skewed_as: Sequence[str],
        every_lease: bool = False,
    ) -> None:
        self._mechanism, self._network, self._accounts = mechanism, network, accounts
        self._log, self._timer_log = log, timer_log
        self._scheduler, self._ledger = mechanism.scheduler, accounts.ledger
        self._lease_s = max(whole_ticks(self._scheduler.lease_s), TICK_S)
        self._job_types = job_types
        self._skewed_as = skewed_as
        self._every_lease = every_lease
        self._events = Events(self._ledger.jobs)
        self._asleep: dict[int, Renewals] = {}
        self._change_s = np.inf
        self._scale: list[int] = self._ledger.scale.tolist()
        self.policy_seconds, self.offers = 0.0, 0

    def run(self, progress: Progress) -> None:
        """Run until every job is complete.

        Raises
        ------
        SolveError
            If waiting jobs accept nothing though nothing else can happen any more.
        """
        for job, arrival_s in enumerate(self._ledger.arrival_s.tolist()):
            self._events.put(next_tick(arrival_s), Event.ARRIVAL, job)
        self._log.start(self._events.next_s)
        while self._ledger.done < self._ledger.jobs:
            now_s = min(self._events.next_s, self._change_s)
            if not np.isfinite(now_s):
                raise SolveError(
                    f"Scheduler {self._scheduler.label!r} leaves {self._ledger.active.size} jobs "
                    f"waiting for ever: they accept nothing, and nothing else will happen."
                )
            self._log.advance(now_s)
            self._step(now_s)
            progress.update(self._ledger)
        self._log.close()

    def _step(self, now_s: float) -> None:
        """Deal with all events of one instant that are known by now."""
        changed = now_s == self._change_s
        while (event := self._events.pop(now_s, _BEFORE_OFFERS)) is not None:
            if not changed:
                self._wake(now_s)
                changed = True
            kind, job = event
            handle = (self._complete, self._arrive, self._return)[kind]
            handle(job, now_s)
        if changed:
            self._offer(now_s)
        expired = iter(lambda: self._events.pop(now_s, (Event.EXPIRY,)), None)
        for _, job in list(expired):
            self._expire(job, now_s)

    def _arrive(self, job: int, now_s: float) -> None:
        """Let in every job that has arrived; of several at once the first brings them all."""
        self._accounts.book(self._accounts.holders, now_s)
        for newcomer in map(int, self._ledger.admit(now_s)):
            ideal_s = self._ledger.total[newcomer] / self._accounts.speed[newcomer]
            self._mechanism.arrive(
                now_s,
                scale_factor=self._scale[newcomer],
                job_type=self._skewed_as[newcomer],
                ideal_s=float(ideal_s),
                model=self._job_types[newcomer],
            )
            self._log.active += 1

    def _complete(self, job: int, now_s: float) -> None:
        self._events.drop(job)
        self._accounts.book(self._accounts.holders, now_s)
        self._leave(job)
        self._accounts.complete(job, now_s)
        self._mechanism.complete(job)
        self._log.active -= 1

    def _return(self, job: int, now_s: float) -> None:
        """Take back the GPUs of a job. That is no preemption if it goes on with them at once."""
        self._leave(job)
        self._accounts.drop(job, now_s)
        self._mechanism.release(job, now_s)
        self._preempted(job, 1)

    def _expire(self, job: int, now_s: float) -> None:
        """End a lease: renew it if that is sure, or let the GPUs come back after a checkpoint."""
        mechanism, lease_s = self._mechanism, self._lease_s
        self._accounts.book(np.array([job]), now_s)
        pause_s = self._pause_s(job)
        sure = not self._every_lease and mechanism.surely_keeps(job, now_s)
        if self._scheduler.keep_placement and (sure or mechanism.keeps(job, now_s)):
            self._accounts.lease(job, now_s, now_s + lease_s)
            if sure:
                self._sleep(job, Renewals(now_s + lease_s, lease_s), now_s)
            else:
                self._schedule(job, now_s)
        elif sure:
            self._sleep(job, Renewals(now_s + pause_s, lease_s + pause_s), now_s + pause_s)
        else:
            self._events.put(now_s + pause_s, Event.RETURN, job)

    def _offer(self, now_s: float) -> None:
        """Offer what is free, and move running jobs, which may leave more to offer."""
        fresh: set[int] = set()
        self._log.offered = more = True
        while more:
            started = time.perf_counter()
            leases = self._mechanism.offer(now_s)
            self.policy_seconds += time.perf_counter() - started
            self.offers += 1
            for lease in leases:
                self._start(lease, now_s)
            fresh |= {lease.job for lease in leases if not lease.continued}
            more = self._scheduler.migrates and self._migrate(fresh, now_s)
        self._change_s = next_tick(self._mechanism.next_change_s(now_s))

    def _migrate(self, fresh: set[int], now_s: float) -> bool:
        """Move jobs that run to faster placements; return whether any has moved."""
        holders = self._accounts.holders
        running = holders[self._accounts.end_s[holders] > now_s]
        started = time.perf_counter()
        moved = self._mechanism.migrate(running.tolist())
        self.policy_seconds += time.perf_counter() - started
        for lease in moved:
            self._move(lease, now_s, fresh=lease.job in fresh)
            fresh.add(lease.job)  # moved again in this instant it loses nothing more
        return bool(moved)

    def _start(self, lease: Lease, now_s: float) -> None:
        job = lease.job
        again = not np.isnan(self._ledger.start_s[job])
        if lease.continued:
            self._preempted(job, -1)
        self._enter(lease, now_s)
        lost_s = self._restore_s(job) if again and not lease.continued else 0.0
        self._accounts.lease(job, now_s + lost_s, now_s + self._lease_s)
        self._schedule(job, now_s)
        if self._timer_log is not None:
            self._timer_log.note(now_s, self._scale[job])

    def _move(self, lease: Lease, now_s: float, *, fresh: bool) -> None:
        """Let a job go on elsewhere for the rest of its lease.

        One that has got its GPUs in this instant, and not been there before, has lost nothing.
        """
        job, accounts = lease.job, self._accounts
        accounts.book(np.array([job]), now_s)
        self._leave(job)
        accounts.drop(job, now_s)
        self._enter(lease, now_s)
        end_s, ready_s = float(accounts.end_s[job]), float(accounts.ready_s[job])
        if not fresh:
            ready_s = min(now_s + self._restore_s(job), end_s)
            self._preempted(job, 1)
        accounts.lease(job, ready_s, end_s)
        self._schedule(job, now_s)

    def _enter(self, lease: Lease, now_s: float) -> None:
        job, shape = lease.job, shape_of_placement(lease.placement)
        self._accounts.slowdown[job] = 1 + self._network.overhead(self._job_types[job], shape)
        self._accounts.hold(job, lease.placement, lease.tier, now_s)
        self._log.running += 1
        self._log.gpus[lease.tier] += self._scale[job]

    def _leave(self, job: int) -> None:
        self._log.running -= 1
        self._log.gpus[self._accounts.tier[job]] -= self._scale[job]

    def _preempted(self, job: int, times: int) -> None:
        self._ledger.preemptions[job] += times
        self._log.preemptions += times

    def _schedule(self, job: int, now_s: float) -> None:
        """Set the next event of a job that has a lease, booked up to `ready_s`."""
        ready_s, end_s = float(self._accounts.ready_s[job]), float(self._accounts.end_s[job])
        finish_s = ready_s + self._accounts.needed_s(job)
        if finish_s <= end_s + ROUNDING * self._lease_s:
            self._events.put(max(whole_ticks(finish_s), now_s), Event.COMPLETION, job)
        elif end_s >= now_s:
            self._events.put(end_s, Event.EXPIRY, job)
        else:
            self._events.put(end_s + self._pause_s(job), Event.RETURN, job)

    def _sleep(self, job: int, renewals: Renewals, from_s: float) -> None:
        """Let a job run on, lease after lease from a time on, to its completion if undisturbed."""
        lease_s, needed_s = self._lease_s, self._accounts.needed_s(job)
        whole = max(math.ceil(needed_s / lease_s - ROUNDING) - 1, 0)
        pauses_s = whole * (renewals.cycle_s - lease_s)
        self._asleep[job] = renewals
        self._events.put(whole_ticks(from_s + needed_s + pauses_s), Event.COMPLETION, job)

    def _wake(self, now_s: float) -> None:
        """Count the leases of sleeping jobs up to now, and give each its next event."""
        asleep, self._asleep = self._asleep, {}
        if self._timer_log is not None and not self._scheduler.keep_placement:
            self._note_renewals(asleep, now_s)
        for job, renewals in asleep.items():
            count = renewals.before(now_s)
            if count:
                self._catch_up(job, renewals, count, now_s)
            elif self._scheduler.keep_placement:
                self._schedule(job, now_s)
            else:
                self._events.put(renewals.first_s, Event.RETURN, job)

    def _catch_up(self, job: int, renewals: Renewals, count: int, now_s: float) -> None:
        """Book the leases of a job up to its last renewal, and the part of the lease since then."""
        one, lease_s = np.array([job]), self._lease_s
        self._accounts.book(one, now_s)
        self._accounts.progress(one, np.array([(count - 1) * lease_s]))
        begin_s = renewals.start_s(count - 1)
        self._accounts.lease(job, begin_s, begin_s + lease_s)
        self._schedule(job, now_s)
        self._accounts.book(one, now_s)

    def _note_renewals(self, asleep: dict[int, Renewals], now_s: float) -> None:
        """Tell the delay timers of renewals after no wait, all in the order of time."""
        history_s = self._scheduler.timers.history_s
        times = [
            (renewed_s, job)
            for job, renewals in asleep.items()
            for renewed_s in renewals.remembered(now_s, history_s)
        ]
        for renewed_s, job in sorted(times):
            self._mechanism.renewed(job, renewed_s)
            if self._timer_log is not None:
                self._timer_log.note(renewed_s, self._scale[job])

    def _pause_s(self, job: int) -> float:
        """Time from the end of a lease to the return of the GPUs, seconds."""
        return whole_ticks(self._scale[job] * self._scheduler.checkpoint_s_per_gpu)

    def _restore_s(self, job: int) -> float:
        """Time lost by a job that goes on elsewhere, seconds."""
        return whole_ticks(self._scale[job] * self._scheduler.restore_s_per_gpu)
