from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from apportion.policies import (
    FinishTimeFairness,
    Instance,
    Makespan,
    MaxMinFairness,
    solve_instance,
)

if TYPE_CHECKING:
    from tests.policies.conftest import Bench


def unlike(seed: int, jobs: int, types: int) -> Instance:
    """Jobs of 26 kinds whose throughputs all differ by some percent."""
    rng = np.random.default_rng(seed)
    speed = rng.uniform(1, 20, (26, types)) * 10.0 ** rng.uniform(-1, 1, (26, 1))
    speed[rng.random((26, types)) < 0.1] = 0.0
    speed[:, 0] += 1.0
    speed = speed[rng.integers(0, 26, jobs)] * rng.uniform(0.9, 1.1, (jobs, types))
    gpus = rng.choice([1.0, 2.0, 4.0, 8.0], jobs, p=[0.7, 0.1, 0.15, 0.05])
    steps = rng.uniform(1e3, 1e5, jobs)
    columns = {"steps_remaining": steps, "weight": rng.choice([1.0, 2.0, 5.0], jobs)}
    return Instance.of_jobs(speed, gpus, np.full(types, gpus.sum() / types / 3), columns=columns)


@pytest.mark.parametrize("policy", [MaxMinFairness, Makespan])
def test_many_unlike_jobs_take_the_arrow_and_get_what_others_find(
    policy: type[MaxMinFairness | Makespan],
) -> None:
    instance = unlike(2, 450, 3)
    arrow = solve_instance(policy(), instance)
    assert arrow.stats["solver"] == "arrow"
    declared = solve_instance(policy(), instance, solver="highs")
    assert declared.stats["solver"] == "highs"
    assert arrow.objective == pytest.approx(declared.objective, rel=1e-8)
    assert arrow.gap <= 1e-8
    total, expected = (
        (solution.throughput / instance.equal_share_throughput).sum()
        for solution in (arrow, declared)
    )
    assert total == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(arrow.X, declared.X, atol=1e-9)
    np.testing.assert_allclose(arrow.prices, declared.prices, rtol=1e-4, atol=1e-8)


def test_the_arrow_is_asked_by_name(bench: type[Bench]) -> None:
    problem = bench.random(1, jobs=6, types=3)
    columns = problem.columns | {"elapsed_s": np.zeros(6), "isolated_elapsed_s": np.zeros(6)}
    problem = replace(problem, columns=columns)
    for policy in (MaxMinFairness(), Makespan(), FinishTimeFairness()):
        arrow = solve_instance(policy, problem.instance, solver="arrow")
        assert arrow.stats["solver"] == "arrow"
        other = solve_instance(policy, problem.instance)
        assert arrow.objective == pytest.approx(other.objective, rel=1e-8)
        np.testing.assert_allclose(arrow.X, other.X, atol=1e-8)
