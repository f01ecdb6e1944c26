from __future__ import annotations

import numpy as np

from apportion.policies import GandivaPacking, Instance, solve_instance
from apportion.policies.core.pairs import PairTable


def crowd(jobs: int, gpus: int, beside: float) -> tuple[Instance, PairTable]:
    columns = {"order": np.arange(jobs, dtype=float)}
    instance = Instance.of_jobs(np.ones((jobs, 1)), np.ones(jobs), [gpus], columns=columns)
    return instance, PairTable(np.full((1, 1, 1), beside), np.zeros(jobs, dtype=np.intp))


def test_nothing_is_packed_while_there_is_room() -> None:
    instance, table = crowd(4, 4, 0.9)
    solution = solve_instance(GandivaPacking(), instance, pairs=table)
    assert len(solution.pairs) == 0
    np.testing.assert_allclose(solution.throughput, 1.0)


def test_a_full_cluster_is_packed_in_pairs() -> None:
    instance, table = crowd(8, 4, 0.9)
    solution = solve_instance(GandivaPacking(), instance, pairs=table)
    assert sorted(solution.pairs.ravel().tolist()) == list(range(8))
    np.testing.assert_allclose(solution.throughput, 0.9)


def test_pairs_that_lose_are_not_kept() -> None:
    instance, table = crowd(8, 4, 0.4)
    solution = solve_instance(GandivaPacking(), instance, pairs=table)
    assert len(solution.pairs) == 0
    np.testing.assert_allclose(solution.throughput, 0.5)


def test_the_seed_decides_who_meets_whom() -> None:
    instance, table = crowd(12, 4, 0.9)
    first, again, other = (
        solve_instance(GandivaPacking(seed=seed), instance, pairs=table).pairs.tolist()
        for seed in (0, 0, 1)
    )
    assert first == again != other


def test_a_pair_that_wins_on_the_whole_stands_on_every_type() -> None:
    """It has its slice also of the type on which taking turns would be faster."""
    jobs, beside = 8, np.array([0.9, 0.9, 0.3])
    columns = {"order": np.arange(jobs, dtype=float)}
    instance = Instance.of_jobs(np.ones((jobs, 3)), np.ones(jobs), [1, 1, 2], columns=columns)
    table = PairTable(beside[None, None, :], np.zeros(jobs, dtype=np.intp))
    solution = solve_instance(GandivaPacking(), instance, pairs=table)
    assert sorted(solution.pairs.ravel().tolist()) == list(range(jobs))
    np.testing.assert_allclose(solution.throughput, (0.9 + 0.9 + 2 * 0.3) / 4)
