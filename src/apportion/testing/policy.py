"""The contract that every policy keeps, as a test to run on one's own.

from apportion.testing import check_policy

def test_my_policy():
    check_policy(MyPolicy())
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from apportion.checks import seed as check_seed
from apportion.cluster import Cluster
from apportion.errors import InfeasibleError, InputError
from apportion.policies import Resource, get_policy, solve, solve_instance
from apportion.policies.labels import instance_of, jobs_of
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from apportion.allocation import Allocation
    from apportion.policies import Policy

__all__ = ["check_policy"]

_SHARE_TOLERANCE = 1e-5


def check_policy(policy: Policy | str, *, seed: int = 0) -> None:
    """Check on small random problems that a policy keeps what `solve` promises.

    Its allocations are feasible, certified to 1e-6, the same twice, indifferent to the order of
    jobs and types and to grouping; identical jobs get the same; the edge cases (no job, one job,
    a job that fits nowhere) end as documented; it pickles; every one of its `Policy.traits` is
    true, and without ``depends_on_step_size`` it is scale invariant; and its agnostic variant, if
    it has one, sees no difference between types. With ``integral = True`` its decisions are whole;
    what says that it gives identical jobs the same is left out then. Where not all jobs fit, so
    that no decision meets its constraints, there is room for all of them; beside the GPUs there is
    a soft resource.

    Parameters
    ----------
    policy
        The policy, or its name. Every column of `JOB_COLUMNS` is there for it, deadlines can all
        be met, and every type has a price.
    seed
        Seed of the problems.

    Raises
    ------
    AssertionError
        For the first property that does not hold; the message names it, the policy and the
        numbers.
    """
    policy = get_policy(policy)
    rng = np.random.default_rng(check_seed(seed))
    cases = [_Case.random(rng, jobs, types) for jobs, types in ((5, 2), (8, 3))]
    if policy.integral:
        cases = [case.for_whole_decisions(policy) for case in cases]
    _traits_are_true(policy, cases, np.random.default_rng([seed, 1]))
    for case in cases:
        allocation = case.solve(policy)
        _feasible(policy, case, allocation)
        _certified(policy, allocation)
        _deterministic(policy, case, allocation)
        _permutation_equivariant(policy, case, allocation, rng)
        _scale_invariant(policy, case, allocation, rng)
        _pickles(policy, case, allocation)
        _agnostic_variant_is_blind(policy, case)
    if "tells_identical_jobs_apart" not in policy.traits:
        _groups_exactly(policy, cases[0])
    _one_job(policy, cases[1])
    _no_jobs(policy, cases[1])
    _refuses_what_fits_nowhere(policy, cases[1])


@dataclass(frozen=True, eq=False)
class _Case:
    """One problem in labels: steps/s, jobs table, cluster."""

    speed: pd.DataFrame
    jobs: pd.DataFrame
    cluster: Cluster
    soft: bool = False

    @classmethod
    def random(cls, rng: np.random.Generator, jobs: int, types: int) -> _Case:
        """Draw a problem in which every deadline can be met."""
        names = [f"type-{j}" for j in range(types)]
        ids = [f"job-{i}" for i in range(jobs)]
        gpus = rng.integers(2, 4, types)  # fewer than the jobs want, so that shares matter
        price = dict(zip(names, rng.uniform(0.5, 3.0, types), strict=True))
        speed = rng.uniform(0.5, 20.0, (jobs, types)) * 10.0 ** rng.integers(-1, 2, (jobs, 1))
        speed[rng.random((jobs, types)) < 0.2] = 0.0
        speed[np.arange(jobs), rng.integers(0, types, jobs)] += 1.0
        scale_factor = rng.choice([1, 2], jobs)
        steps = rng.uniform(1e3, 1e5, jobs)
        elapsed_s = rng.uniform(0, 600, jobs)
        slice_of_each = np.minimum(gpus / (jobs * scale_factor[:, None]), 1 / types)
        pace = (speed * slice_of_each).sum(axis=1)
        deadline_s = elapsed_s + steps / pace * rng.uniform(1.2, 4.0, jobs)
        deadline_s[0] = np.nan
        table = pd.DataFrame(
            {
                "arrival_s": rng.uniform(0, 600, jobs),
                "job_type": "a model",
                "scale_factor": scale_factor,
                "total_steps": steps * 1.5,
                "steps_remaining": steps,
                "weight": rng.choice([1.0, 2.0, 5.0], jobs),
                "entity": rng.choice(["red", "blue"], jobs),
                "deadline_s": deadline_s,
                "duration_s": 1.5 * steps / speed.max(axis=1),
                "elapsed_s": elapsed_s,
                "count": 1,
                "isolated_elapsed_s": elapsed_s * rng.uniform(0.5, 1.5, jobs),
                "network_priority": rng.choice([0.0, 0.2, 0.5, 1.0], jobs),
                "running_on": [names[int(speed[0].argmax())], *[""] * (jobs - 1)],
                "current_option": [names[place] for place in speed.argmax(axis=1)],
                "pinned": False,
            },
            index=ids,
        )
        cluster = Cluster(dict(zip(names, gpus.tolist(), strict=True)), prices_per_gpu_hour=price)
        return cls(pd.DataFrame(speed, index=ids, columns=names), table, cluster)

    def for_whole_decisions(self, policy: Policy) -> _Case:
        """Add a soft resource, and GPUs for all jobs if they are needed."""
        own = replace(self, soft=True)
        try:
            own.solve(policy)
        except InfeasibleError:
            room = 3 * int(self.jobs["scale_factor"].sum())  # for three of each, too
            gpus = dict.fromkeys(self.cluster.gpus, room)
            own = replace(own, cluster=replace(self.cluster, gpus=gpus))
        return own

    @property
    def resources(self) -> list[Resource]:
        """A soft resource, of which a job of more weight holds more on types of a higher price."""
        if not self.soft:
            return []
        price = [self.cluster.prices_per_gpu_hour[name] for name in self.speed.columns]
        weight = self.jobs["weight"].loc[self.speed.index].to_numpy()
        held = pd.DataFrame(np.outer(weight, price), self.speed.index, self.speed.columns)
        return [Resource("link", None, held)]

    def solve(self, policy: Policy, **options: Any) -> Allocation:
        """Solve the problem."""
        given = {"resources": self.resources, **options}
        return solve(policy, self.speed, workers=self.cluster, jobs=self.jobs, **given)

    def solve_as_given(self, policy: Policy) -> pd.DataFrame:
        """Return the shares without the order that `solve` brings everything into first."""
        tensor = ThroughputTensor.of(self.speed)
        table = jobs_of(tensor, self.jobs, policy)
        every_gang = np.full(len(tensor.options), np.inf)
        found = solve_instance(policy, instance_of(tensor, self.cluster, table, (), every_gang))
        return pd.DataFrame(found.X, index=tensor.rows, columns=tensor.options)

    def counting_other_steps(self, rng: np.random.Generator) -> tuple[_Case, pd.Series[float]]:
        """Count the steps of each job otherwise; return by what factor, too."""
        jobs = self.jobs.copy()
        factor = pd.Series(rng.choice([1 / 128, 128.0], len(jobs)), index=jobs.index)
        steps = ["total_steps", "steps_remaining"]
        jobs[steps] = jobs[steps].mul(factor, axis=0)
        return replace(self, speed=self.speed.mul(factor, axis=0), jobs=jobs), factor

    def only(self, ids: list[str]) -> _Case:
        """Keep some of the jobs."""
        return replace(self, speed=self.speed.loc[ids], jobs=self.jobs.loc[ids])

    def repeated(self, times: int) -> _Case:
        """Put several identical jobs in the place of each."""
        ids = [f"{job}-{copy}" for copy in range(times) for job in self.jobs.index]
        return replace(
            self,
            speed=pd.concat([self.speed] * times).set_axis(ids),
            jobs=pd.concat([self.jobs] * times).set_axis(ids),
        )


def _fail(policy: Policy, broken: str, numbers: str) -> NoReturn:
    raise AssertionError(f"{policy!r} is not {broken}: {numbers}.")


def _compare(policy: Policy, broken: str, expected: pd.DataFrame, got: pd.DataFrame) -> None:
    """Compare shares by label."""
    want = expected.to_numpy()
    have = got.reindex(index=expected.index, columns=expected.columns).to_numpy()
    off = np.abs(have - want)
    if not (off <= _SHARE_TOLERANCE).all():
        row, column = (int(place) for place in np.unravel_index(off.argmax(), off.shape))
        _fail(
            policy,
            broken,
            f"the share of job {expected.index[row]!r} on {expected.columns[column]!r} is "
            f"{have[row, column]} instead of {want[row, column]}",
        )


def _feasible(policy: Policy, case: _Case, allocation: Allocation) -> None:
    X = allocation.X.to_numpy()
    if policy.integral and not np.isin(X, (0.0, 1.0)).all():
        _fail(policy, "whole", f"the shares {np.unique(X)} are not all 0 or 1")
    if not ((X >= 0) & (X <= 1)).all():
        _fail(policy, "feasible", f"shares range from {X.min()} to {X.max()}, not within [0, 1]")
    time = allocation.X.sum(axis=1)
    if time.max() > 1 + 1e-9:
        _fail(policy, "feasible", f"job {time.idxmax()!r} runs {time.max()} of the time")
    held = allocation.X.mul(case.jobs["scale_factor"], axis=0).sum()
    for accelerator, gpus in case.cluster.gpus.items():
        if held[accelerator] > gpus * (1 + 1e-9):
            _fail(policy, "feasible", f"{held[accelerator]} of {gpus} {accelerator!r} are in use")
    speed = (allocation.X * case.speed).sum(axis=1)
    if not np.allclose(speed, allocation.throughput, rtol=1e-9):
        _fail(policy, "feasible", f"throughput {allocation.throughput.to_dict()}, X gives {speed}")


def _certified(policy: Policy, allocation: Allocation) -> None:
    if not allocation.gap <= 1e-6:
        _fail(policy, "certified optimal", f"the gap is {allocation.gap}")


def _deterministic(policy: Policy, case: _Case, allocation: Allocation) -> None:
    again = case.solve(policy).X
    if not again.equals(allocation.X):
        off = (again - allocation.X).abs().to_numpy().max()
        _fail(policy, "deterministic", f"two solves differ by {off}")


def _permutation_equivariant(
    policy: Policy, case: _Case, allocation: Allocation, rng: np.random.Generator
) -> None:
    ids = rng.permutation(case.speed.index).tolist()
    types = rng.permutation(case.speed.columns).tolist()
    gpus = {name: case.cluster.gpus[name] for name in types}
    shuffled = replace(
        case,
        speed=case.speed.loc[ids][types],
        jobs=case.jobs.loc[rng.permutation(ids)],
        cluster=replace(case.cluster, gpus=gpus),
    )
    # Of equal whole decisions one is as good as the other: solve takes the same in every order.
    other = shuffled.solve(policy).X if policy.integral else shuffled.solve_as_given(policy)
    _compare(policy, "permutation-equivariant", allocation.X, other)


def _scale_invariant(
    policy: Policy, case: _Case, allocation: Allocation, rng: np.random.Generator
) -> None:
    if "depends_on_step_size" in policy.traits:
        return
    scaled, factor = case.counting_other_steps(rng)
    broken = f"scale-invariant (steps and steps/s times {factor.to_dict()})"
    _compare(policy, broken, allocation.X, scaled.solve(policy).X)


def _pickles(policy: Policy, case: _Case, allocation: Allocation) -> None:
    copy = pickle.loads(pickle.dumps(policy))
    if repr(copy) != repr(policy):
        _fail(policy, "the same after pickling", f"it comes back as {copy!r}")
    _compare(policy, "the same after pickling", allocation.X, case.solve(copy).X)


def _agnostic_variant_is_blind(policy: Policy, case: _Case) -> None:
    """Replace the speeds of each job by their average, weighted by GPUs."""
    if not is_dataclass(policy) or "heterogeneity_aware" not in {f.name for f in fields(policy)}:
        return
    blind = replace(policy, heterogeneity_aware=False)
    gpus = pd.Series(case.cluster.gpus)
    runs = case.speed > 0
    average = (case.speed * gpus).sum(axis=1) / (runs * gpus).sum(axis=1)
    even = replace(case, speed=runs.mul(average, axis=0))
    broken = "heterogeneity-agnostic (it tells types of one speed from types of several)"
    _compare(blind, broken, even.solve(blind).X, case.solve(blind).X)


def _traits_are_true(policy: Policy, cases: list[_Case], rng: np.random.Generator) -> None:
    """Check what is declared: in every case where it is said of all problems, in one of some."""
    always = {"has_one_optimum": _has_one_optimum, "runs_jobs_alone": _runs_jobs_alone}
    at_times = {
        "depends_on_step_size": _depends_on_step_size,
        "leaves_gpus_idle": _leaves_gpus_idle,
        "tells_identical_jobs_apart": _tells_identical_jobs_apart,
    }
    for trait in sorted(policy.traits):
        shown = [(always | at_times)[trait](policy, case, rng) for case in cases]
        if not (all(shown) if trait in always else any(shown)):
            numbers = f"it shows in {sum(shown)} of {len(cases)} problems"
            _fail(policy, f"what it declares, {trait!r}", numbers)


def _depends_on_step_size(policy: Policy, case: _Case, rng: np.random.Generator) -> bool:
    there, _ = case.counting_other_steps(rng)
    return _differ(case.solve(policy).X, there.solve(policy).X)


def _has_one_optimum(policy: Policy, case: _Case, rng: np.random.Generator) -> bool:
    """Go to a corner of the optima and to their middle."""
    corner, middle = (case.solve(policy, solver=solver).X for solver in ("highs", "clarabel"))
    return not _differ(corner, middle)


def _leaves_gpus_idle(policy: Policy, case: _Case, rng: np.random.Generator) -> bool:
    """Look for idle GPUs on which a job could run more."""
    X = case.solve(policy).X
    idle = pd.Series(case.cluster.gpus) - X.mul(case.jobs["scale_factor"], axis=0).sum()
    waits = X.sum(axis=1) < 1 - _SHARE_TOLERANCE
    return bool(((case.speed[waits] > 0).any() & (idle > _SHARE_TOLERANCE)).any())


def _runs_jobs_alone(policy: Policy, case: _Case, rng: np.random.Generator) -> bool:
    """Offer a pair that is faster than its jobs are alone."""
    speed = {(job,): [row.tolist()] for job, row in case.speed.iterrows()}
    pair = case.speed.index[:2]
    speed[tuple(pair)] = [[4.0 * case.speed.loc[job].max()] * case.speed.shape[1] for job in pair]
    table = case.jobs.assign(scale_factor=1)
    tensor = ThroughputTensor.of_combinations(speed, list(case.speed.columns))
    X = solve(policy, tensor, workers=case.cluster, jobs=table).X
    return float(X.drop(index=case.speed.index).to_numpy().max()) <= _SHARE_TOLERANCE


def _tells_identical_jobs_apart(policy: Policy, case: _Case, rng: np.random.Generator) -> bool:
    copies = case.repeated(3).solve(policy).X.to_numpy().reshape(3, -1)
    return float(np.ptp(copies, axis=0).max()) > _SHARE_TOLERANCE


def _differ(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether two solves gave shares that differ by more than rounding."""
    return bool((one - other).abs().to_numpy().max() > _SHARE_TOLERANCE)


def _groups_exactly(policy: Policy, case: _Case) -> None:
    """Solve three identical jobs for each as classes and one by one."""
    case = case.repeated(3)
    grouped, single = case.solve(policy), case.solve(policy, group=False)
    off = abs(grouped.objective - single.objective)
    if not off <= 1e-7 * max(1.0, abs(single.objective)):
        _fail(
            policy,
            "indifferent to grouping",
            f"the objective is {grouped.objective} with and {single.objective} without",
        )
    if policy.integral:  # identical jobs cannot all have the same
        return
    _compare(policy, "indifferent to grouping", single.X, grouped.X)
    if "order" in policy.columns:  # identical jobs still have their places in a queue
        return
    copies = single.X.to_numpy().reshape(3, -1)
    off = float(np.ptp(copies, axis=0).max())
    if off > _SHARE_TOLERANCE:
        _fail(policy, "fair to identical jobs", f"their shares differ by {off}")


def _one_job(policy: Policy, case: _Case) -> None:
    case = case.only([case.speed.index[0]])
    allocation = case.solve(policy)
    _feasible(policy, case, allocation)
    _certified(policy, allocation)


def _no_jobs(policy: Policy, case: _Case) -> None:
    shape = case.only([]).solve(policy).X.shape
    if shape != (0, case.speed.shape[1]):
        _fail(policy, "content with no jobs", f"X has the shape {shape}")


def _refuses_what_fits_nowhere(policy: Policy, case: _Case) -> None:
    """Take away the GPUs of the only type on which the first job runs."""
    speed = case.speed.copy()
    only, others = speed.columns[0], speed.columns[1:]
    speed.loc[speed.index[0], others] = 0.0
    speed.loc[speed.index[0], only] = 1.0
    speed.loc[speed.index[1:], others] += 1.0
    gpus = dict(case.cluster.gpus) | {only: 0}
    try:
        allocation = replace(case, speed=speed, cluster=replace(case.cluster, gpus=gpus)).solve(
            policy
        )
    except InputError:
        return
    _fail(
        policy,
        "strict about jobs that fit nowhere",
        f"job {speed.index[0]!r} runs on 0 GPUs with shares {allocation.X.iloc[0].tolist()}",
    )
