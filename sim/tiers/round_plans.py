"""Policies that place gangs in what is free, asked whenever GPUs are offered under leases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError, SolveError
from apportion.mechanism.leases.jobs import WaitingJobs
from apportion.mechanism.leases.queue import (
    Candidate,
    JobQueue,
    accepts_from_s,
    next_acceptance_s,
    waits_s,
)
from apportion.mechanism.orders import MostSlowedFirst
from apportion.mechanism.scheduler import Placement, can_hold, tier_of
from apportion.policies import solve_instance
from apportion.policies.stated_resources import stated_resources, states_constraints
from apportion.sim.solves.standing import Answer, Solves
from apportion.sim.tiers.round_places import RoundPlaces, Taken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.mechanism.leases.active import ActiveLeases
    from apportion.mechanism.leases.rules import Rule
    from apportion.policies import Instance, Policy
    from apportion.sim.tiers.round_places import Spread
    from apportion.types import Bools, Floats, Int64s, Ints


_LIMIT_S = 3600.0
"""Seconds that one decision may take: what is not proved by then would hang on the machine."""
_LAST_TYPE = 1e-6
"""By so much, relatively, the type that a job had last is preferred to others as fast."""


class RoundPlans(JobQueue):
    """Lets a policy decide over all waiting jobs and all that is free, at every offer.

    Jobs accept tiers by a rule, as from schedulers that offer GPUs to one job after the other. What
    the policy leaves open is done as these do it: a job that gave GPUs back in the same instant has
    them again, as far as no free ones of its tier are better; others get the fastest placement in
    the machine, rack or type that the policy gives them.

    Parameters
    ----------
    policy
        A policy whose options are places (``places_gangs`` of `apportion.policies.Policy`).
    rule
        Which tiers a job accepts after which wait.
    speed
        Steps/s of every job of the workload at each (type, tier), shape (jobs, options).

    Attributes
    ----------
    asked
        How often the policy was asked, and how long that took.

    Raises
    ------
    InputError
        If the policy lets jobs share GPUs, which leases do not.
    """

    def __init__(self, policy: Policy, rule: Rule, speed: Floats) -> None:
        if policy.space_sharing:
            raise InputError(
                f"Policy {policy.label!r} lets jobs share GPUs; under leases every gang has its "
                f"GPUs to itself. Choose the policy without space sharing."
            )
        self._policy, self._rule, self._speed = policy, rule, speed
        self._order = MostSlowedFirst()
        self._plan: list[Candidate] = []
        self.asked = Solves(policy.label)

    def first(self, now_s: float, room: Sequence[int]) -> Candidate | None:
        """Return the next job of the plan; asked for another one when all have their GPUs.

        Leases may have changed the delay timers: the policy is asked until it gives nothing more.
        """
        if not self._plan:
            waiting = self.waiting(room)
            self._plan = self.plan(now_s, waiting, self.leases) if waiting.job.size else []
        return self._plan.pop(0) if self._plan else None

    def next_change_s(self, now_s: float, room: Sequence[int]) -> float:
        """Return when the next timer ends for which GPUs are free, seconds."""
        return next_acceptance_s(self._rule, now_s, self.waiting(room))

    def accepts_at_once(self, job: int, option: int) -> bool:
        """Whether a job that waits alone would surely take GPUs at an option again.

        Of several types a plan may well give a gang another one, as fast for it as its own.
        """
        alone = WaitingJobs(np.array([job]), self.jobs, self.timers, ())
        return alone.types == 1 and 0.0 in waits_s(self._rule, alone)[0, option:]

    def plan(self, now_s: float, waiting: WaitingJobs, leases: ActiveLeases) -> list[Candidate]:
        """Ask the policy who gets which GPUs now."""
        opened = waiting.fits & (accepts_from_s(self._rule, waiting) <= now_s)
        able = np.flatnonzero(opened.any(axis=1))
        if not able.size:
            return []
        one = _Round(replace(waiting, job=waiting.job[able]), opened[able], leases)
        option = self._decide(now_s, one)
        taken = one.places.devices(
            option, one.jobs.scale_factor, before=one.kept(option), spread=one.spread(option)
        )
        tiers = one.places.tier[option].tolist()
        return [
            Candidate(job, each.kind, tier, tier, each.where)
            for job, each, tier in zip(one.jobs.job.tolist(), taken, tiers, strict=True)
            if each is not None
        ]

    def _decide(self, now_s: float, one: _Round) -> Ints:
        """Return the option of each job, -1 for none."""
        jobs = one.jobs
        speed = np.where(one.opened, self._speed[jobs.job], 0.0)
        if jobs.types > 1:
            by_type = speed.reshape(jobs.job.size, jobs.types, -1)
            by_type[np.arange(jobs.job.size), jobs.records.option[jobs.job] // 3] *= 1 + _LAST_TYPE
        columns = {
            "network_priority": self._order.keys(now_s, jobs)[0],
            "waited_s": now_s - jobs.released_s,
            "order": np.lexsort((jobs.job, jobs.arrival_s)).argsort().astype(float),
            "current_option": one.liked.astype(float),
        }
        problem = one.places.problem(speed, jobs.scale_factor, columns)
        with self.asked.at(now_s, jobs.job.size):
            _check_constraints(self._policy, problem)
            solution = solve_instance(self._policy, problem, time_limit_s=_LIMIT_S)
            places = one.places
            labels = {"accelerator": places.kind, "tier": places.tier}
            labels |= {"rack": places.rack, "machine": places.machine}
            self.asked.noted(Answer(jobs.job, problem, solution, labels))
            if solution.status != "optimal":
                raise SolveError(f"No proved decision in {_LIMIT_S:g} s: {solution.message}")
        return np.where(solution.X.any(axis=1), solution.X.argmax(axis=1), -1)


def _check_constraints(policy: Policy, problem: Instance) -> None:
    """Refuse bounds on what is held at once: who holds GPUs is not in the problem."""
    stated = stated_resources(policy, problem).stated if states_constraints(policy) else ()
    if stated:
        raise InputError(
            f"Policy {policy.label!r} bounds what jobs hold at once ({', '.join(stated)}), which "
            f"mechanism='leases' cannot keep: a policy that places gangs is asked about the jobs "
            f"that wait, not about those that hold GPUs. Leave the constraint out."
        )


class _Round:
    """Jobs that accept something that is free, what that is, and what suits each best.

    Attributes
    ----------
    jobs
        The jobs; positions in it are their numbers in the round.
    opened
        Which (type, tier) each accepts and finds free, shape (jobs, options).
    places
        What is free.
    liked
        Place that each likes best of those at its tier: where it was, or would be faster; -1 for
        none; shape (jobs,).
    """

    def __init__(self, jobs: WaitingJobs, opened: Bools, leases: ActiveLeases) -> None:
        self.jobs, self.opened, self._leases = jobs, opened, leases
        self.places = RoundPlaces.of([pool.free for pool in leases.pools])
        had = [leases.before(job) for job in jobs.job.tolist()]
        self._before = {at: Taken(*each) for at, each in enumerate(had) if each is not None}
        liked = [self._likes(position) for position in range(jobs.job.size)]
        options = [-1 if each is None else self.places.option_of(each) for each in liked]
        self.liked = np.array(options)

    def kept(self, option: Ints) -> Mapping[int, Taken]:
        """Return what jobs have had where they have been given it, and nothing there is better."""
        found = {}
        for position, held in self._before.items():
            at = int(option[position])
            if at >= 0 and self.places.option_of(held) == at:
                free = self.places.inside_of(at)
                if self._better(position, held.kind, free, held.where) is None:
                    found[position] = held
        return found

    def spread(self, option: Ints) -> Spread:
        """Return what spreads a gang in its place: as it was, or as it is fastest."""

        def spread(position: int, kind: int, free: Int64s) -> Placement | None:
            had = self._before.get(position)
            if had is not None and had.kind == kind and can_hold(free, had.where):
                return self._better(position, kind, free, had.where) or had.where
            return self._fastest(position, kind, free, int(self.places.tier[option[position]]))

        return spread

    def _likes(self, position: int) -> Taken | None:
        """Return the GPUs that suit a job best, if it matters which of its tier they are."""
        if position in self._before:
            kind, own = self._before[position]
            free = self.places.free[kind]
            if can_hold(free, own):
                return Taken(kind, self._better(position, kind, free, own) or own)
        if self.opened[position, ::3].any():  # a machine is free: all are alike to it
            return None
        slowdown = self.jobs.slowdown[position]
        kind, tier = divmod(int(np.where(self.opened[position], slowdown, np.inf).argmin()), 3)
        found = self._fastest(position, kind, self.places.free[kind], tier)
        return None if found is None else Taken(kind, found)

    def _better(self, position: int, kind: int, free: Int64s, own: Placement) -> Placement | None:
        """Return GPUs that are better for a job than its own and no wider."""
        model, gpus = self._gang(position)
        placing = self._leases.placer.placings[kind]
        return placing.better(free, model, gpus, tier_of(own), own)

    def _fastest(self, position: int, kind: int, free: Int64s, widest: int) -> Placement | None:
        model, gpus = self._gang(position)
        return self._leases.placer.placings[kind].fastest(free, model, gpus, widest)

    def _gang(self, position: int) -> tuple[str, int]:
        job, told = int(self.jobs.job[position]), self.jobs.table
        return told.job_type[job], int(told.scale[job])
