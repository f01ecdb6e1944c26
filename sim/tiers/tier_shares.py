"""Policies that share out time over tiers, carried out by offers of leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.cluster import TIERS
from apportion.mechanism.leases.queue import Candidate, JobQueue, accepts_from_s, next_acceptance_s
from apportion.mechanism.priorities import time_at_start, wanted_shares
from apportion.mechanisms.past import told_otherwise
from apportion.ties import OWED_S, order_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apportion.mechanism.leases import WaitingJobs
    from apportion.mechanism.leases.rules import Rule
    from apportion.mechanism.scheduler import GangProgress
    from apportion.mechanisms.past import Past
    from apportion.sim.resolve import Resolver
    from apportion.sim.solves.standing import Solves
    from apportion.types import Bools, Floats, Ints

    Turn = tuple[int, int, Sequence[int]]  # a job, its GPUs, and options, best first


class TierShares(JobQueue):
    """Offers free GPUs by share of time wanted over time received, per job, type and tier.

    Option ``type * 3 + tier`` is a tier of an accelerator type. The policy is solved over these
    options whenever a job has arrived or completed, gangs packed into machines and racks. A job is
    offered a tier of a type at which it has a share; what nobody with a share accepts is lent to
    the least served, each at the fastest tier of its types, fastest type first, unless the policy
    says that it leaves GPUs idle. With a rule a job takes only tiers that it accepts by then,
    whatever its shares, which know of no waits. What jobs are owed at a new solve is carried over,
    up to one lease. Source: Gavel (Narayanan et al., OSDI 2020), section 5, its priorities.

    Parameters
    ----------
    resolver
        Asks the policy, over tiers.
    lease_s
        Length of a lease, seconds.
    pause_s
        Most seconds from its end until its GPUs are free.
    rule
        Which tiers a job accepts after which wait; at once by default.
    """

    def __init__(
        self, resolver: Resolver, *, lease_s: float, pause_s: float, rule: Rule | None = None
    ) -> None:
        self.resolver, self._rule, self._policy = resolver, rule, resolver.policy
        self._lease_s, self._pause_s = lease_s, pause_s
        self._told, self._table, believed = resolver.jobs, resolver.table, resolver.believed
        speed = resolver.table.speed
        self._fastest = _at_fastest_tier(speed)
        # The mechanism counts compute time as of what was believed in the beginning.
        self._believed, self._first = believed, believed.speed.max(axis=1)
        self._moved = False
        none = np.zeros_like(speed)
        self._target, self._run_s, self._owed, self._at_start = none, none, none, none
        self._wanted = wanted_shares(none, speed, none)
        self._priority = resolver.told["network_priority"] = np.zeros(self._told.jobs)
        self._active: Ints = np.empty(0, dtype=np.intp)
        self._seen: Ints | None = None
        self._turns: Iterator[Turn] | None = None
        self._next: Turn | None = None
        self._solved_s = -np.inf

    def begin(self, now_s: float) -> None:
        """Begin to offer what is free at a time."""
        super().begin(now_s)
        self._turns = self._next = None

    def first(self, now_s: float, room: Sequence[int]) -> Candidate | None:
        """Return the first job whose turn it is and that finds room; it had its turn for good.

        Turns are asked for anew with each gift if timers or what others hold count.
        """
        most = max(room)
        if self._turns is None or not self.lasts:
            waiting = self.waiting(room)
            if not waiting.job.size:
                return None
            self._turns = self.turns(now_s, waiting)
            self._next = next(self._turns, None)
        while self._next is not None:
            job, gpus, options = self._next
            for option in options if gpus <= most and self.jobs.waiting.item(job) else ():
                kind, tier = divmod(option, len(TIERS))
                if gpus <= room[option] and (job, kind) not in self.declined:
                    return Candidate(job, kind, tier, tier)
            self._next = next(self._turns, None)
        return None

    def turns(self, now_s: float, waiting: WaitingJobs) -> Iterator[Turn]:
        """Give the waiting jobs by what they are owed, then, to lend, by what they have had."""
        self._look()
        if now_s >= self.resolver.due_s:
            self._solve(now_s)
        opened = waiting.fits
        if self._rule is not None:
            opened = opened & (accepts_from_s(self._rule, waiting) <= now_s)
        if self.resolver.bounds:
            opened = opened & self._within(now_s, waiting)
        yield from self._by_owed(waiting, opened)
        if "leaves_gpus_idle" not in self._policy.traits:
            yield from self._by_served(waiting, opened)

    @property
    def lasts(self) -> bool:
        """Whether neither timers nor what others hold count, which change with each gift."""
        return self._rule is None and not self.resolver.bounds

    def next_change_s(self, now_s: float, room: Sequence[int]) -> float:
        """Return when the policy is to be solved again, or a timer ends, seconds."""
        waiting = self.waiting(room)
        if not waiting.job.size:
            return np.inf
        self._look()
        due_s = self.resolver.due_s if self.resolver.due_s > now_s else np.inf
        if self._rule is None:
            return due_s
        return min(due_s, next_acceptance_s(self._rule, now_s, waiting))

    def take_over(self, past: Past) -> None:
        """Begin in the middle: with what is owed, up to one lease.

        Raises
        ------
        InputError
            If what is owed is told by other options than shares are of.
        """
        owed_s = past.owed_s if past.owed_s.any() else np.zeros_like(self._owed)
        if owed_s.shape != self._owed.shape:
            raise told_otherwise("owed", of_tiers=True)
        self._owed = np.clip(owed_s, -self._lease_s, self._lease_s)
        self.resolver.take_over(past)

    @property
    def asked(self) -> Solves:
        """How often the policy was solved, and how long that took."""
        return self.resolver.asked

    def observe(self, ran: GangProgress) -> None:
        """Learn from what ran, unless speeds are known for good."""
        if self._believed.fixed:
            return
        moved = self.resolver.observe(ran)
        if moved.size:
            self._fastest[moved] = _at_fastest_tier(self._table.speed[moved])
            self._moved = self.resolver.changed = True

    def _within(self, now_s: float, waiting: WaitingJobs) -> Bools:
        """Tell which options leave all that is held as the policy states, shape (waiting, options).

        To the end of a lease, and until its GPUs are free: so whatever is held then is within what
        is stated for then.
        """
        resources = self.resolver.resources(now_s, self._lease_s + self._pause_s)
        records, usage = self.jobs, resources.usage
        holds = ~records.waiting[resources.jobs]
        held = usage[holds, records.option[resources.jobs[holds]]]
        here = np.searchsorted(resources.jobs, waiting.job)
        return np.asarray((usage[here] <= resources.left(held)).all(axis=2))

    def _look(self) -> None:
        """See whether jobs have come or gone since the last solve, or are believed otherwise."""
        if self._told.active is not self._seen:
            self._seen = self._told.active
            same = np.array_equal(self._seen, self._active)
            self.resolver.changed = self._moved or not same

    def _by_owed(self, waiting: WaitingJobs, opened: Bools) -> Iterator[Turn]:
        """Give the options at which jobs have a share by priority."""
        rows, options, share = self._wanted
        is_open = np.zeros(self._target.shape, dtype=bool)
        is_open[waiting.job] = opened
        free = is_open[rows, options].nonzero()[0]
        rows, options, share = rows[free], options[free], share[free]
        if free.size > 1:
            run_s = waiting.records.run_s[rows, options] - self._run_s[rows, options]
            order = order_of(-share / (self._at_start[rows, options] + run_s))
            rows, options = rows[order], options[order]
        gpus = self._told.scale[rows]
        return zip(rows.tolist(), gpus.tolist(), options[:, None].tolist(), strict=True)

    def _by_served(self, waiting: WaitingJobs, opened: Bools) -> Iterator[Turn]:
        """Give jobs to which idle GPUs are lent, least served first, and their types by speed."""
        job, gpus = waiting.job, waiting.scale_factor.tolist()
        speed = np.where(opened, self._fastest[job], 0.0)
        by_speed = (-speed).argsort(axis=1, kind="stable").tolist()
        able = np.add.reduce(speed > 0, axis=1).tolist()
        served = np.add.reduce(waiting.records.run_s.take(job, axis=0), axis=1)
        for line in order_of(served, absolute=OWED_S).tolist():
            yield job.item(line), gpus[line], by_speed[line][: able[line]]

    def _solve(self, now_s: float) -> None:
        """Ask the policy for new shares of the jobs that are here now."""
        self._settle(now_s)
        self._active, records = self._told.active, self.jobs
        run_s = records.run_s.sum(axis=1)
        ran = np.flatnonzero(run_s > 0)
        rescaled = self._first[ran] / self._believed.speed[ran].max(axis=1)
        self._priority[ran] = records.compute_s(ran) / run_s[ran] * rescaled
        self._moved = False
        self._target = np.zeros_like(self._table.speed)
        self._target[self._active] = self.resolver.solve(now_s).alone
        self._wanted = wanted_shares(self._target, self._table.speed, self._owed)
        self._solved_s = now_s

    def _settle(self, now_s: float) -> None:
        """Close the books of the last shares: what is owed."""
        run_s = self.jobs.run_s.copy()
        if self._active.size:
            wanted_s = self._target * (now_s - self._solved_s)
            owed = self._owed + wanted_s - (run_s - self._run_s)
            self._owed = np.clip(owed, -self._lease_s, self._lease_s)
        self._run_s = run_s
        self._at_start = time_at_start(self._owed, self._lease_s)


def _at_fastest_tier(speed: Floats) -> Floats:
    """Keep the speed at the fastest tier of each type; 0 elsewhere, shape (jobs, options)."""
    by_type = speed.reshape(len(speed), -1, len(TIERS))
    fastest = by_type == by_type.max(axis=2, keepdims=True)
    return np.asarray(speed * fastest.reshape(speed.shape), dtype=np.float64)
