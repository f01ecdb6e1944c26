"""What is chosen among equal optima is what its definition says, at any size and in any order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.oracles.even_shares import even_shares
from tests.seeds import each_seed

from apportion.policies import (
    FinishTimeFairness,
    Instance,
    Makespan,
    MaxMinFairness,
    Policy,
    ProportionalShare,
    solve_instance,
)

if TYPE_CHECKING:
    from tests.policies.conftest import Bench

Floats = NDArray[np.float64]
WORST_OFF: list[type[MaxMinFairness | Makespan | FinishTimeFairness]] = [
    MaxMinFairness,
    Makespan,
    FinishTimeFairness,
]


def need_of(policy: type[Policy], problem: Bench) -> Floats:
    """Steps/s of each job at some level of a policy, or at the best one."""
    columns, steps = problem.columns, problem.columns["steps_remaining"]
    if policy is MaxMinFairness:
        return columns["weight"] * problem.equal_share / problem.gpus
    if policy is Makespan:
        return steps
    alone_s = columns["isolated_elapsed_s"] + steps / problem.isolated
    return steps / (problem.finish_time_ratio() * alone_s - columns["elapsed_s"])


def drawn(seed: int, jobs: int, bench: type[Bench]) -> Bench:
    """Draw a problem in which GPUs are scarce, or just enough, or plenty."""
    problem = bench.random(seed, jobs=jobs, types=int(3 + seed % 2))
    capacity = np.maximum(1.0, np.rint(problem.capacity * jobs / 12 * (0.3 + seed % 3)))
    return replace(problem, capacity=capacity)


@pytest.mark.parametrize("jobs", [40, *(pytest.param(n, marks=pytest.mark.slow) for n in (7, 90))])
@pytest.mark.parametrize("seed", each_seed(2, 12))
@pytest.mark.parametrize("policy", WORST_OFF)
def test_shares_are_those_of_the_definition(
    policy: type[Policy], seed: int, jobs: int, bench: type[Bench]
) -> None:
    problem = drawn(seed, jobs, bench)
    need = need_of(policy, problem)
    expected = even_shares(
        problem.speed, problem.gpus, problem.capacity, need, worth=problem.equal_share
    )
    found = solve_instance(policy(), problem.instance)
    np.testing.assert_allclose(found.X, expected, atol=1e-6)


def unlike(seed: int, jobs: int) -> Instance:
    """Draw a problem of many jobs: all different, of one speed on each type, or of a few kinds."""
    rng = np.random.default_rng([seed, jobs])
    types, spread = int(rng.integers(2, 6)), float(rng.choice([0.5, 2.0, 4.0]))
    speed = 10 ** rng.uniform(-spread / 2, spread / 2, (jobs, 1))
    speed = speed * np.exp(rng.normal(0, rng.choice([0.0, 0.5]), (jobs, types)))
    if rng.random() < 0.3:
        speed = speed[rng.integers(0, 5, jobs)]
    speed = np.where(rng.random((jobs, types)) < 0.15, 0.0, speed)
    speed[np.arange(jobs), rng.integers(0, types, jobs)] += 0.1
    gpus = rng.choice([1.0, 2.0, 4.0], jobs)
    wanted = gpus.sum() * float(rng.choice([0.2, 0.7, 2.0])) / types
    columns = {
        "weight": rng.integers(1, 4, jobs).astype(float),
        "steps_remaining": speed.max(axis=1) * 10 ** rng.uniform(2, 5, jobs),
        "elapsed_s": rng.uniform(0, 1e4, jobs),
        "isolated_elapsed_s": rng.uniform(0, 1e4, jobs),
    }
    capacity = np.maximum(4.0, np.rint(wanted * rng.uniform(0.3, 2, types)))
    return Instance.of_jobs(speed, gpus, capacity, columns=columns)


def permuted(instance: Instance, jobs: NDArray[np.intp], types: NDArray[np.intp]) -> Instance:
    """Return the same with jobs and types in other orders."""
    return Instance.of_jobs(
        instance.throughput[jobs][:, types],
        instance.columns["scale_factor"][jobs],
        instance.capacity[types],
        columns={name: values[jobs] for name, values in instance.columns.items()},
    )


@pytest.mark.parametrize(
    "jobs", [150, 600, *(pytest.param(n, marks=pytest.mark.slow) for n in (300, 420, 500))]
)
@pytest.mark.parametrize("seed", each_seed(2, 12))
@pytest.mark.parametrize("policy", WORST_OFF)
def test_in_another_order_all_have_the_same_shares(
    policy: type[MaxMinFairness | Makespan | FinishTimeFairness], seed: int, jobs: int
) -> None:
    instance, rng = unlike(seed, jobs), np.random.default_rng(seed)
    asked = policy(heterogeneity_aware=bool(seed % 3))
    order, types = rng.permutation(jobs), rng.permutation(instance.options)
    here = solve_instance(asked, instance).X
    there = solve_instance(asked, permuted(instance, order, types)).X
    np.testing.assert_allclose(there, here[order][:, types], atol=1e-7)


@pytest.mark.parametrize("jobs", [600, pytest.param(2700, marks=pytest.mark.slow)])
def test_fixed_shares_of_many_jobs_are_their_formula(jobs: int) -> None:
    instance = replace(unlike(3, jobs), throughput=unlike(3, jobs).throughput + 1.0)
    capacity, weight = instance.capacity, instance.columns["weight"]
    wanted = (instance.columns["scale_factor"] * weight).sum()
    largest = min(capacity.sum() / wanted, 1 / weight.max())
    expected = largest * weight[:, None] * capacity / capacity.sum()
    found = solve_instance(ProportionalShare(), instance).X
    np.testing.assert_allclose(found, expected, atol=1e-12)
