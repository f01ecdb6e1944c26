"""The contract that every policy keeps, as a test to run on one's own.

from apportion.testing import check_policy

def test_my_policy():
    check_policy(MyPolicy())
"""

from __future__ import annotations

import pickle
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
import pandas as pd

from apportion.checks import seed as check_seed
from apportion.errors import InputError
from apportion.policies import Problem, get_policy
from apportion.policies.base import form_of
from apportion.testing.policy_case import SHARE_TOLERANCE, PolicyCase, traits_are_true
from apportion.testing.run_case import fail, workload_and_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.allocation import Allocation
    from apportion.policies import Policy
    from apportion.testing.run_case import On


def check_policy(policy: Policy | str, *, seed: int = 0, on: On | None = None) -> None:
    """Check on small random problems that a policy keeps what `solve` promises.

    Its `Policy.form` is its objective, where it has one. Its allocations are feasible, certified to
    1e-6, the same twice, indifferent to the order of jobs and types and to grouping; identical jobs
    get the same; the edge cases (no job, one job, a job that fits nowhere) end as documented; it
    pickles; every one of its `Policy.traits` is true, and without ``depends_on_step_size`` it is
    scale invariant; and its agnostic variant, if it has one, sees no difference between types. With
    ``integral = True`` its decisions are whole; what says that it gives identical jobs the same is
    left out then. Where not all jobs fit, so that no decision meets its constraints, there is room
    for all of them; beside the GPUs there is a soft resource.

    Parameters
    ----------
    policy
        The policy, or its name. Every column of `JOB_COLUMNS` is there for it, deadlines can all
        be met, and every type has a price.
    seed
        Seed of the problems.
    on
        Workload and cluster whose jobs are drawn from, for a policy that reads columns of one's
        own, or knows some types only. What the workload does not say is drawn.

    Raises
    ------
    AssertionError
        For the first property that does not hold; the message names it, the policy and the
        numbers.
    """
    policy = get_policy(policy)
    rng = np.random.default_rng(check_seed(seed))
    if on is None:
        cases = [PolicyCase.random(rng, jobs, types) for jobs, types in ((5, 2), (8, 3))]
        _check_own_columns(policy, cases[0].jobs.columns)
    else:
        workload, cluster = workload_and_cluster(on)
        cases = [PolicyCase.of(rng, jobs, workload, cluster) for jobs in (5, 8)]
    if policy.integral:
        cases = [case.for_whole_decisions(policy) for case in cases]
    traits_are_true(policy, cases, np.random.default_rng([seed, 1]))
    for case in cases:
        _form_is_the_objective(policy, case, np.random.default_rng([seed, 2]))
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


def _check_own_columns(policy: Policy, known: Iterable[str]) -> None:
    """Refuse a policy that reads what drawn problems do not have."""
    own = sorted({*policy.columns} - {*known, "order"})  # which is worked out of the arrivals
    if own:
        raise InputError(
            f"{policy!r} reads {', '.join(map(repr, own))} of the jobs table, which drawn problems "
            f"do not have; give jobs that do, check_policy(..., on=(workload, cluster))."
        )


def _form_is_the_objective(policy: Policy, case: PolicyCase, rng: np.random.Generator) -> None:
    """Compare what a policy says in numbers with its expression, at shares that are feasible."""
    instance = case.instance(policy)
    many = rng.integers(1, 4, instance.jobs).astype(float)
    instance = instance.with_columns({**instance.columns, "count": many})
    p = Problem(instance)
    if (form := form_of(policy, p)) is None:
        return
    goal = policy.objective(p)
    share = rng.uniform(0.1, 1.0, p.X.shape) * instance.can_run
    X = share / (np.maximum(share.sum(axis=1), 1.0) * many * len(many))[:, None]
    p.X.save_value(X)
    throughput = np.asarray(p.throughput.value, dtype=float)
    stated, numbers = float(np.asarray(goal.args[0].value)), form.value(throughput, X)
    same = np.isclose(stated, numbers, rtol=1e-9, atol=1e-12)
    if not same or form.maximise != isinstance(goal, cp.Maximize):
        sense = "maximised" if form.maximise else "minimised"
        said = f"objective(p) is {type(goal).__name__} of {stated}, form(p) is {numbers}, {sense}"
        fail(policy, "one objective in form and expression", said)


def _compare(policy: Policy, broken: str, expected: pd.DataFrame, got: pd.DataFrame) -> None:
    """Compare shares by label."""
    want = expected.to_numpy()
    have = got.reindex(index=expected.index, columns=expected.columns).to_numpy()
    off = np.abs(have - want)
    if not (off <= SHARE_TOLERANCE).all():
        row, column = (int(place) for place in np.unravel_index(off.argmax(), off.shape))
        fail(
            policy,
            broken,
            f"the share of job {expected.index[row]!r} on {expected.columns[column]!r} is "
            f"{have[row, column]} instead of {want[row, column]}",
        )


def _feasible(policy: Policy, case: PolicyCase, allocation: Allocation) -> None:
    X = allocation.X.to_numpy()
    if policy.integral and not np.isin(X, (0.0, 1.0)).all():
        fail(policy, "whole", f"the shares {np.unique(X)} are not all 0 or 1")
    if not ((X >= 0) & (X <= 1)).all():
        fail(policy, "feasible", f"shares range from {X.min()} to {X.max()}, not within [0, 1]")
    time = allocation.X.sum(axis=1)
    if time.max() > 1 + 1e-9:
        fail(policy, "feasible", f"job {time.idxmax()!r} runs {time.max()} of the time")
    held = allocation.X.mul(case.jobs["scale_factor"], axis=0).sum()
    for accelerator, gpus in case.cluster.gpus.items():
        if held[accelerator] > gpus * (1 + 1e-9):
            fail(policy, "feasible", f"{held[accelerator]} of {gpus} {accelerator!r} are in use")
    speed = (allocation.X * case.speed).sum(axis=1)
    if not np.allclose(speed, allocation.throughput, rtol=1e-9):
        fail(policy, "feasible", f"throughput {allocation.throughput.to_dict()}, X gives {speed}")


def _certified(policy: Policy, allocation: Allocation) -> None:
    if not allocation.gap <= 1e-6:
        fail(policy, "certified optimal", f"the gap is {allocation.gap}")


def _deterministic(policy: Policy, case: PolicyCase, allocation: Allocation) -> None:
    again = case.solve(policy).X
    if not again.equals(allocation.X):
        off = (again - allocation.X).abs().to_numpy().max()
        fail(policy, "deterministic", f"two solves differ by {off}")


def _permutation_equivariant(
    policy: Policy, case: PolicyCase, allocation: Allocation, rng: np.random.Generator
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
    policy: Policy, case: PolicyCase, allocation: Allocation, rng: np.random.Generator
) -> None:
    if "depends_on_step_size" in policy.traits:
        return
    scaled, factor = case.counting_other_steps(rng)
    broken = f"scale-invariant (steps and steps/s times {factor.to_dict()})"
    _compare(policy, broken, allocation.X, scaled.solve(policy).X)


def _pickles(policy: Policy, case: PolicyCase, allocation: Allocation) -> None:
    try:
        copy = pickle.loads(pickle.dumps(policy))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        fail(policy, "the same after pickling", f"define its class at the top of a module: {error}")
    if repr(copy) != repr(policy):
        fail(policy, "the same after pickling", f"it comes back as {copy!r}")
    _compare(policy, "the same after pickling", allocation.X, case.solve(copy).X)


def _agnostic_variant_is_blind(policy: Policy, case: PolicyCase) -> None:
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


def _groups_exactly(policy: Policy, case: PolicyCase) -> None:
    """Solve three identical jobs for each as classes and one by one."""
    case = case.repeated(3)
    grouped, single = case.solve(policy), case.solve(policy, group=False)
    off = abs(grouped.objective - single.objective)
    if not off <= 1e-7 * max(1.0, abs(single.objective)):
        fail(
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
    if off > SHARE_TOLERANCE:
        fail(policy, "fair to identical jobs", f"their shares differ by {off}")


def _one_job(policy: Policy, case: PolicyCase) -> None:
    case = case.only([case.speed.index[0]])
    allocation = case.solve(policy)
    _feasible(policy, case, allocation)
    _certified(policy, allocation)


def _no_jobs(policy: Policy, case: PolicyCase) -> None:
    shape = case.only([]).solve(policy).X.shape
    if shape != (0, case.speed.shape[1]):
        fail(policy, "content with no jobs", f"X has the shape {shape}")


def _refuses_what_fits_nowhere(policy: Policy, case: PolicyCase) -> None:
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
    fail(
        policy,
        "strict about jobs that fit nowhere",
        f"job {speed.index[0]!r} runs on 0 GPUs with shares {allocation.X.iloc[0].tolist()}",
    )
