from __future__ import annotations

import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.policies import Instance, NashWelfare, StrategyProof, solve_instance


def test_one_gpu_and_equal_jobs_by_hand() -> None:
    jobs = Instance.of_jobs(np.full((3, 1), 5.0), np.ones(3), [1])
    np.testing.assert_allclose(solve_instance(NashWelfare(), jobs).X[:, 0], 1 / 3, atol=1e-6)
    # With a third job the others have 1/3 instead of 1/2: each keeps (2/3)**2 of its 1/3.
    kept = solve_instance(StrategyProof(), jobs).X[:, 0]
    np.testing.assert_allclose(kept, (2 / 3) ** 2 / 3, atol=1e-6)


def test_grouped_jobs_are_charged_like_single_ones() -> None:
    speed = np.array([[4.0, 1.0], [4.0, 1.0], [2.0, 2.0], [1.0, 3.0]])
    jobs = Instance.of_jobs(speed, np.ones(4), [1, 1])
    grouped = solve_instance(StrategyProof(), jobs)
    alone = solve_instance(StrategyProof(), jobs, group=False)
    np.testing.assert_allclose(grouped.throughput, alone.throughput, rtol=1e-4)


@pytest.mark.parametrize("seed", each_seed(1, 5))
def test_no_job_gains_by_overstating_one_type(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speed, gpus = rng.uniform(1, 5, (4, 2)), np.ones(4)
    honest = solve_instance(StrategyProof(), Instance.of_jobs(speed, gpus, [1, 1]))
    for factor in (0.3, 0.6, 2.0, 5.0):
        told = speed.copy()
        told[0, 0] *= factor
        lied = solve_instance(StrategyProof(), Instance.of_jobs(told, gpus, [1, 1]))
        real = float(lied.X[0] @ speed[0])
        assert real <= honest.throughput[0] * (1 + 1e-5)


def test_nash_welfare_is_a_maximum() -> None:
    rng = np.random.default_rng(0)
    speed = rng.uniform(1, 5, (5, 2))
    best = solve_instance(NashWelfare(), Instance.of_jobs(speed, np.ones(5), [1, 2]))
    for _ in range(200):
        X = rng.dirichlet(np.ones(6), 2).T[:5] * [1, 2]
        X /= np.maximum(X.sum(axis=1, keepdims=True), 1)
        assert np.log((speed * X).sum(axis=1)).sum() <= np.log(best.throughput).sum() + 1e-7
