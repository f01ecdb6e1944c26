"""Prices where the objective has a kink: one choice, whoever solves and in whatever order."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from tests.seeds import ranges_of_seeds

import apportion as ap

Floats = NDArray[np.float64]
Solver = Literal["highs", "clarabel", "arrow"]
POLICIES = (
    "max_min_fairness",
    "makespan",
    "finish_time_fairness",
    "max_total_throughput",
    "nash_welfare",
)
LEVELS = POLICIES[:3]
SOLVERS: tuple[Solver, ...] = ("highs", "clarabel", "arrow")


def drawn(seed: int) -> tuple[pd.DataFrame, dict[str, int], pd.DataFrame]:
    """Draw jobs like each other, types like each other and whole numbers: kinks are likely."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    speed = rng.integers(1, 4, (n, k)).astype(float)
    if k > 1 and rng.random() < 0.5:
        speed[:, 1] = speed[:, 0]
    if rng.random() < 0.5:
        speed = speed[rng.integers(0, n, n)]
    units = rng.integers(1, 5, k)
    if rng.random() < 0.4:
        units = np.full(k, -(-n // k))
    jobs = {
        "steps_remaining": rng.integers(1, int(rng.choice([2, 4])), n) * 1e3,
        "elapsed_s": rng.integers(0, 3, n) * 500.0,
        "weight": rng.integers(1, 3, n) * 1.0,
        "arrival_s": np.arange(n) * 1.0,
    }
    names = [f"job{i}" for i in range(n)]
    cluster = dict(zip("abc", units.tolist(), strict=False))
    return pd.DataFrame(speed, names, list(cluster)), cluster, pd.DataFrame(jobs, names)


def optimum(policy: str, speed: Floats, units: Floats, steps: Floats) -> float:
    """Largest total throughput, or largest 1 / makespan, by scipy."""
    n, k = speed.shape
    time, held = np.kron(np.eye(n), np.ones(k)), np.kron(np.ones(n), np.eye(k))
    made = np.kron(np.eye(n), np.ones(k)) * speed.ravel()
    if policy == "max_total_throughput":
        result = linprog(-speed.ravel(), np.vstack([time, held]), np.append(np.ones(n), units))
        return -float(np.asarray(result.fun))
    limits = np.vstack([np.hstack([time, np.zeros((n, 1))]), np.hstack([held, np.zeros((k, 1))])])
    limits = np.vstack([limits, np.hstack([-made, steps[:, None]])])
    right = np.concatenate([np.ones(n), units, np.zeros(n)])
    return -float(np.asarray(linprog(np.append(np.zeros(n * k), -1.0), limits, right).fun))


def worth(prices: pd.Series, cluster: dict[str, int]) -> pd.Series:
    """Return what all GPUs of each type are worth."""
    return prices.sort_index() * pd.Series(cluster, dtype=float).sort_index()


def test_groups_that_hold_each_other_back_by_hand() -> None:
    """Two jobs share the one a, six the three b: each group alone needs 2000 s."""
    speed = pd.DataFrame({"a": [1.0] * 2 + [0.0] * 6, "b": [0.0] * 2 + [1.0] * 6})
    jobs = pd.DataFrame({"steps_remaining": [1e3] * 8})
    found = ap.solve("makespan", speed, workers="a=1,b=3", jobs=jobs)
    assert found.objective == pytest.approx(2000)
    # (2000 s, 0) and (0, 2000 s / 3) are subgradients; between them 500 s for each of the
    # four GPUs is the least sum of squares.
    np.testing.assert_allclose(found.prices, [500, 500], rtol=1e-6)


def test_no_gpu_more_is_worth_anything_where_all_have_one() -> None:
    """Four jobs on four GPUs, two of them fast: only a fast one more adds steps."""
    speed = pd.DataFrame({"fast": [3.0] * 4, "slow": [1.0] * 4})
    found = ap.solve("max_total_throughput", speed, workers="fast=2,slow=2")
    np.testing.assert_allclose(found.prices, [2, 0], atol=1e-7)


def test_a_type_split_into_two_names_keeps_its_price() -> None:
    whole = pd.DataFrame({"a": [1.0] * 2 + [0.0] * 6, "b": [0.0] * 2 + [1.0] * 6})
    jobs = pd.DataFrame({"steps_remaining": [1e3] * 2 + [1500.0] * 6})
    split = whole.assign(c=whole["b"])
    one = ap.solve("makespan", whole, workers="a=1,b=3", jobs=jobs).prices
    two = ap.solve("makespan", split, workers="a=1,b=2,c=1", jobs=jobs).prices
    np.testing.assert_allclose(two, [one["a"], one["b"], one["b"]], rtol=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 8))
def test_orders_and_names_change_no_price(policy: str, seeds: range) -> None:
    for seed in seeds:
        speed, cluster, jobs = drawn(seed)
        first = ap.solve(policy, speed, workers=cluster, jobs=jobs, second_stage=False)
        expected = worth(first.prices, cluster)
        unit = 1e-6 * expected.max() + 1e-9 * abs(first.objective)
        rng = np.random.default_rng(seed)
        rows, names = rng.permutation(len(speed)), rng.permutation(len(speed))
        renamed = {f"job{i}": f"x{name}" for i, name in enumerate(names)}
        types = dict(zip(cluster, rng.permutation(list(cluster)).tolist(), strict=True))
        moved = ap.solve(
            policy,
            speed.iloc[rows].rename(index=renamed, columns=types),
            workers={types[name]: units for name, units in cluster.items()},
            jobs=jobs.iloc[rows].rename(index=renamed).assign(arrival_s=rng.permutation(len(jobs))),
            second_stage=False,
        )
        back = moved.prices.rename({new: name for name, new in types.items()})
        np.testing.assert_allclose(worth(back, cluster), expected, rtol=0, atol=unit)


@pytest.mark.parametrize("policy", ["max_total_throughput", "makespan"])
def test_prices_are_the_least_of_all_subgradients(policy: str) -> None:
    """No cluster does better than the prices say, and along themselves they are what it does.

    Of a concave optimum these two make a subgradient, and the least one: any other promises as
    much or more in the direction of the least.
    """
    kinks = 0
    for seed in range(12):
        speed, cluster, jobs = drawn(seed)
        steps, rng = jobs["steps_remaining"].to_numpy(), np.random.default_rng(seed)
        units = np.array(list(cluster.values()), dtype=np.float64)
        here = optimum(policy, speed.to_numpy(), units, steps)
        found = ap.solve(policy, speed, workers=cluster, jobs=jobs, second_stage=False)
        slope = here**2 if policy == "makespan" else 1.0  # of 1 / makespan
        prices = found.prices.reindex(speed.columns).to_numpy() * slope
        for change in (1.0, -1.0, rng.uniform(-1, 1, units.size), rng.uniform(-1, 1, units.size)):
            there = np.maximum(units + change, 0.0)
            reached = optimum(policy, speed.to_numpy(), there, steps)
            assert reached <= here + float(prices @ (there - units)) + 1e-9 * here
        toward = units * (prices / float(prices.max()) if prices.any() else 1.0) * 1e-3
        more, less = (
            abs(optimum(policy, speed.to_numpy(), units + sign * toward, steps) - here)
            for sign in (1, -1)
        )
        assert more == pytest.approx(float(prices @ toward), rel=1e-5, abs=1e-9 * here)
        kinks += less > more + 1e-6 * here
    assert kinks  # or the draws have none


@pytest.mark.parametrize("name", LEVELS)
def test_jobs_that_are_merged_have_the_prices_of_jobs_that_are_not(name: str) -> None:
    """With whole numbers, so that demands lie at throughputs."""
    for seed in range(4):
        rng = np.random.default_rng([9, seed])
        kinds = rng.integers(1, 4, (3, 2)) * 1.0
        speed = pd.DataFrame(kinds[rng.integers(0, 3, 256)], columns=["a", "b"])
        cluster = {"a": int(rng.choice([64, 128])), "b": int(rng.choice([64, 128, 256]))}
        jobs = pd.DataFrame(
            {
                "steps_remaining": rng.integers(1, 3, 256) * 1e4,
                "elapsed_s": rng.integers(0, 2, 256) * 1e3,
                "weight": rng.integers(1, 3, 256) * 1.0,
            }
        )
        merged, apart = (
            ap.solve(name, speed, workers=cluster, jobs=jobs, second_stage=False, group=group)
            for group in (True, False)
        )
        unit = 1e-9 * abs(merged.objective)
        expected = worth(apart.prices, cluster)
        np.testing.assert_allclose(worth(merged.prices, cluster), expected, rtol=1e-6, atol=unit)


@pytest.mark.parametrize("name", ["max_min_fairness", "max_total_throughput"])
def test_sessions_choose_as_a_cold_solve_does(name: str) -> None:
    for seed in range(6):
        speed, cluster, _ = drawn(seed)
        with ap.session(name, cluster) as session:
            session.add(speed)
            session.solve()
            session.remove(list(speed.index[:1]))
            warm = session.solve()
        cold = ap.solve(name, speed.iloc[1:], workers=cluster)
        np.testing.assert_allclose(warm.prices, cold.prices, rtol=1e-6, atol=1e-9)
