"""Levels that end at own limits are passed together: the same levels, by fewer programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from apportion.policies import (
    HierarchicalFairness,
    Instance,
    Makespan,
    MaxMinFairness,
    PairTable,
    solve_instance,
)
from apportion.policies.solving.worst_off import water_filling

if TYPE_CHECKING:
    from apportion.policies import Policy

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
