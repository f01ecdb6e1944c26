from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.policies import (
    BUILT_IN,
    Instance,
    Makespan,
    MinCost,
    Policy,
    solve_instance,
)
from apportion.policies.core.certificate import make_feasible, relative_gap

if TYPE_CHECKING:
    from tests.policies.conftest import Bench

    import apportion as ap

SEEDS = each_seed(2, 4)
TIGHT = [
    policy
    for policy in BUILT_IN
    if policy.name not in {"proportional", "strategy_proof"}
    and not issubclass(policy, MinCost)
    and "entity" not in policy.columns
    and not policy.integral  # whole gangs may leave what no gang fits into
]


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


@dataclass(frozen=True)
class Own(Policy):
    """A policy of one's own, with a curved term and a constraint."""

    name = "own"
    traits = frozenset({"tells_identical_jobs_apart"})

    def objective(self, p: ap.Problem) -> cp.Maximize:
        return cp.Maximize(cp.sum(p.throughput) + cp.min(p.throughput) - cp.sum_squares(p.X[0]))

    def constraints(self, p: ap.Problem) -> list[Any]:
        return [cp.sum(p.X, axis=1) <= 0.9]


@pytest.mark.parametrize("seed", range(20))
def test_rows_known_to_hold_gpus_alone_are_as_rows_whose_usage_is_read(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, types = int(rng.integers(1, 20)), int(rng.integers(1, 5))
    speed = rng.lognormal(size=(jobs, types)) * (rng.random((jobs, types)) < 0.9)
    capacity = rng.integers(1, 6, types).astype(float)
    columns = {"count": rng.integers(1, 4, jobs).astype(float)}
    known = Instance.of_jobs(speed, rng.integers(1, 4, jobs), capacity, columns=columns)
    read = replace(known, own_usage=known.usage)
    X = rng.random((jobs, types))
    found = make_feasible(X, known)
    np.testing.assert_array_equal(found, make_feasible(X, read))
    np.testing.assert_array_equal(known.equal_share_throughput, read.equal_share_throughput)
    assert (known.row_count @ (known.gpus * found) <= capacity * (1 + 1e-14)).all()
