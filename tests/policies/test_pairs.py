from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from tests.seeds import each_seed

from apportion.policies import Instance, get_policy, solve_instance
from apportion.policies.core.pairs import PairTable

Floats = NDArray[np.float64]
POLICIES = [
    "max_min_fairness",
    "max_min_fairness_agnostic",
    "makespan",
    "finish_time_fairness",
    "fifo",
    "max_total_throughput",
    "min_cost",
]


def problem(seed: int, jobs: int = 8) -> tuple[Instance, PairTable]:
    """Few job types, two scale factors, pairs that interfere at random or do not fit."""
    rng = np.random.default_rng(seed)
    keys, types = 4, 2
    alone = rng.uniform(1, 10, (keys, types))
    size = np.array([1.0, 1.0, 2.0, 2.0])
    own = alone[:, None, :] * rng.uniform(0.3, 1.0, (keys, keys, types))
    fits = rng.random((keys, keys, types)) < 0.8
    fits &= fits.transpose(1, 0, 2) & (size[:, None] == size[None, :])[:, :, None]
    key = rng.integers(0, keys, jobs)
    elapsed = rng.uniform(0, 100, jobs)
    columns = {
        "steps_remaining": rng.uniform(1e3, 1e4, jobs),
        "elapsed_s": elapsed,
        "isolated_elapsed_s": elapsed,
        "order": np.arange(jobs, dtype=float),
    }
    instance = Instance.of_jobs(
        alone[key], size[key], [2, 2], columns=columns, prices=np.array([2.0, 1.0])
    )
    return instance, PairTable(own * fits, key)


def check_feasible(
    instance: Instance, table: PairTable, X: Floats, pairs: NDArray[np.intp]
) -> None:
    n = instance.jobs
    gpus = instance.columns["scale_factor"]
    time, speed = X[:n].sum(axis=1), (instance.throughput * X[:n]).sum(axis=1)
    held = gpus @ X[:n]
    for (a, b), share in zip(pairs, X[n:], strict=True):
        assert a != b
        time[[a, b]] += share.sum()
        held = held + max(gpus[a], gpus[b]) * share
        speed[a] += table.own[table.key[a], table.key[b]] @ share
        speed[b] += table.own[table.key[b], table.key[a]] @ share
    assert (X >= 0).all()
    assert (time <= 1 + 1e-9).all()
    assert (held <= instance.capacity + 1e-9).all()
    assert (speed > -1e-9).all()


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", each_seed(2, 3))
def test_sharing_is_feasible_and_never_worse(name: str, seed: int) -> None:
    instance, table = problem(seed)
    policy = get_policy(name)
    apart, shared = solve_instance(policy, instance), solve_instance(policy, instance, pairs=table)
    check_feasible(instance, table, shared.X, shared.pairs)
    better = apart.objective - shared.objective
    if name not in ("makespan", "finish_time_fairness"):
        better = -better
    assert better >= -1e-6 * abs(apart.objective)
    assert shared.gap < 1e-6


@pytest.mark.parametrize("jobs", [2, 3, 5])
@pytest.mark.parametrize("seed", [0, 7])
def test_finish_times_of_pairs_are_as_good_as_bisection_finds(seed: int, jobs: int) -> None:
    instance, table = problem(seed, jobs)
    rng = np.random.default_rng(seed)
    steps, elapsed = 10.0 ** rng.uniform(1, 6, jobs), 10.0 ** rng.uniform(0, 4, jobs)
    late = {"steps_remaining": steps, "elapsed_s": elapsed, "isolated_elapsed_s": elapsed}
    instance = instance.with_columns({**instance.columns, **late})
    isolated_s = elapsed + steps / instance.isolated_throughput

    def can_have(ratio: float) -> bool:
        left_s = ratio * isolated_s - elapsed
        return bool((left_s > 0).all()) and _meets(instance, table, steps / left_s)

    low, high = 0.0, 10.0
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (low, middle) if can_have(middle) else (middle, high)
    shared = solve_instance(get_policy("finish_time_fairness"), instance, pairs=table)
    assert shared.objective == pytest.approx(high, rel=1e-8)
    assert shared.gap <= 1e-8
    check_feasible(instance, table, shared.X, shared.pairs)


def _meets(instance: Instance, table: PairTable, demand: Floats) -> bool:
    """Whether jobs alone and any two of them can make so many steps/s, by scipy."""
    n, types = instance.throughput.shape
    rows = [(m,) for m in range(n)] + [(a, b) for a in range(n) for b in range(a)]
    speed, time = np.zeros((2, n, len(rows), types))
    held = np.zeros((types, len(rows), types))
    for k, row in enumerate(rows):
        for m in row:
            beside = [table.own[table.key[m], table.key[other]] for other in row if other != m]
            speed[m, k] = beside[0] if beside else instance.throughput[m]
            time[m, k] = 1.0
        held[range(types), k, range(types)] = instance.columns["scale_factor"][list(row)].max()
    parts = np.array([*(-speed / demand[:, None, None]), *time, *held]).reshape(-1, time[0].size)
    share = np.repeat([1.0, 0.0], [n, n + types])
    limit = np.concatenate([np.zeros(n), np.ones(n), instance.capacity])
    found = linprog(
        np.append(np.zeros(parts.shape[1]), -1.0),
        np.column_stack([parts, share]),
        limit,
        bounds=[(0, None)] * parts.shape[1] + [(0, 2.0)],
    )
    return found.status == 0 and found.fun is not None and bool(found.fun <= -1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["max_min_fairness", "max_total_throughput"])
def test_classes_of_pairs_lose_nothing(name: str, seed: int) -> None:
    instance, table = problem(seed, jobs=9)
    policy = get_policy(name)
    by_class = solve_instance(policy, instance, pairs=table)
    one_by_one = solve_instance(policy, instance, pairs=table, group=False)
    assert by_class.stats["classes"] < one_by_one.stats["classes"]
    assert by_class.objective == pytest.approx(one_by_one.objective, rel=1e-7)
    np.testing.assert_allclose(by_class.throughput, one_by_one.throughput, rtol=1e-4)


def test_expanded_shares_give_the_throughput_that_was_promised() -> None:
    instance, table = problem(3, jobs=12)
    solution = solve_instance(get_policy("max_min_fairness"), instance, pairs=table)
    n = instance.jobs
    speed = (instance.throughput * solution.X[:n]).sum(axis=1)
    for (a, b), share in zip(solution.pairs, solution.X[n:], strict=True):
        speed[a] += table.own[table.key[a], table.key[b]] @ share
        speed[b] += table.own[table.key[b], table.key[a]] @ share
    np.testing.assert_allclose(speed, solution.throughput, rtol=1e-9)


def test_two_jobs_that_do_not_interfere_share_one_gpu() -> None:
    instance = Instance.of_jobs([[1.0], [1.0]], [1, 1], [1])
    table = PairTable(np.array([[[1.0]]]), np.zeros(2, dtype=np.intp))
    solution = solve_instance(get_policy("max_min_fairness"), instance, pairs=table)
    np.testing.assert_allclose(solution.throughput, [1.0, 1.0])
    np.testing.assert_allclose(solution.X, [[0.0], [0.0], [1.0]], atol=1e-9)


def test_a_pair_no_better_than_taking_turns_is_left_out() -> None:
    instance = Instance.of_jobs([[1.0], [1.0]], [1, 1], [1])
    table = PairTable(np.array([[[0.5]]]), np.zeros(2, dtype=np.intp))
    solution = solve_instance(get_policy("max_min_fairness"), instance, pairs=table)
    assert solution.stats["pairs"] == 0
    np.testing.assert_allclose(solution.throughput, [0.5, 0.5])
