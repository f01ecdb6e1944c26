from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from apportion.policies import (
    BUILT_IN,
    FIFO,
    Makespan,
    MaxMinFairness,
    MaxTotalThroughput,
    MinCost,
    Policy,
    ShortestJobFirst,
    solve_instance,
)
from apportion.policies.solving import declared
from apportion.policies.solving.certificate import make_feasible, relative_gap

if TYPE_CHECKING:
    from tests.policies.conftest import Bench

SEEDS = range(4)
STEP = 1e-3
TIGHT = [
    policy
    for policy in BUILT_IN
    if "has_one_optimum" not in policy.traits
    and not issubclass(policy, MinCost)
    and "entity" not in policy.columns
]


def shifted(problem: Bench, accelerator: int, gpus: float) -> Bench:
    capacity = problem.capacity.copy()
    capacity[accelerator] += gpus
    return replace(problem, capacity=capacity)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", [Makespan, FIFO, ShortestJobFirst, MaxTotalThroughput, MinCost])
def test_prices_are_slopes_of_the_optimum(
    policy: type[Policy], seed: int, bench: type[Bench]
) -> None:
    problem = bench.random(seed, jobs=7, types=2)
    problem = replace(problem, gpus=np.ones(7), capacity=np.array([2.0, 3.0]))
    solution = solve_instance(policy(), problem.instance)
    sign = -1 if policy is Makespan else 1  # fewer seconds are better
    for accelerator, price in enumerate(solution.prices):
        more, less = (
            sign * solve_instance(policy(), shifted(problem, accelerator, gpus).instance).objective
            for gpus in (STEP, -STEP)
        )
        here = sign * solution.objective
        close = 2e-4 * abs(here)
        assert (more - here) / STEP <= price + close
        assert price <= (here - less) / STEP + close


@pytest.mark.parametrize("seed", SEEDS)
def test_max_min_prices_are_slopes_at_fixed_normalisers(seed: int, bench: type[Bench]) -> None:
    problem = bench.random(seed, jobs=9, types=3)
    problem = replace(problem, gpus=np.ones(9), capacity=np.array([1.0, 2.0, 2.0]))
    need = problem.columns["weight"] * problem.equal_share
    solution = solve_instance(MaxMinFairness(), problem.instance)
    for accelerator, price in enumerate(solution.prices):
        more = shifted(problem, accelerator, STEP).level(need)
        less = shifted(problem, accelerator, -STEP).level(need)
        assert (more - solution.objective) / STEP <= price + 1e-5
        assert price <= (solution.objective - less) / STEP + 1e-5


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", TIGHT)
def test_types_with_a_price_are_used_up(
    policy: type[Policy], seed: int, bench: type[Bench]
) -> None:
    problem = bench.random(seed, jobs=6, types=3)
    solution = solve_instance(policy(), problem.instance)
    free = problem.capacity - problem.gpus @ solution.X
    dear = solution.prices * problem.capacity > 1e-6 * abs(solution.objective)
    np.testing.assert_allclose(free[dear], 0.0, atol=1e-6)
    assert (solution.prices >= 0).all()


def test_price_of_a_gpu_by_hand(bench: type[Bench]) -> None:
    # Two equal jobs on c GPUs take 200 / c seconds.
    problem = bench(
        speed=np.ones((2, 1)),
        gpus=np.ones(2),
        capacity=np.ones(1),
        prices=np.ones(1),
        columns={"steps_remaining": np.array([100.0, 100.0])},
    )
    solution = solve_instance(Makespan(), problem.instance)
    assert solution.objective == pytest.approx(200.0)
    assert solution.prices[0] == pytest.approx(200.0)


def test_make_feasible_scales_what_is_over(bench: type[Bench]) -> None:
    problem = bench(np.ones((3, 1)), np.array([1.0, 2.0, 1.0]), np.array([2.0]), np.ones(1))
    X = make_feasible(np.array([[1.1], [0.5], [-1e-12]]), problem.instance)
    assert X.min() >= 0
    assert X[0, 0] <= 1
    assert problem.gpus @ X <= 2 + 1e-12


def test_make_feasible_leaves_a_feasible_allocation_alone(bench: type[Bench]) -> None:
    problem = bench.random(5, jobs=4, types=2)
    X = problem.most(problem.speed)
    np.testing.assert_allclose(make_feasible(X, problem.instance), X, atol=1e-12)


def test_make_feasible_keeps_the_share_of_a_job_that_is_nearly_done(bench: type[Bench]) -> None:
    problem = bench(np.ones((2, 1)), np.ones(2), np.ones(1), np.ones(1))
    X = np.array([[1 - 1e-10], [1e-10]])
    np.testing.assert_array_equal(make_feasible(X, problem.instance) > 0, [[True], [True]])


def test_relative_gap() -> None:
    assert relative_gap(2.0, 1.0) == 0.5
    assert relative_gap(-1.0, -1.0) == 0.0
    assert relative_gap(0.0, 0.0) == 0.0


def test_the_other_solver_has_a_try_where_the_first_was_inaccurate(
    bench: type[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = declared._attempt
    asked: list[str] = []

    def first_is_poor(*args: Any) -> Any:
        attempt = real(*args)
        asked.append(args[2])
        return attempt._replace(gap=1e-3) if len(asked) == 1 else attempt

    monkeypatch.setattr(declared, "_attempt", first_is_poor)
    solution = solve_instance(MaxMinFairness(), bench.random(0).instance)
    assert asked == ["auto", "clarabel"]
    assert solution.status == "optimal"
    assert solution.stats["solver"] == "clarabel"
