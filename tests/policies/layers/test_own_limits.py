"""Levels that end at own limits are passed together: the same levels, by fewer programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from apportion.policies import (
    HierarchicalFairness,
    Instance,
    Makespan,
    MaxMinFairness,
    PairTable,
    Problem,
    solve_instance,
)
from apportion.policies.solving.worst_off import water_filling
from apportion.policies.solving.worst_off.float_filling import FloatFill
from apportion.policies.solving.worst_off.water_filling import Steady, water_fill

if TYPE_CHECKING:
    from apportion.policies import Policy
    from apportion.policies.solving.worst_off.own_limits import OwnLimits

Floats = NDArray[np.float64]


def drawn(seed: int, jobs: int = 30) -> tuple[Policy, Instance]:
    """Draw jobs of weights over decades, under one of three policies."""
    rng = np.random.default_rng([4, seed])
    speed = rng.uniform(1, 10, (jobs, 3)) * (rng.random((jobs, 3)) < 0.8)
    speed[:, 0] += 0.1
    gpus, capacity = rng.choice([1.0, 2.0, 4.0], jobs), rng.integers(1, 30, 3).astype(float)
    columns = {
        "weight": 10.0 ** rng.uniform(-1, 1, jobs),
        "steps_remaining": 10.0 ** rng.uniform(0, 3, jobs),
        "order": rng.permutation(jobs).astype(float),
        "entity": rng.integers(0, 3, jobs).astype(float),
    }
    policies: list[Policy] = [
        MaxMinFairness(lexicographic=True),
        Makespan(lexicographic=True),
        HierarchicalFairness(),
        HierarchicalFairness(inner="fifo"),
    ]
    texts = {"entity": ("a", "b", "c")}
    return policies[seed % 4], Instance.of_jobs(speed, gpus, capacity, columns=columns, texts=texts)


def one_by_one(fill: Any, rising: Any, active: Any, level: Any) -> Any:
    """Pass nothing."""
    return level, active


@pytest.mark.parametrize("seed", range(24))
def test_levels_are_those_of_one_step_after_the_other(seed: int) -> None:
    policy, instance = drawn(seed)
    together = solve_instance(policy, instance)
    with patch.object(water_filling, "pass_own_limits", one_by_one):
        alone = solve_instance(policy, instance)
    np.testing.assert_allclose(together.throughput, alone.throughput, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(together.X, alone.X, atol=1e-7)
    assert together.status == alone.status


@pytest.mark.parametrize("seed", range(4))
def test_levels_of_jobs_that_share_devices(seed: int) -> None:
    rng = np.random.default_rng([5, seed])
    jobs = 16
    speed, weight = rng.uniform(1, 10, (jobs, 2)), 10.0 ** rng.uniform(-1, 1, jobs)
    instance = Instance.of_jobs(speed, np.ones(jobs), [4, 6], columns={"weight": weight})
    beside = PairTable(speed[:, None] * rng.uniform(0.3, 0.9, (jobs, jobs, 2)), np.arange(jobs))
    policy = MaxMinFairness(lexicographic=True, space_sharing=True)
    together = solve_instance(policy, instance, pairs=beside)
    with patch.object(water_filling, "pass_own_limits", one_by_one):
        alone = solve_instance(policy, instance, pairs=beside)
    np.testing.assert_allclose(together.throughput, alone.throughput, rtol=1e-9)


def filled(speed: Floats, gpus: float) -> tuple[Floats, int]:
    """Fill a type of GPU, at equal rates; return the levels, and how many programs it took."""
    p = Problem(Instance.of_jobs(speed[:, None], np.ones(speed.size), [gpus]))
    found = water_fill(p, p.throughput, Steady(lambda active: active.astype(float)))
    return found.level, found.steps


def test_many_limits_by_hand() -> None:
    speed = np.arange(1.0, 41.0)
    level, steps = filled(speed, 40.0)  # enough for all
    np.testing.assert_allclose(level, speed)
    assert steps <= 3
    # A GPU less: the fastest are level where all of them together need one GPU less.
    level, steps = filled(speed, 39.0)
    top = level.max()
    np.testing.assert_allclose(level, np.minimum(speed, top), rtol=1e-12)
    assert np.minimum(1.0, top / speed).sum() == pytest.approx(39.0, rel=1e-12)
    assert steps <= 12


def test_no_limit_is_looked_for_where_capacities_hold_all_at_once() -> None:
    level, steps = filled(np.arange(1.0, 41.0), 1.0)
    np.testing.assert_allclose(level, level[0])
    assert steps == 1


def limits_of(p: Problem, utility: cp.Expression) -> OwnLimits:
    return FloatFill(p, utility, []).limits


@pytest.mark.parametrize("seed", range(12))
def test_limits_are_those_of_every_job_by_itself(seed: int) -> None:
    _, instance = drawn(seed, jobs=6)
    p = Problem(instance)
    found = limits_of(p, p.throughput)
    np.testing.assert_allclose(found.most, instance.throughput.max(axis=1))
    # No allocation is worth more than the bound; the best one is found by linear programming.
    gain = -(found.worth[:, None] * instance.throughput).ravel()
    held = np.kron(instance.gpus[:, 0][None, :], np.eye(3))
    time = np.kron(np.eye(6), np.ones((1, 3)))
    A, b = np.vstack([held, time]), np.append(instance.capacity, np.ones(6))
    best = -float(linprog(gain, A_ub=A, b_ub=b).fun or 0.0)
    assert best <= found.bound * (1 + 1e-9)
    assert found.bound == 3


def test_what_cannot_be_told_is_no_limit() -> None:
    p = Problem(Instance.of_jobs([[2.0], [2.0]], [1, 1], [1]))
    for other in (-p.throughput[1], p.throughput[1]):  # harm, and help by another job
        found = limits_of(p, cp.hstack([p.throughput[0] + other, p.throughput[1]]))
        assert np.isinf(found.most).all()
        assert not found.worth.any()
