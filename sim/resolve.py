"""Asks a policy for new shares when that is due, and tells it what is believed.

The only place in which a run poses a problem over (jobs x options). An option is an accelerator
type, or a tier (machine, rack, network) of one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.cluster import TIERS
from apportion.errors import SolveError
from apportion.mechanism.job_table import EntityUse
from apportion.mechanism.priorities import LEAST_SHARE
from apportion.mechanism.shares import NO_PAIRS, Shares
from apportion.policies import Instance, solve_instance
from apportion.policies.base import depends_on_time
from apportion.policies.core.program import Program
from apportion.sim.solves.own_constraints import OwnConstraints
from apportion.sim.solves.standing import Answer, Solves
from apportion.sim.tiers.tier_problem import at_tiers, tier_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.cluster import Cluster
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import GangProgress
    from apportion.mechanism.shares import Resources
    from apportion.mechanisms.past import Past
    from apportion.policies import Policy
    from apportion.sim.beliefs import Believed
    from apportion.sim.solves.own_constraints import Kept
    from apportion.sim.tiers.tier_problem import Tiers
    from apportion.types import Bools, Floats, Ints

_PERIOD_S = 3600.0
"""Most time between two solves of a policy that depends on time, where nothing is said of it."""
_PATIENCE = 100
"""Solves in a row that give nobody any time, after which time by itself is taken to change none,
but at the times that a policy names."""


class Resolver:
    """Solves the policy over the active jobs when they come and go, and periodically.

    Implements `apportion.mechanism.shares.Sharing`.

    Parameters
    ----------
    policy
        The policy.
    jobs
        What it is told of the jobs.
    believed
        What it is told of their speeds on the types, wherever gangs are.
    cluster
        Where they run.
    tiers
        What gangs lose at the tiers of types, if these are the options. Of a speed at a tier only
        that of the type is believed and learnt: what has run at any tier says how fast the job
        computes on the type, and with it how fast it is at the others.
    resolve_seconds
        Least time between two solves, seconds. 0 solves after every arrival and completion.
    resolve_every
        Most time between two solves, seconds. None is for a policy that depends on time
        `resolve_seconds`, or an hour if that is 0, and infinite for others.
    late_s
        Seconds by which jobs may be behind their shares; above 0 policies that meet deadlines are
        told of such as leave room for it, and for the time until the next solve.
    constraints
        How the mechanism keeps those of the policy's own.

    Attributes
    ----------
    table
        What is known of the jobs, by option.
    told
        Columns by number of the job that are told in place of those of the table.
    changed
        Whether the jobs, or what is believed of them, are not those of the last shares.
    asked
        How often the policy was asked, and its last answer.
    """

    def __init__(
        self,
        policy: Policy,
        jobs: JobTable,
        believed: Believed,
        cluster: Cluster,
        *,
        tiers: Tiers | None = None,
        resolve_seconds: float = 0.0,
        resolve_every: float | None = None,
        late_s: float = 0.0,
        constraints: Kept = "on average",
    ) -> None:
        if resolve_every is None:
            resolve_every = (resolve_seconds or _PERIOD_S) if depends_on_time(policy) else np.inf
        self.policy, self.jobs, self.believed, self.tiers = policy, jobs, believed, tiers
        self._cluster = cluster
        self._resolve_seconds, self._resolve_every = resolve_seconds, resolve_every
        self._late_s = late_s if "meets_deadlines" in policy.traits else 0.0
        self.table = jobs
        self.told: dict[str, Floats] = {}
        if tiers is not None:
            speed, gpus = at_tiers(believed.speed, tiers.slowdown), jobs.capacity.repeat(len(TIERS))
            self.table = replace(jobs, speed=speed, capacity=gpus)
        if "entity_used_s" in policy.columns:
            use = EntityUse(jobs, getattr(policy, "half_life_s", np.inf))
            jobs.entity_use = self.table.entity_use = use
        self.changed = False
        self.asked = Solves(policy.label)
        self._own = OwnConstraints(
            policy, self.table, believed, self._columns, self._pose, constraints
        )
        self.asked.why_none = self._own.why_none
        self._last_s, self._change_s = -np.inf, np.inf
        self._in_vain = 0
        self._start = Program()
        self._running_on: Floats = np.full(jobs.jobs, -1.0)
        self._posed: tuple[Ints, Instance] | None = None  # of which jobs, without their columns

    @property
    def due_s(self) -> float:
        """From when on it is to be solved anew, seconds; earlier if jobs have come or gone."""
        if self.changed:
            due_s = self._last_s + self._resolve_seconds if self.asked.count else -np.inf
            return min(due_s, self._change_s)
        if not self.asked.count or self._in_vain >= _PATIENCE:
            return self._change_s
        return min(self._last_s + max(self._resolve_every, self._resolve_seconds), self._change_s)

    @property
    def bounds(self) -> bool:
        """Whether the policy's own constraints say what gangs may hold at once."""
        return self._own.any

    def resources(self, now_s: float, for_s: float, pairs: Ints = NO_PAIRS) -> Resources:
        """Return what gangs may hold at once; at a tier at least what they hold at tighter ones."""
        self.table.active = self.jobs.active
        found = self._own.resources(now_s, for_s, pairs)
        if self.tiers is None:
            return found
        rows, options, each = found.usage.shape
        by_tier = found.usage.reshape(rows, options // len(TIERS), len(TIERS), each)
        most = np.maximum.accumulate(by_tier, axis=2).reshape(found.usage.shape)
        return found._replace(usage=most)

    def speed(self, jobs: Ints) -> Floats:
        """Return what the mechanism is told of jobs: a policy that knows no types is not helped."""
        speed = self.table.speed[jobs]
        return speed if self.policy.heterogeneity_aware else (speed > 0).astype(float)

    def observe(self, ran: GangProgress) -> Ints:
        """Learn from what ran; return the jobs whose believed speeds moved."""
        rate, tiers = ran.rate, self.tiers
        if tiers is not None and not self.believed.fixed:
            each = zip(ran.gangs.job.tolist(), ran.gangs.devices, strict=True)
            rate = rate * np.array([tiers.slowdown_at(job, held) for job, held in each])
        moved = self.believed.observe(ran.gangs, rate, ran.worked_s * ran.times)
        if moved.size:
            self._posed = None
            if tiers is not None:
                speed = at_tiers(self.believed.speed[moved], tiers.slowdown[moved])
                self.table.speed[moved] = speed
        return moved

    def take_over(self, past: Past) -> None:
        """Begin in the middle: shares are to be found at once, and perhaps never again."""
        self._running_on[:] = past.running_on
        self.changed = True

    def solve(self, now_s: float) -> Shares:
        """Return the time shares of the active jobs, alone and, with space sharing, in pairs.

        Errors of the policy get a note of the policy and the time.

        Raises
        ------
        SolveError
            If the policy returns shares of a wrong shape, or that are not finite.
        """
        active = self.table.active = self.jobs.active
        with self.asked.at(now_s, active.size):
            self._change_s, fits = self._own.next_change_s(now_s), self._own.fits(now_s)
            self.asked.on_average |= self._own.on_average
            X, pairs = self._solve_anew(active, self._columns(now_s), fits)
            _check(X, (active.size + len(pairs), self.table.capacity.size))
        X = np.minimum(np.maximum(X, 0.0), 1.0)
        in_vain = not (self.changed or (X >= LEAST_SHARE).any())
        self._in_vain = self._in_vain + 1 if in_vain else 0
        self.changed, self._last_s = False, now_s
        alone = X[: active.size]
        types = self.jobs.capacity.size
        by_type = alone.reshape(active.size, types, alone.shape[1] // types)
        all_the_time = by_type.max(axis=2) >= 1 - LEAST_SHARE
        somewhere = np.logical_or.reduce(all_the_time, axis=1)
        self._running_on[active] = np.where(somewhere, all_the_time.argmax(axis=1), -1.0)
        return Shares(alone, pairs, X[active.size :])

    def _columns(self, now_s: float) -> dict[str, Floats]:
        """Return what the policy is told of the active jobs."""
        active, columns = self.table.active, self.table.columns(now_s, self.policy.columns)
        columns["running_on"] = self._running_on[active]
        columns |= {name: each[active] for name, each in self.told.items() if name in columns}
        if self._late_s:
            columns["deadline_s"] = self._earlier(columns)
        return columns

    def _earlier(self, columns: Mapping[str, Floats]) -> Floats:
        """Return deadlines that leave room for what may be lost until the next solve.

        Where that is more than a job can spare it is told to run where it is fastest, no more.
        """
        elapsed_s = columns["elapsed_s"]
        left_s = columns["deadline_s"] - elapsed_s
        needed_s = columns["steps_remaining"] / self.table.speed[self.table.active].max(axis=1)
        told_s = left_s - self._late_s - self._resolve_every
        later_s = np.maximum(told_s, np.minimum(left_s, needed_s))
        return np.asarray(elapsed_s + later_s, dtype=float)

    def _pose(self, jobs: Ints, columns: Mapping[str, Floats]) -> Instance:
        """Pose the problem of some jobs; of the same as the last time only columns are others."""
        if self._posed is None or not np.array_equal(self._posed[0], jobs):
            table = self.table
            speed, scale = table.speed[jobs], table.scale[jobs]
            if self.tiers is None:
                posed = Instance.of_jobs(
                    *(speed, scale, table.capacity),
                    prices=table.prices,
                    texts=table.texts,
                    resource_names=table.accelerators,
                )
            else:
                posed = tier_problem(speed, scale, self._cluster, table.texts)
            self._posed = jobs, posed
        posed = self._posed[1]
        return posed.with_columns({**posed.columns, **columns})

    def _solve_anew(
        self, active: Ints, columns: Mapping[str, Floats], fits: Bools | None
    ) -> tuple[Floats, Ints]:
        """Pose and solve the problem; return the shares, and the pairs in the last rows.

        Where there cannot be enough for a job now it has no share; who fits nowhere is left out.
        """
        if fits is None:
            return self._solve_posed(active, self._pose(active, columns))
        here = np.flatnonzero(fits.any(axis=1))
        jobs = active[here]
        posed = self._pose(jobs, {name: each[here] for name, each in columns.items()})
        speed = np.where(fits[here], posed.throughput, 0.0)
        X, pairs = self._solve_posed(jobs, replace(posed, throughput=speed))
        everyone = np.zeros((active.size, fits.shape[1]))
        everyone[here] = X[: here.size]
        return np.vstack([everyone, X[here.size :]]), here[pairs]

    def _solve_posed(self, jobs: Ints, posed: Instance) -> tuple[Floats, Ints]:
        """Solve; return the shares, and the pairs in the last rows."""
        beside = self.believed.pairs if self.policy.space_sharing else None
        pairs = beside.table(jobs) if beside is not None else None
        solution = solve_instance(self.policy, posed, pairs=pairs, start=self._start)
        labels = {"accelerator": posed.option_accelerator}
        if self.tiers is not None:
            labels["tier"] = np.arange(posed.option_accelerator.size) % len(TIERS)
        self.asked.noted(Answer(jobs, posed, solution, labels))
        return np.asarray(solution.X, dtype=float), solution.pairs


def _check(shares: Floats, shape: tuple[int, ...]) -> None:
    if shares.shape != shape:
        raise SolveError(f"The shares have the shape {shares.shape} instead of {shape}.")
    if not np.isfinite(shares).all():
        raise SolveError(f"{np.count_nonzero(~np.isfinite(shares))} shares are not finite.")
