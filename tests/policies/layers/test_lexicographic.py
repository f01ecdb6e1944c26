"""Lexicographic policies: equal to water filling by scipy, never worse than the plain policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import apportion as ap
from apportion.policies import (
    HierarchicalFairness,
    Instance,
    Makespan,
    MaxMinFairness,
    solve_instance,
)

Floats = NDArray[np.float64]


def drawn(seed: int, decades: float) -> tuple[Instance, Floats]:
    """Draw jobs whose speeds and weights span decades."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 12)), int(rng.integers(1, 5))
    own = 10.0 ** rng.uniform(-decades / 2, decades / 2, (n, 1))
    speed = np.exp(rng.normal(0, 1, (n, k))) * own * (rng.random((n, k)) < 0.75)
    speed[np.arange(n), rng.integers(0, k, n)] += own[:, 0]
    gpus, capacity = rng.choice([1.0, 2.0, 4.0], n), rng.integers(4, 9, k).astype(float)
    weight = 10.0 ** rng.uniform(0, decades, n)
    elapsed = rng.uniform(0, 2, n) * weight * rng.integers(0, 2, n)
    columns = {
        "weight": weight,
        "steps_remaining": weight * 1e3,
        "elapsed_s": elapsed,
        "isolated_elapsed_s": elapsed,
        "entity": rng.integers(0, 2, n).astype(float),
        "order": np.arange(n, dtype=float),
    }
    instance = Instance.of_jobs(
        speed, gpus, capacity, columns=columns, texts={"entity": ("a", "b")}
    )
    return instance, gpus


def test_levels_of_a_millionth_per_second_count() -> None:
    T = pd.DataFrame({"v": [0.0, 0.0, 9.0], "k": [1.0, 1.0, 4.0]}, index=list("abc"))
    jobs = pd.DataFrame({"steps_remaining": [2e4, 1e6, 1e4]}, index=T.index)
    for second_stage in (True, False):
        a = ap.solve(
            Makespan(lexicographic=True), T, workers="v=1,k=1", jobs=jobs, second_stage=second_stage
        )
        # c has the v for itself; a and b, on the k, are done together.
        np.testing.assert_allclose(
            jobs["steps_remaining"] / a.throughput, [1.02e6, 1.02e6, 1e4 / 9]
        )


def test_without_levels_there_is_an_error_and_no_other_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance, _ = drawn(0, 0.0)

    def fails(*_: Any, **__: Any) -> None:
        raise ap.SolveError("no level")

    monkeypatch.setattr("apportion.policies.core.water_filling.fill", fails)
    with pytest.raises(ap.SolveError, match="no level"):
        solve_instance(MaxMinFairness(lexicographic=True), instance)


@pytest.mark.parametrize("seed", [5031, 5033, 5035])
def test_jobs_that_get_nothing_have_the_level_zero(seed: int) -> None:
    instance, gpus = drawn(seed, 0.0)
    solution = solve_instance(HierarchicalFairness(inner="fifo"), instance)
    assert solution.status == "optimal"
    assert (gpus @ solution.X <= instance.capacity * (1 + 1e-9)).all()
    first = [np.flatnonzero(instance.columns["entity"] == entity)[0] for entity in (0.0, 1.0)]
    best = solve_instance(MaxMinFairness(), instance.subset(np.array(first), np.ones(2)))
    assert (solution.throughput[first] > 0.5 * best.throughput).all()  # the first in are served


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]])
@pytest.mark.parametrize("name", ["max_min_fairness", "makespan"])
def test_slivers_of_a_gpu_to_the_last_bits(name: str, order: list[int]) -> None:
    """One GPU is shared in proportion to weights (to steps over speed), the least share 1e-8.

    Were the levels to give way by 1e-12 each, a job with a sliver could have 1e-4 more.
    """
    jobs, weight = ["j", "k", "l", "m"], np.array([1e8, 1.0, 3.0, 10.0])
    speed = np.array([1.0, 20.0, 1.0, 5.0])
    table = pd.DataFrame({"a": speed}, index=jobs).iloc[order]
    columns = pd.DataFrame({"weight": weight, "steps_remaining": weight * speed}, index=jobs)
    policy = ap.get_policy(name, lexicographic=True)
    allocation = ap.solve(policy, table, workers={"a": 1}, jobs=columns)
    share = allocation.X["a"].reindex(jobs).to_numpy()
    np.testing.assert_allclose(share, weight / weight.sum(), rtol=1e-12)
    assert allocation.gap <= 1e-12
