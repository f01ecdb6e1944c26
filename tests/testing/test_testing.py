from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.own_policies import FirstColumnFirst, Mine

from apportion.allocation import Allocation
from apportion.errors import InputError
from apportion.jobs import JOB_COLUMNS
from apportion.policies import MaxMinFairness, Policy
from apportion.sim import generate_elastic_workload, generate_workload
from apportion.testing.policy import _certified, _feasible, check_policy
from apportion.testing.policy_case import PolicyCase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies import Problem


@dataclass(frozen=True)
class FirstRowFirst(Mine):
    """Prefers the job that stands first."""

    def objective(self, p: Problem) -> cp.Maximize:
        place = 1.0 + np.arange(p.count.size)
        return cp.Maximize((1 / place) @ p.time)


@dataclass(frozen=True)
class CountsSteps(Mine):
    """Says that it is scale invariant, and counts steps."""

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(p.total(p.throughput))


@dataclass(frozen=True)
class ForgetsCounts(Mine):
    """Sums over classes of jobs instead of jobs."""

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(cp.sum(cp.multiply(1 / p.fastest_throughput, p.throughput)))


class ForgetsWhenPickled(MaxMinFairness):
    """Comes back from a pickle as something else."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (MaxMinFairness, (False,))


_CALLS = iter(range(10**6))


@dataclass(frozen=True)
class Fickle(Mine):
    """Changes its mind from one solve to the next."""

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        return [p.time <= 0.9 / (1 + next(_CALLS) % 97)]


@dataclass(frozen=True)
class Stubborn(Mine):
    """Cannot be made agnostic, though it has the field."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "heterogeneity_aware", True)


@dataclass(frozen=True)
class SaysItLeavesGpusIdle(Mine):
    """Gives away what there is."""

    traits = frozenset({"leaves_gpus_idle"})


@dataclass(frozen=True)
class SaysItCountsSteps(Mine):
    """Counts them relative to the fastest."""

    traits = frozenset({"depends_on_step_size"})


@dataclass(frozen=True)
class SaysItMeetsDeadlines(Mine):
    """Does not know of any."""

    traits = frozenset({"meets_deadlines"})


@dataclass(frozen=True)
class SaysItRunsJobsAlone(Mine):
    """Takes any pair that is faster."""

    traits = frozenset({"runs_jobs_alone"})


@dataclass(frozen=True)
class SaysItTellsJobsApart(Mine):
    """Treats equal jobs alike."""

    traits = frozenset({"tells_identical_jobs_apart"})


@dataclass(frozen=True)
class Stumbles(Mine):
    """Takes it that some job comes from the yard."""

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(cp.sum(p.time) * {"red": 1.0}["yard"])


BROKEN: list[tuple[Policy, str]] = [
    (Stumbles(), "able to state its problem: KeyError: 'yard'"),
    (SaysItLeavesGpusIdle(), "what it declares, 'leaves_gpus_idle'"),
    (SaysItCountsSteps(), "what it declares, 'depends_on_step_size'"),
    (SaysItMeetsDeadlines(), "what it declares, 'meets_deadlines'"),
    (SaysItRunsJobsAlone(), "what it declares, 'runs_jobs_alone'"),
    (SaysItTellsJobsApart(), "what it declares, 'tells_identical_jobs_apart'"),
    (FirstColumnFirst(), "permutation-equivariant"),
    (FirstRowFirst(), "permutation-equivariant"),
    (CountsSteps(), "scale-invariant"),
    (ForgetsWhenPickled(), "the same after pickling"),
    (Fickle(), "deterministic"),
    (Stubborn(), "heterogeneity-agnostic"),
]


def test_a_trait_that_is_none_is_named_at_once() -> None:
    with pytest.raises(InputError, match=r"Unknown trait of policy Idle 'leaves_gpu_idle'.*gpus"):
        type("Idle", (Mine,), {"traits": frozenset({"leaves_gpu_idle"})})


@pytest.mark.thorough
def test_a_policy_that_keeps_the_contract_passes() -> None:
    check_policy(Mine())
    check_policy(Mine(), seed=1)
    check_policy(ForgetsCounts())  # solved over jobs, as its objective is another over classes


@pytest.mark.parametrize(
    ("policy", "broken"), BROKEN, ids=[type(policy).__name__ for policy, _ in BROKEN]
)
def test_what_is_broken_is_named(policy: Policy, broken: str) -> None:
    with pytest.raises(AssertionError) as failure:
        check_policy(policy)
    text = str(failure.value)
    assert text.startswith(repr(policy).split("(")[0])
    assert f"is not {broken}" in text
    assert "test_testing.py:" in text or type(policy).__module__ != __name__
    assert "pickling" in broken or any(character.isdigit() for character in text)


def allocation_of(case: PolicyCase, X: np.ndarray[Any, np.dtype[np.float64]]) -> Allocation:
    shares = pd.DataFrame(X, index=case.speed.index, columns=case.speed.columns)
    return Allocation(
        X=shares,
        throughput=(shares * case.speed).sum(axis=1),
        objective=0.0,
        prices=pd.Series(dtype=float),
        gap=1e-3,
        status="optimal_inaccurate",
        policy="made by hand",
    )


@pytest.mark.parametrize(
    ("share", "complaint"),
    [(-0.1, "within"), (1.2, "within"), (0.7, "of the time"), (0.5, "are in use")],
)
def test_shares_that_are_not_feasible_are_told(share: float, complaint: str) -> None:
    case = PolicyCase.random(np.random.default_rng(0), 12, 2)
    allocation = allocation_of(case, np.full((12, 2), share))
    with pytest.raises(AssertionError, match=rf"Mine.* is not feasible: .*{complaint}"):
        _feasible(Mine(), case, allocation)
    with pytest.raises(AssertionError, match=r"not certified optimal: the gap is 0\.001"):
        _certified(Mine(), allocation)


def test_throughput_that_is_not_that_of_the_shares_is_told() -> None:
    case = PolicyCase.random(np.random.default_rng(0), 4, 2)
    allocation = allocation_of(case, np.full((4, 2), 0.1))
    wrong = replace(allocation, throughput=allocation.throughput * 1.01)
    _feasible(Mine(), case, allocation)
    with pytest.raises(AssertionError, match="throughput"):
        _feasible(Mine(), case, wrong)


def test_the_problems_are_those_of_the_seed() -> None:
    one, same, other = (PolicyCase.random(np.random.default_rng(seed), 5, 3) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one.speed, same.speed)
    assert not one.speed.equals(other.speed)
    of_runs = {"measured", "start_included", "runs_on"}  # no policy reads these
    assert set(JOB_COLUMNS) - of_runs <= set(one.jobs.columns)


@dataclass(frozen=True)
class OwnColumns(Policy):
    """Caps what users hold, by columns of their own and the name of a type."""

    name, columns = "own_columns", ("power_w", "user", "now_s")
    first_only: bool = False

    def objective(self, p: Problem) -> cp.Maximize:
        wanted = 1.0 / (1 + np.arange(p.count.size)) if self.first_only else p.count
        return cp.Maximize(wanted @ cp.multiply(1 / p.fastest_throughput, p.throughput))

    def constraints(self, p: Problem) -> list[cp.Constraint]:
        assert p.accelerators.index("v100") >= 0
        user = np.arange(len(p.texts("user")))[:, None] == p.column("user")
        held = cp.multiply(p.count, p.time)
        return [p.column("power_w") @ held <= 900, user @ held <= 2]


def test_policies_that_read_columns_of_their_own_are_checked_on_jobs_that_have_them() -> None:
    with pytest.raises(InputError, match=r"'power_w', 'user' .* on=\(workload, cluster\)"):
        check_policy(OwnColumns())
    drawn = generate_workload(jobs=10, seed=1, scale_factors="gavel")
    facts: dict[str, Any] = {"power_w": np.linspace(200, 650, 10), "user": ["ann", "bob"] * 5}
    on = replace(drawn, jobs=drawn.jobs.assign(**facts)), "v100=8,k80=8"
    check_policy(OwnColumns(), on=on)
    with pytest.raises(AssertionError, match="permutation"):
        check_policy(OwnColumns(first_only=True), on=on)
    with pytest.raises(InputError, match="no column 'power_w'"):
        check_policy(OwnColumns(), on=(drawn.head(6), "v100=8,k80=8"))
    with pytest.raises(InputError, match="not elastic"):
        check_policy("fifo", on=(generate_elastic_workload(4), "t4=4"))
