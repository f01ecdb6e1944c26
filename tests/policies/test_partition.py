from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.seeds import each_seed

import apportion as ap
from apportion.errors import InputError
from apportion.policies import (
    FIFO,
    FinishTimeFairness,
    Makespan,
    MaxMinFairness,
    Policy,
    Problem,
    solve_instance,
)
from apportion.policies.solving.demands import levels_of, reported
from apportion.policies.solving.random_partition import (
    least_cost,
    least_cost_slopes,
    level_bound,
    parts_of,
)

if TYPE_CHECKING:
    from tests.policies.conftest import Bench

    from apportion.policies import Instance
    from apportion.policies.solving.worst_off.declared_levels import Levels

POLICIES: list[Any] = [MaxMinFairness, Makespan, FinishTimeFairness]


def test_every_job_is_in_one_part_and_classes_are_split_evenly(bench: type[Bench]) -> None:
    instance = bench.random(0, jobs=4, types=2).repeated(10).instance
    parts = parts_of(instance, 5, seed=1)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(40))
    for part in parts:
        np.testing.assert_array_equal(np.bincount(part // 10, minlength=4), [2, 2, 2, 2])


def test_the_split_follows_the_seed(bench: type[Bench]) -> None:
    instance = bench.random(0, jobs=30, types=2).instance
    one, same, other = (parts_of(instance, 3, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(np.concatenate(one), np.concatenate(same))
    assert not np.array_equal(np.concatenate(one), np.concatenate(other))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("seed", each_seed(2, 3))
def test_the_loss_is_bounded_by_what_is_reported(
    policy: type[Policy], seed: int, bench: type[Bench]
) -> None:
    problem = bench.random(seed, jobs=40, types=3)
    problem = bench(problem.speed, np.ones(40), np.full(3, 6.0), problem.prices, problem.columns)
    instance = problem.instance
    best = solve_instance(policy(), instance)
    split = solve_instance(policy(), instance, partitions=2, seed=seed)
    worse = split.objective / best.objective
    lost = 1 - worse if policy is MaxMinFairness else 1 - 1 / worse
    assert -1e-8 <= lost <= split.stats["loss"] + 1e-8
    assert split.stats["loss"] < 0.8
    assert split.gap == split.stats["loss"]
    assert (split.status == "optimal") == (split.gap <= 1e-6)
    assert (problem.gpus @ split.X <= problem.capacity * (1 + 1e-9)).all()
    np.testing.assert_allclose((problem.speed * split.X).sum(axis=1), split.throughput)


def found(policy: Policy, instance: Instance) -> Levels:
    levels = levels_of(policy, instance)
    assert levels is not None
    return levels


def test_parts_of_identical_jobs_lose_nothing(bench: type[Bench]) -> None:
    problem = bench.random(3, jobs=3, types=2).repeated(8)
    split = solve_instance(MaxMinFairness(), problem.instance, partitions=4)
    assert split.gap <= 1e-8
    assert split.status == "optimal"


def test_least_costs_are_those_of_a_linear_program() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        speed, price = rng.uniform(0, 9, 4), rng.uniform(0, 5, 4)
        demand = speed.max() * rng.uniform()
        best = linprog(
            price, A_ub=[-speed, np.ones(4)], b_ub=[-demand, 1.0], bounds=[(0, None)] * 4
        )
        cost = least_cost(speed[None, :], price[None, :], np.array([demand]))
        assert cost[0] == pytest.approx(best.fun, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_right_prices_bound_the_level_exactly_and_wrong_ones_from_beyond(
    seed: int, bench: type[Bench]
) -> None:
    problem = bench.random(seed, jobs=9, types=3)
    problem = bench(problem.speed, np.ones(9), np.array([1.0, 2.0, 2.0]), problem.prices)
    best = solve_instance(MaxMinFairness(), problem.with_columns(weight=np.ones(9)).instance)
    p, levels = Problem(problem.instance), found(MaxMinFairness(), problem.instance)
    exact = level_bound(levels, p, best.prices, best.objective)
    assert exact == pytest.approx(best.objective, rel=1e-7)
    wrong = best.prices * np.array([1.5, 1.0, 0.5]) + 0.1 * best.prices.max()
    assert level_bound(levels, p, wrong, best.objective) >= exact * (1 - 1e-9)


def test_policies_without_demands_are_refused_by_name(bench: type[Bench]) -> None:
    with pytest.raises(InputError, match=r"partitions do not go with FIFO.*'makespan'"):
        solve_instance(FIFO(), bench.random(0).instance, partitions=2)


def test_pairs_are_refused_and_not_left_out() -> None:
    drawn = ap.generate_workload(jobs=4, scale_factors="single")
    gpus = {"v100": 2, "k80": 2}
    speed, jobs = drawn.throughput_of(gpus), drawn.jobs[["job_type", "scale_factor"]]
    given: dict[str, Any] = {"workers": gpus, "jobs": jobs, "partitions": 2}
    with pytest.raises(InputError, match=r"partitions do not go with pairs="):
        ap.solve("max_min_fairness_space_sharing", speed, pairs=drawn.pairs, **given)
    assert ap.solve("max_min_fairness", speed, pairs=drawn.pairs, **given).gap >= 0


@pytest.mark.parametrize("policy", [MaxMinFairness(), Makespan(), FinishTimeFairness()])
@pytest.mark.parametrize("seed", each_seed(2, 12))
def test_prices_of_parts_are_differences_of_the_level_that_they_prove(
    policy: Policy, seed: int, bench: type[Bench]
) -> None:
    problem = bench.random(seed, jobs=9, types=3).with_columns(weight=np.ones(9))
    instance = problem.instance
    split = solve_instance(policy, instance, partitions=2 + seed % 2, seed=seed)
    most = isinstance(policy, MaxMinFairness | Makespan)
    levels = found(policy, instance)
    reached = 1 / split.objective if isinstance(policy, Makespan) else split.objective

    def bound(more: float, of: int) -> float:
        capacity = instance.capacity + more * np.eye(instance.capacity.size)[of]
        other = Problem(replace(instance, capacity=capacity))
        start = reached * (0.5 if most else 2.0)  # what can surely be paid for
        return reported(policy, instance, level_bound(levels, other, split.prices, start))[0]

    step, better = 1e-4, 1.0 if isinstance(policy, MaxMinFairness) else -1.0
    for resource, price in enumerate(split.prices):
        gain = better * (bound(step, resource) - bound(0.0, resource)) / step
        loss = better * (bound(0.0, resource) - bound(-step, resource)) / step
        slack = 1e-3 * max(abs(loss), abs(price)) + 1e-7 * abs(split.objective)
        assert gain - slack <= price <= loss + slack


@pytest.mark.parametrize("seed", range(20))
def test_slopes_of_the_least_cost_are_its_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speed, price = rng.uniform(0, 9, (30, 3)), rng.uniform(0, 5, (30, 3))
    demand = speed.max(axis=1) * rng.uniform(0.01, 0.98, 30)
    demand[:10] = np.sort(speed[:10], axis=1)[:, 1]  # at an option, where there may be a kink
    low, high = least_cost_slopes(speed, price, demand)
    here, step = least_cost(speed, price, demand), 1e-6
    left = (here - least_cost(speed, price, demand - step)) / step
    right = (least_cost(speed, price, demand + step) - here) / step
    np.testing.assert_allclose(low, left, atol=1e-6)
    np.testing.assert_allclose(high, right, atol=1e-6)


@pytest.mark.thorough
def test_a_job_that_needs_next_to_nothing_is_no_error(bench: type[Bench]) -> None:
    """Two need a share of time below all that counts: what is lost is said, and nothing raised."""
    speed = np.array([[1e5], [1e-4], [1e5], [1e-4]])
    columns = {"steps_remaining": np.array([400.0, 1e7, 400.0, 1e7])}
    problem = bench(speed, np.ones(4), np.array([2.0]), np.ones(1), columns)
    for policy in (Makespan(), MaxMinFairness()):
        instance = problem.with_columns(weight=np.ones(4)).instance
        found = solve_instance(policy, instance, partitions=2, seed=1)
        assert found.status == ("optimal" if found.gap <= 1e-6 else "optimal_inaccurate")
        assert np.isfinite(found.X).all()
        assert (found.prices >= 0).all()
    for seed in range(4):
        makespan = solve_instance(Makespan(), problem.instance, partitions=2, seed=seed)
        assert makespan.gap == pytest.approx(1 - 1e11 / makespan.objective, abs=1e-6)
