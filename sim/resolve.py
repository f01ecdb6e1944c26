"""Asks a policy for new shares when that is due, and tells it what is believed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import SolveError
from apportion.mechanism.job_table import EntityUse
from apportion.mechanism.priorities import LEAST_SHARE
from apportion.mechanism.shares import NO_PAIRS, Shares
from apportion.policies import Instance, solve_instance
from apportion.policies.base import depends_on_time
from apportion.policies.core.program import Program
from apportion.sim.solves.own_constraints import OwnConstraints
from apportion.sim.solves.standing import Answer, Solves

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import GangProgress
    from apportion.mechanism.shares import Resources
    from apportion.mechanisms.past import Past
    from apportion.policies import Policy
    from apportion.sim.beliefs import Believed
    from apportion.sim.solves.own_constraints import Kept
    from apportion.types import Bools, Floats, Ints

    Pose = Callable[[Ints, Mapping[str, Floats]], Instance]

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
    resolve_seconds
        Least time between two solves, seconds. 0 solves after every arrival and completion.
    resolve_every
        Most time between two solves, seconds. None is for a policy that depends on time
        `resolve_seconds`, or an hour if that is 0, and infinite for others.
    jobs
        What it is told of the jobs.
    believed
        What it is told of their speeds.
    pose
        Makes the policy's problem of some jobs and columns for them; over the table's options and
        their capacity by default.
    late_s
        Seconds by which jobs may be behind their shares; above 0 policies that meet deadlines are
        told of such as leave room for it, and for the time until the next solve.
    constraints
        How the mechanism keeps those of the policy's own.
    """

    def __init__(
        self,
        policy: Policy,
        resolve_seconds: float,
        resolve_every: float | None,
        jobs: JobTable,
        believed: Believed,
        pose: Pose | None = None,
        *,
        late_s: float = 0.0,
        constraints: Kept = "on average",
    ) -> None:
        self.policy = policy
        self.resolve_seconds = resolve_seconds
        if resolve_every is None:
            resolve_every = (resolve_seconds or _PERIOD_S) if depends_on_time(policy) else np.inf
        self.resolve_every = resolve_every
        self.jobs, self.believed, self._pose = jobs, believed, pose or self._of_table
        self._late_s = late_s if "meets_deadlines" in policy.traits else 0.0
        self.changed = False
        self.asked = Solves(policy.label)
        self._own = OwnConstraints(policy, jobs, believed, self._columns, self._pose, constraints)
        self.asked.why_none = self._own.why_none
        self._last_s, self._change_s = -np.inf, np.inf
        self._in_vain = 0
        self._start = Program()
        self._running_on: Floats = np.full(jobs.jobs, -1.0)
        if "entity_used_s" in policy.columns:
            use = EntityUse(self._counted, getattr(policy, "half_life_s", np.inf))
            jobs.entity_use = self._counted.entity_use = use

    @property
    def _counted(self) -> JobTable:
        """The table that the run keeps up to date."""
        return self.jobs

    @property
    def due_s(self) -> float:
        """From when on it is to be solved anew, seconds; earlier if jobs have come or gone."""
        if self.changed:
            due_s = self._last_s + self.resolve_seconds if self.asked.count else -np.inf
            return min(due_s, self._change_s)
        if not self.asked.count or self._in_vain >= _PATIENCE:
            return self._change_s
        return min(self._last_s + max(self.resolve_every, self.resolve_seconds), self._change_s)

    @property
    def bounds(self) -> bool:
        """Whether the policy's own constraints say what gangs may hold at once."""
        return self._own.any

    @property
    def restless(self) -> bool:
        """Whether what they may hold changes though nobody comes or goes."""
        return self._own.restless

    def resources(self, now_s: float, for_s: float, pairs: Ints = NO_PAIRS) -> Resources:
        """Return what the policy's own constraints let gangs hold at once."""
        return self._own.resources(now_s, for_s, pairs)

    def speed(self, jobs: Ints) -> Floats:
        """Return what the mechanism is told of jobs: a policy that knows no types is not helped."""
        speed = self.jobs.speed[jobs]
        return speed if self.policy.heterogeneity_aware else (speed > 0).astype(float)

    def observe(self, ran: GangProgress) -> Ints:
        """Learn from what ran; return the jobs whose believed speeds moved."""
        return self.believed.observe(ran.gangs, ran.rate, ran.worked_s * ran.times)

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
        active = self.jobs.active
        with self.asked.at(now_s, active.size):
            self._change_s, fits = self._own.next_change_s(now_s), self._own.fits(now_s)
            self.asked.on_average |= self._own.on_average
            X, pairs = self._solve_anew(now_s, fits)
            _check(X, (active.size + len(pairs), self.jobs.capacity.size))
        X = np.minimum(np.maximum(X, 0.0), 1.0)
        in_vain = not (self.changed or (X >= LEAST_SHARE).any())
        self._in_vain = self._in_vain + 1 if in_vain else 0
        self.changed, self._last_s = False, now_s
        all_the_time = X[: active.size] >= 1 - LEAST_SHARE
        somewhere = np.logical_or.reduce(all_the_time, axis=1)
        self._running_on[active] = np.where(somewhere, all_the_time.argmax(axis=1), -1.0)
        return Shares(X[: active.size], pairs, X[active.size :])

    def _columns(self, now_s: float) -> dict[str, Floats]:
        """Return what the policy is told of the active jobs."""
        columns = self.jobs.columns(now_s, self.policy.columns)
        columns["running_on"] = self._running_on[self.jobs.active]
        if self._late_s:
            columns["deadline_s"] = self._earlier(columns)
        return columns

    def _solve_anew(self, now_s: float, fits: Bools | None) -> tuple[Floats, Ints]:
        """Pose and solve the whole problem; return the shares, and the pairs in the last rows.

        Where there cannot be enough for a job now it has no share; who fits nowhere is left out.
        """
        active, columns = self.jobs.active, self._columns(now_s)
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
        self.asked.noted(Answer(jobs, posed, solution, self._labels(posed)))
        return np.asarray(solution.X, dtype=float), solution.pairs

    def _labels(self, instance: Instance) -> Mapping[str, Ints]:
        """Return what tells options apart."""
        return {"accelerator": instance.option_accelerator}

    def _earlier(self, columns: Mapping[str, Floats]) -> Floats:
        """Return deadlines that leave room for what may be lost until the next solve.

        Where that is more than a job can spare it is told to run where it is fastest, no more.
        """
        elapsed_s = columns["elapsed_s"]
        left_s = columns["deadline_s"] - elapsed_s
        needed_s = columns["steps_remaining"] / self.jobs.speed[self.jobs.active].max(axis=1)
        told_s = left_s - self._late_s - self.resolve_every
        later_s = np.maximum(told_s, np.minimum(left_s, needed_s))
        return np.asarray(elapsed_s + later_s, dtype=float)

    def _of_table(self, jobs: Ints, columns: Mapping[str, Floats]) -> Instance:
        """Pose the problem of some jobs over the options of the table."""
        table = self.jobs
        return Instance.of_jobs(
            table.speed[jobs],
            table.scale[jobs],
            table.capacity,
            columns=columns,
            prices=table.prices,
            texts=table.texts,
            resource_names=table.accelerators,
        )


def _check(shares: Floats, shape: tuple[int, ...]) -> None:
    if shares.shape != shape:
        raise SolveError(f"The shares have the shape {shares.shape} instead of {shape}.")
    if not np.isfinite(shares).all():
        raise SolveError(f"{np.count_nonzero(~np.isfinite(shares))} shares are not finite.")
