from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.seeds import sampled

from apportion.policies import (
    FIFO,
    FinishTimeFairness,
    LeastMeanCompletion,
    Makespan,
    MaxMinFairness,
    MaxTotalThroughput,
    MinCost,
    MinCostWithSLOs,
    Policy,
    ShortestJobFirst,
    solve_instance,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from tests.policies.conftest import Bench

AWARE = pytest.mark.parametrize("aware", [True, False], ids=["aware", "agnostic"])
SEEDS = st.integers(0, 2**32 - 1)
few = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def max_min(problem: Bench) -> float:
    return problem.level(problem.columns["weight"] * problem.equal_share / problem.gpus)


def makespan(problem: Bench) -> float:
    return 1 / problem.level(problem.columns["steps_remaining"])


def in_order(problem: Bench, key: NDArray[np.float64]) -> float:
    places = np.searchsorted(np.unique(key), key)
    weight = (places.max() + 1 - places) * problem.gpus / problem.fastest
    gain = weight[:, None] * problem.speed
    return float((gain * problem.most(gain)).sum())


def fifo(problem: Bench) -> float:
    return in_order(problem, problem.columns["order"])


def shortest_first(problem: Bench) -> float:
    return in_order(problem, problem.columns["steps_remaining"] / problem.fastest)


def jobs_done(problem: Bench) -> float:
    alone_s = np.maximum(problem.columns["steps_remaining"] / problem.fastest, 3600.0)
    worth = (problem.columns["weight"] / alone_s) ** 0.5 / problem.fastest
    gain = problem.speed * worth[:, None]
    return float((gain * problem.most(gain)).sum())


def total(problem: Bench) -> float:
    return float((problem.speed * problem.most(problem.speed)).sum())


LINEAR: list[tuple[Callable[..., Policy], Callable[[Bench], float]]] = [
    (MaxMinFairness, max_min),
    (Makespan, makespan),
    (FIFO, fifo),
    (ShortestJobFirst, shortest_first),
    (MaxTotalThroughput, total),
    (partial(LeastMeanCompletion, integral=False), jobs_done),
]


def check_feasible(problem: Bench, X: NDArray[np.float64]) -> None:
    assert X.min() >= 0
    assert X.sum(axis=1).max() <= 1 + 1e-9
    assert (problem.gpus @ X <= problem.capacity * (1 + 1e-9)).all()
    assert (X[problem.speed == 0] == 0).all()


@AWARE
@pytest.mark.parametrize(("policy", "optimum"), sampled(LINEAR, 3))
@few
@given(seed=SEEDS)
def test_linear_programs_equal_an_independent_one(
    policy: Any, optimum: Callable[[Bench], float], aware: bool, bench: type[Bench], seed: int
) -> None:
    problem = bench.random(seed)
    solution = solve_instance(policy(heterogeneity_aware=aware), problem.instance)
    check_feasible(problem, solution.X)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(optimum(problem.believed(aware)), rel=1e-8)
    np.testing.assert_allclose(solution.throughput, (problem.speed * solution.X).sum(axis=1))


@pytest.mark.thorough
@AWARE
@few
@given(seed=SEEDS)
def test_cost_equals_dinkelbach(aware: bool, bench: type[Bench], seed: int) -> None:
    problem = bench.random(seed)
    solution = solve_instance(MinCost(heterogeneity_aware=aware), problem.instance)
    check_feasible(problem, solution.X)
    assert solution.gap <= 1e-6
    assert solution.objective == pytest.approx(problem.believed(aware).dearest(), rel=1e-8)


@pytest.mark.thorough
@few
@given(seed=SEEDS)
def test_cost_with_deadlines_equals_dinkelbach(bench: type[Bench], seed: int) -> None:
    problem = bench.random(seed)
    pace = problem.isolated * 0.7
    elapsed, steps = problem.columns["elapsed_s"], problem.columns["steps_remaining"]
    problem = problem.with_columns(deadline_s=elapsed + steps / pace)
    solution = solve_instance(MinCostWithSLOs(strict=True), problem.instance)
    check_feasible(problem, solution.X)
    assert (solution.throughput >= pace * (1 - 1e-7)).all()
    assert solution.objective == pytest.approx(problem.dearest(floors=pace), rel=1e-7)


@pytest.mark.thorough
@AWARE
@settings(few, max_examples=8)
@given(seed=SEEDS)
def test_finish_time_fairness_equals_bisection(aware: bool, bench: type[Bench], seed: int) -> None:
    problem = bench.random(seed)
    solution = solve_instance(FinishTimeFairness(heterogeneity_aware=aware), problem.instance)
    check_feasible(problem, solution.X)
    assert solution.gap <= 1e-6
    expected = problem.believed(aware).finish_time_ratio()
    assert solution.objective == pytest.approx(expected, rel=1e-7)


def test_no_job_is_later_than_the_finish_time_ratio_says(bench: type[Bench]) -> None:
    problem = bench.random(3, jobs=6, types=3)
    solution = solve_instance(FinishTimeFairness(), problem.instance)
    steps, elapsed = problem.columns["steps_remaining"], problem.columns["elapsed_s"]
    alone_s = problem.columns["isolated_elapsed_s"] + steps / problem.isolated
    ratio = (elapsed + steps / solution.throughput) / alone_s
    assert ratio.max() == pytest.approx(solution.objective, rel=1e-6)
