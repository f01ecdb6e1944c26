from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.policies import (
    BUILT_IN,
    FinishTimeFairness,
    Instance,
    Makespan,
    MaxMinFairness,
    NashWelfare,
    Policy,
    solve_instance,
)

if TYPE_CHECKING:
    from tests.policies.conftest import Bench

SEEDS = each_seed(1, 5)
FLAT = [
    policy
    for policy in BUILT_IN
    if not (policy.integral or {"entity", "deadline_s"} & set(policy.columns))
]


def names(policy: type[Policy]) -> str:
    return policy.name


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", [Makespan, MaxMinFairness, FinishTimeFairness], ids=names)
def test_no_job_can_have_more_without_another_having_less(
    policy: type[Policy], seed: int, bench: type[Bench]
) -> None:
    problem = bench.random(seed, jobs=6, types=3)
    solution = solve_instance(policy(), problem.instance)
    gain = problem.speed / problem.equal_share[:, None]
    better = problem.most(gain, floors=solution.throughput * (1 - 1e-9))
    reached = (solution.throughput / problem.equal_share).sum()
    assert (gain * better).sum() <= reached + 1e-6


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", FLAT, ids=names)
def test_the_choice_costs_no_objective(policy: type[Policy], seed: int, bench: type[Bench]) -> None:
    instance = bench.random(seed, jobs=6, types=3).instance
    with_choice = solve_instance(policy(), instance)
    without = solve_instance(policy(), instance, second_stage=False)
    assert with_choice.objective == pytest.approx(without.objective, rel=1e-7)
    assert with_choice.gap <= 1e-6


def test_what_the_makespan_leaves_idle_is_spent(bench: type[Bench]) -> None:
    # x alone decides the makespan; y and z need little of b, and get all of it.
    problem = bench(
        speed=np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]),
        gpus=np.ones(3),
        capacity=np.array([1.0, 1.0]),
        prices=np.ones(2),
        columns={"steps_remaining": np.array([1000.0, 10.0, 10.0])},
    )
    solution = solve_instance(Makespan(), problem.instance)
    np.testing.assert_allclose(solution.X, np.array([[1, 0], [0, 0.5], [0, 0.5]]), atol=1e-6)


def test_types_that_are_alike_are_used_in_proportion_to_their_gpus(bench: type[Bench]) -> None:
    problem = bench(np.ones((2, 2)), np.ones(2), np.array([6.0, 2.0]), np.ones(2))
    solution = solve_instance(MaxMinFairness(), problem.instance)
    np.testing.assert_allclose(solution.X, [[0.75, 0.25], [0.75, 0.25]], atol=1e-6)


@pytest.mark.parametrize("speed", [1.0, 3.0, 1e-6])
def test_a_sum_of_logarithms_of_zero_leaves_the_choice_open_too(speed: float) -> None:
    """Alone and with an equal share the logarithm is zero; the types are shared by their GPUs."""
    instance = Instance.of_jobs(np.full((1, 3), speed), [1], [2, 6, 3])
    solution = solve_instance(NashWelfare(), instance)
    assert solution.objective == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(solution.X, [[2 / 11, 6 / 11, 3 / 11]], atol=1e-6)
