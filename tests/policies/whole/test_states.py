"""Whole decisions by states, against scipy's integer programs and branch and bound."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from tests.policies.whole.oracle import Knapsack, random_instance
from tests.seeds import each_seed, ranges_of_seeds

from apportion.policies import Instance, solve_instance
from apportion.policies.registry import get_policy
from apportion.policies.solving.whole import decide, relaxation, states
from apportion.policies.solving.whole.statement import state
from apportion.types import Floats


def drawn(rng: np.random.Generator, *, jobs: int, types: int) -> Instance:
    """Draw options with values that are all different, or of a few whole numbers; little room."""
    instance = random_instance(rng, types=types, jobs=jobs)
    value = instance.throughput
    if rng.random() < 0.5:
        value = np.where(value > 0, rng.integers(1, 5, value.shape), 0.0)
    now = rng.integers(-1, instance.options, jobs).astype(float)
    columns = {**instance.columns, "current_option": now}
    room = np.ceil(instance.capacity * rng.choice([0.5, 1.0, 3.0]) * jobs / 10)
    return replace(instance.with_columns(columns), throughput=value, capacity=room)


def most(instance: Instance, value: Floats) -> float:
    """The most that a whole decision adds, by scipy."""
    jobs, options = value.shape
    usage = instance.usage.toarray().reshape(jobs * options, -1).T
    rows = np.kron(np.eye(jobs), np.ones(options))
    limits: Any = optimize.LinearConstraint(
        np.vstack([usage, rows]), ub=np.append(instance.capacity, np.ones(jobs))
    )
    worth = value.ravel()
    found = optimize.milp(
        -worth,
        constraints=limits,
        integrality=np.ones(worth.size, dtype=int),
        bounds=optimize.Bounds(0, worth > 0),
        options={"mip_rel_gap": 0.0},
    )
    return -float(found.fun or 0.0)


@pytest.mark.parametrize("seed", each_seed(5, 300))
@pytest.mark.parametrize("beam", [1, 500])
def test_states_decide_as_branch_and_bound(
    seed: int, beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "_BEAM", beam)  # how good a first decision is moves no result
    rng = np.random.default_rng(seed)
    instance = drawn(rng, jobs=int(rng.integers(1, 25)), types=int(rng.integers(2, 5)))
    found = solve_instance(Knapsack(), instance)
    assert found.objective == pytest.approx(most(instance, instance.throughput), rel=1e-9)
    assert found.stats["proved_by"] in ("relaxation", "states")
    assert found.gap <= 1e-9
    held = np.einsum("jo,jor->r", found.X, instance.usage.toarray().reshape(*found.X.shape, -1))
    assert (held <= instance.capacity + 1e-9).all()
    monkeypatch.setattr(decide, "by_states", lambda *_: None)
    searched = solve_instance(Knapsack(), instance)
    assert searched.stats["proved_by"] in ("relaxation", "highs")
    assert found.objective == pytest.approx(searched.objective, rel=1e-9)
    np.testing.assert_allclose(found.prices, searched.prices, rtol=1e-9, atol=1e-12)
    keeps = [float((each.X * instance.current).sum()) for each in (found, searched)]
    assert keeps[0] >= keeps[1]  # of decisions that are as good, in which more jobs stay


@pytest.mark.parametrize("name", ["sia", "pollux", "deepboot"])
def test_where_there_are_too_many_states_branch_and_bound_goes_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    jobs, gpus = 30, np.array([1.0, 2.0, 4.0, 8.0])
    kind, held = np.repeat([0, 1], gpus.size), np.tile(gpus, 2)
    speed = rng.lognormal(0.0, 0.5, (jobs, 1)) * np.array([1.0, 0.6])[kind]
    speed = speed * held / (1 + rng.uniform(0.01, 0.2, (jobs, 1)) * (held - 1))
    columns = {
        "current_option": rng.integers(-1, held.size, jobs).astype(float),
        "weight": rng.choice([1.0, 2.0], jobs),
        "reallocation_factor": rng.uniform(0.7, 1.0, jobs),
    }
    instance = Instance.of_options(
        speed, held, np.array([30.0, 41.0]), option_accelerator=kind, columns=columns
    )
    found = solve_instance(get_policy(name), instance)
    assert found.stats["proved_by"] == "states"
    monkeypatch.setattr(states, "_MOST_WORK", 0)
    searched = solve_instance(get_policy(name), instance)
    assert searched.stats["proved_by"] == "highs"
    assert found.objective == pytest.approx(searched.objective, rel=1e-9)
    assert found.X.tolist() == searched.X.tolist()


@pytest.mark.parametrize("seed", each_seed(6, 200))
def test_states_equal_enumeration_with_idle_rooms_and_parts_of_a_gpu(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, choices, resources = int(rng.integers(1, 6)), int(rng.integers(2, 5)), 2
    amounts = rng.integers(0, rng.choice([3, 10, 10**6]), (jobs, choices, resources)).astype(float)
    amounts[:, -1] = 0.0
    cost = -np.round(rng.random((jobs, choices)), rng.integers(0, 4))
    cost[:, -1] = 0.0
    capacity = np.floor(amounts.max(axis=1).sum(axis=0) * rng.random()) + rng.choice([0, 0.5])
    price = rng.random(resources) * rng.choice([0.0, 0.5 / (1 + amounts.max())], resources)
    chosen = np.array(list(itertools.product(range(choices), repeat=jobs)))
    taken = amounts[np.arange(jobs), chosen].sum(axis=1)
    value = cost[np.arange(jobs), chosen].sum(axis=1)
    value[(taken > capacity).any(axis=1)] = np.inf
    posed = states.States.of(cost + amounts @ price, amounts, capacity, price)
    assert posed is not None
    option, found, whole = posed.within(-posed.least + 1e-9, np.inf) or (None, np.nan, False)
    assert whole
    assert found + posed.least == pytest.approx(value.min(), abs=1e-12)
    assert value[(chosen == option).all(axis=1)] == pytest.approx(value.min(), abs=1e-12)
    assert posed.within(found - 1e-9, np.inf) is None


@pytest.mark.parametrize("high", [0, 2**55])  # above, a key and a place do not fit into one number
def test_of_parts_that_took_the_same_the_first_of_the_cheapest_stays(high: int) -> None:
    rng = np.random.default_rng(high)
    for size in (0, 1, 300):
        key, cost = high + rng.integers(0, 40, size), rng.integers(0, 4, size).astype(float)
        first = {each: min(np.flatnonzero(key == each), key=cost.__getitem__) for each in set(key)}
        assert states._cheapest(key, cost).tolist() == [first[each] for each in sorted(first)]


@pytest.mark.parametrize("seeds", ranges_of_seeds(20, 400))
def test_a_walk_over_prices_finds_what_highs_finds(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = 0
    for seed in seeds:
        rng = np.random.default_rng([4, seed])
        jobs, types = int(rng.integers(2, 40)), int(rng.integers(1, 4))
        whole = state(Knapsack(), drawn(rng, jobs=jobs, types=types))
        monkeypatch.setattr(relaxation, "_MANY", 10**9)
        highs = relaxation.relax(whole, np.inf)
        monkeypatch.setattr(relaxation, "_MANY", 0)
        walks += relaxation._walked(whole) is not None
        found = relaxation.relax(whole, np.inf)
        assert found.bound == pytest.approx(highs.bound, rel=1e-12)
        np.testing.assert_allclose(found.prices, highs.prices, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.x, highs.x, atol=1e-8)
        np.testing.assert_allclose(found.reduced, highs.reduced, atol=1e-9)
    assert walks >= len(seeds) // 20


def test_amounts_that_are_no_whole_numbers_are_left_to_branch_and_bound() -> None:
    rng = np.random.default_rng(8)
    speed, held = rng.uniform(1.0, 2.0, (8, 4)), np.array([0.5, 1.3, 0.5, 1.3])
    given = np.array([2.0, 2.1])
    instance = Instance.of_options(speed, held, given, option_accelerator=np.array([0, 0, 1, 1]))
    found = solve_instance(Knapsack(), instance)
    assert found.stats["proved_by"] in ("relaxation", "highs")
    assert found.objective == pytest.approx(most(instance, speed), rel=1e-9)


def test_far_more_is_wanted_than_there_is() -> None:
    rng = np.random.default_rng(2)
    speed, held = rng.uniform(1.0, 2.0, (200, 2)), np.array([64.0, 64.0])
    given = np.array([70.0, 130.0])
    instance = Instance.of_options(speed, held, given, option_accelerator=np.array([0, 1]))
    found = solve_instance(Knapsack(), instance)
    assert found.objective == pytest.approx(most(instance, speed), rel=1e-9)
