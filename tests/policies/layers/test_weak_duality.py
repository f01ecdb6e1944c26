"""Prices prove the objective: weak duality from the definitions, none of it the solver's."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.seeds import sampled

from apportion.policies import BUILT_IN, Instance, get_policy, solve_instance

if TYPE_CHECKING:
    from collections.abc import Callable

Floats = NDArray[np.float64]
MERGED = ("max_min_fairness", "makespan", "finish_time_fairness")


def drawn(seed: int, jobs: int | None = None) -> Instance:
    """Draw jobs, more than the cluster can run."""
    rng = np.random.default_rng(seed)
    n, k = jobs or int(rng.integers(4, 14)), int(rng.integers(2, 5))
    kinds = min(n, 8) if jobs else n
    own = 10.0 ** rng.uniform(-2, 2, (kinds, 1))
    speed = np.exp(rng.normal(0, 1, (kinds, k))) * own * (rng.random((kinds, k)) < 0.8)
    speed[np.arange(kinds), rng.integers(0, k, kinds)] += own[:, 0]
    speed = speed[rng.integers(0, kinds, n)] if jobs else speed
    gpus, capacity = np.full(n, 4.0), rng.integers(4, 9, k) * n / 8
    elapsed, steps = rng.uniform(0, 600, n), 10.0 ** rng.uniform(2, 5, n) * speed.max(axis=1)
    columns = {
        "weight": 10.0 ** rng.uniform(0, 2, n),
        "steps_remaining": steps,
        "elapsed_s": elapsed,
        "isolated_elapsed_s": elapsed,
        "order": rng.permutation(n).astype(float),
        "deadline_s": np.full(n, np.nan),
        "network_priority": rng.choice([0.2, 0.5, 1.0], n),
        "entity": np.arange(n) % 2.0,
        "entity_used_s": np.arange(n) % 2 * 3e4,
    }
    return Instance.of_jobs(
        speed,
        gpus,
        capacity,
        columns=columns,
        prices=rng.uniform(1, 3, k),
        texts={"entity": ("a", "b")},
    )


def best_of_mixtures(value: Callable[[Floats, Floats], Floats], T: Floats, cost: Floats) -> Floats:
    """Largest value of (steps/s, cost) over mixtures of any two options or of one and idling."""
    T, cost = (np.column_stack([np.zeros(len(T)), each]) for each in (T, cost))
    part = np.linspace(0, 1, 20001)[None, :]
    best = np.full(len(T), -np.inf)
    for a, b in combinations(range(T.shape[1]), 2):
        made, paid = (x[:, [a]] + part * (x[:, [b]] - x[:, [a]]) for x in (T, cost))
        best = np.maximum(best, value(made, paid).max(axis=1))
    return best


def cheapest(T: Floats, cost: Floats, need: Floats) -> Floats:
    """Least cost of making the steps/s needed, infinite beyond the fastest."""
    T, cost = (np.column_stack([np.zeros(len(T)), each]) for each in (T, cost))
    least = np.full(len(T), np.inf)
    for a in range(T.shape[1]):
        for b in range(T.shape[1]):
            low, high = T[:, a], T[:, b]
            inside = (low <= need) & (need <= high * (1 + 1e-12)) & (low < high)
            part = np.where(inside, (need - low) / np.where(high > low, high - low, 1), 0)
            mixed = cost[:, a] + part * (cost[:, b] - cost[:, a])
            least = np.where(inside, np.minimum(least, mixed), least)
    return least


def best_level(i: Instance, prices: Floats, needs: Callable[[float], Floats], near: float) -> float:
    """Largest level whose demands cost no more than the GPUs at these prices are worth."""
    cost = i.columns["scale_factor"][:, None] * prices
    low, high = near * 1e-3, near * 1e3
    for _ in range(200):
        level = np.sqrt(low * high)
        fits = cheapest(i.throughput, cost, needs(level)).sum() <= prices @ i.capacity
        low, high = (level, high) if fits else (low, level)
    return float(high)


def demands(name: str, i: Instance) -> Callable[[float], Floats]:
    """Steps/s at a level of policies about the worst off job, from their definitions."""
    c, share = i.columns, i.throughput @ i.capacity / i.capacity.sum()
    gpus = c["scale_factor"]
    if name in ("max_min_fairness", "power_capped"):
        return lambda level: level * c["weight"] * share / gpus
    if name == "hierarchical_fairness":
        inside = np.array([c["weight"][c["entity"] == own].sum() for own in c["entity"]])
        entities = np.unique(c["entity"]).size
        return lambda level: level * c["weight"] / inside / entities * share / gpus
    if name == "makespan":
        return lambda level: level * c["steps_remaining"]
    slice_ = i.capacity / len(gpus) / gpus[:, None]
    slice_ = slice_ / np.maximum(slice_.sum(axis=1, keepdims=True), 1)
    alone = c["elapsed_s"] + c["steps_remaining"] / (slice_ * i.throughput).sum(axis=1)

    def in_time(inverse: float) -> Floats:
        left = alone / inverse - c["elapsed_s"]
        none = np.full(left.size, np.inf)
        return np.asarray(np.divide(c["steps_remaining"], left, out=none, where=left > 0))

    return in_time


def gains(name: str, i: Instance) -> Floats:
    """What a cell of X adds to objectives that are linear in X, from their definitions."""
    c, T = i.columns, i.throughput
    relative = T / T.max(axis=1, keepdims=True)
    if name == "max_total_throughput":
        return np.asarray(T)
    if name == "least_mean_completion":
        alone_s = np.maximum(c["steps_remaining"] / T.max(axis=1), 3600.0)
        return np.asarray(np.sqrt(c["weight"] / alone_s)[:, None] * relative)
    if name == "cohort":
        return np.asarray(c["scale_factor"][:, None] * relative)
    if name == "network_sensitive":
        return np.asarray(relative / c["network_priority"][:, None])
    key = c["order"] if name == "fifo" else c["steps_remaining"] / T.max(axis=1)
    rank = np.searchsorted(np.unique(key), key) + 1.0
    return np.asarray((c["scale_factor"] * (rank.max() + 1 - rank))[:, None] * relative)


def cheap_first(gain: Floats, cost: Floats) -> list[tuple[float, float]]:
    """What each unit of gain costs, and how many there are of it: the lower hull, from idling."""
    steps, at, paid = [], 0.0, 0.0
    while (gain > at).any():
        price = np.where(gain > at, (cost - paid) / np.where(gain > at, gain - at, 1), np.inf)
        best = int(np.lexsort((-gain, price))[0])
        steps.append((float(price[best]), float(gain[best]) - at))
        at, paid = float(gain[best]), float(cost[best])
    return steps


def best_of_entities(i: Instance, cost: Floats) -> float:
    """Largest sum of logarithms of what entities have and have had, less what their jobs cost."""
    gain = i.columns["scale_factor"][:, None] * i.throughput / i.throughput.max(axis=1)[:, None]
    total = 0.0
    for own in np.unique(i.columns["entity"]):
        mine = np.flatnonzero(i.columns["entity"] == own)
        has, paid = float(i.columns["entity_used_s"][mine[0]]) / 21600.0, 0.0
        for price, units in sorted(step for k in mine for step in cheap_first(gain[k], cost[k])):
            taken = min(units, max(0.0, 1 / price - has)) if price > 0 else units
            has, paid = has + taken, paid + price * taken
        total += np.log(has) - paid
    return total


def bound(name: str, i: Instance, prices: Floats, reached: float) -> float:
    """Best objective that any allocation can have, by the prices alone."""
    cost = i.columns["scale_factor"][:, None] * prices
    worth = float(prices @ i.capacity)
    if name in {*MERGED, "power_capped", "hierarchical_fairness"}:
        inverse = name in {"makespan", "finish_time_fairness"}
        slope = reached**-2 if inverse else 1.0
        level = best_level(i, prices * slope, demands(name, i), 1 / reached if inverse else reached)
        return 1 / level if inverse else level
    if name == "nash_welfare":
        unit = i.columns["scale_factor"] / (i.throughput @ i.capacity / i.capacity.sum())
        weight = i.columns["weight"][:, None]

        def value(made: Floats, paid: Floats) -> Floats:
            with np.errstate(divide="ignore"):
                return np.asarray(weight * np.log(unit[:, None] * made) - paid)

        return worth + float(best_of_mixtures(value, i.throughput, cost).sum())
    if name == "fair_over_time":
        return worth + best_of_entities(i, cost)
    return worth + float(np.maximum(gains(name, i) - cost, 0.0).max(axis=1).sum())


NO_BOUND = {"min_cost", "min_cost_slos", "isolated", "proportional", "strategy_proof"}
"""Bargains leave nothing scarce, and of shares that are given prices prove nothing."""


@pytest.mark.parametrize("policy", sampled(BUILT_IN, 4), ids=lambda policy: policy.name)
def test_prices_prove_the_objective(policy: Any) -> None:
    for seed in range(4):
        i = drawn(seed)
        # Whole decisions may leave a gap to what prices prove.
        asked = policy(integral=False) if policy.integral else policy()
        solution = solve_instance(asked, i)
        reached = solution.objective
        assert (solution.prices >= 0).all()
        assert (i.columns["scale_factor"] @ solution.X <= i.capacity * (1 + 1e-9)).all()
        assert (solution.X.sum(axis=1) <= 1 + 1e-9).all()
        if policy.name not in NO_BOUND:
            assert bound(policy.name, i, solution.prices, reached) == pytest.approx(
                reached, rel=1e-5, abs=1e-5
            )


def test_a_bargain_is_the_best_there_is() -> None:
    for seed in range(4):
        i = drawn(seed)
        best = (i.throughput / i.throughput.max(axis=1, keepdims=True)) / (
            i.columns["scale_factor"][:, None] * i.prices
        )
        assert solve_instance(get_policy("min_cost"), i).objective == pytest.approx(best.max())
