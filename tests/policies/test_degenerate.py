from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.errors import InfeasibleError, InputError
from apportion.policies import (
    BUILT_IN,
    FIFO,
    FinishTimeFairness,
    Makespan,
    MaxMinFairness,
    MaxTotalThroughput,
    MinCost,
    MinCostWithSLOs,
    Policy,
    solve_instance,
)

if TYPE_CHECKING:
    from tests.policies.conftest import Bench

ALL = pytest.mark.parametrize(
    "policy", [policy for policy in BUILT_IN if "entity" not in policy.columns]
)


def check(problem: Bench, policy: Policy) -> None:
    solution = solve_instance(policy, problem.instance)
    assert solution.gap <= 1e-6
    assert solution.X.min() >= 0
    assert solution.X.sum(axis=1).max() <= 1 + 1e-9
    assert (problem.gpus @ solution.X <= problem.capacity * (1 + 1e-9)).all()


@ALL
def test_one_job_alone(policy: type[Policy], bench: type[Bench]) -> None:
    problem = bench.random(0, jobs=1, types=1)
    check(problem, policy())
    solution = solve_instance(policy(), problem.instance)
    assert solution.X[0, 0] == pytest.approx(1.0, abs=1e-6)


@ALL
def test_jobs_that_are_all_alike_share_alike(policy: type[Policy], bench: type[Bench]) -> None:
    problem = bench.random(1, jobs=1, types=2).repeated(6)
    check(problem, policy())
    if "order" not in policy.columns and not policy.integral:
        X = solve_instance(policy(), problem.instance, group=False).X
        np.testing.assert_allclose(X, np.tile(X[0], (6, 1)), atol=1e-5)


@ALL
def test_capacity_above_demand(policy: type[Policy], bench: type[Bench]) -> None:
    problem = replace(bench.random(2, jobs=4, types=2), capacity=np.array([400.0, 300.0]))
    check(problem, policy())


@pytest.mark.parametrize("policy", [MaxMinFairness, FIFO, MaxTotalThroughput])
def test_jobs_run_all_the_time_where_there_is_room(
    policy: type[Policy], bench: type[Bench]
) -> None:
    problem = replace(bench.random(2, jobs=4, types=2), capacity=np.array([400.0, 300.0]))
    solution = solve_instance(policy(), problem.instance)
    np.testing.assert_allclose(solution.X.sum(axis=1), 1.0, atol=1e-7)


@ALL
@pytest.mark.parametrize("seed", each_seed(2, 3))
def test_tiny_and_huge_throughputs(policy: type[Policy], seed: int, bench: type[Bench]) -> None:
    problem = bench.random(seed, jobs=6, types=3)
    rng = np.random.default_rng(seed)
    factor = 10.0 ** rng.uniform(-6, 6, (6, 1))
    columns = problem.columns | {
        "steps_remaining": problem.columns["steps_remaining"] * factor[:, 0]
    }
    check(replace(problem, speed=problem.speed * factor, columns=columns), policy())


@pytest.mark.parametrize("policy", [MaxMinFairness, MaxTotalThroughput, MinCost, FIFO])
@pytest.mark.parametrize("seed", range(3))
def test_types_that_differ_by_orders_of_magnitude(
    policy: type[Policy], seed: int, bench: type[Bench]
) -> None:
    problem = bench.random(seed, jobs=6, types=3)
    speed = problem.speed * 10.0 ** np.random.default_rng(seed).uniform(-3, 3, (6, 3))
    check(replace(problem, speed=speed), policy())


@pytest.mark.parametrize("seed", range(8))
def test_makespan_of_jobs_of_all_lengths(seed: int, bench: type[Bench]) -> None:
    problem = bench.random(seed, jobs=8, types=3)
    steps = 10.0 ** np.random.default_rng(seed).uniform(0, 9, 8)
    problem = problem.with_columns(steps_remaining=steps)
    solution = solve_instance(Makespan(), problem.instance)
    assert solution.objective == pytest.approx(1 / problem.level(steps), rel=1e-6)
    assert (steps / solution.throughput).max() == pytest.approx(solution.objective, rel=1e-9)


@pytest.mark.parametrize("second_stage", [True, False])
def test_makespan_leaves_time_for_a_job_that_is_nearly_done(
    second_stage: bool, bench: type[Bench]
) -> None:
    problem = bench(np.ones((2, 1)), np.ones(2), np.ones(1), np.ones(1))
    problem = problem.with_columns(steps_remaining=np.array([1e-2, 1e8]))
    solution = solve_instance(Makespan(), problem.instance, second_stage=second_stage)
    assert solution.X[0, 0] > 0
    assert solution.objective == pytest.approx(1e8, rel=1e-6)


@pytest.mark.parametrize("seed", each_seed(3, 8))
@pytest.mark.parametrize("policy", [Makespan, FinishTimeFairness])
def test_the_gap_is_never_smaller_than_the_error(
    policy: type[Policy], seed: int, bench: type[Bench]
) -> None:
    problem = bench.random(seed, jobs=8, types=2)
    steps = 10.0 ** np.random.default_rng(seed).uniform(0, 9, 8)
    problem = problem.with_columns(steps_remaining=steps)
    solution = solve_instance(policy(), problem.instance)
    best = 1 / problem.level(steps) if policy is Makespan else problem.finish_time_ratio()
    assert abs(solution.objective - best) / best <= solution.gap + 1e-8
    assert (solution.status == "optimal") == (solution.gap <= 1e-6)


def test_deadlines_that_cannot_be_met_are_named_or_missed_by_the_least(bench: type[Bench]) -> None:
    # One GPU, two jobs that need 0.8 of it each: 0.6 too much.
    problem = bench(np.ones((2, 1)), np.ones(2), np.ones(1), np.ones(1)).with_columns(
        steps_remaining=np.array([80.0, 80.0]),
        elapsed_s=np.zeros(2),
        deadline_s=np.array([100.0, 100.0]),
    )
    with pytest.raises(InfeasibleError, match="deadlines") as refused:
        solve_instance(MinCostWithSLOs(strict=True), problem.instance)
    assert "capacity" in str(refused.value)
    solution = solve_instance(MinCostWithSLOs(), problem.instance)
    assert solution.throughput.sum() == pytest.approx(1.0, abs=1e-5)


def test_deadlines_that_have_passed_do_not_count(bench: type[Bench]) -> None:
    problem = bench(np.ones((1, 1)), np.ones(1), np.ones(1), np.ones(1)).with_columns(
        steps_remaining=np.array([80.0]), elapsed_s=np.array([200.0]), deadline_s=np.array([100.0])
    )
    assert solve_instance(MinCostWithSLOs(strict=True), problem.instance).status == "optimal"


@pytest.mark.parametrize("policy", [Makespan, FinishTimeFairness])
def test_an_instance_without_a_column_that_is_needed(
    policy: type[Policy], bench: type[Bench]
) -> None:
    problem = bench(np.ones((1, 1)), np.ones(1), np.ones(1), np.ones(1))
    with pytest.raises(InputError, match="needs the column"):
        solve_instance(policy(), problem.instance)
