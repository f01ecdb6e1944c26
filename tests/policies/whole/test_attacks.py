"""Elastic policies under permutations, degenerate numbers, pins, limits and labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.oracles.draw_whole import ELASTIC, draw_elastic
from tests.policies.whole.posed import Shape

import apportion as ap
from apportion.errors import InputError, SolveError
from apportion.policies import Instance, Policy, solve_instance
from apportion.policies.deepboot import DeepBoot
from apportion.policies.elastic_values import reallocation_factor
from apportion.policies.lyra import Lyra
from apportion.policies.optimus import Optimus
from apportion.policies.pollux import Pollux
from apportion.policies.sia import Sia

POLICIES: list[Policy] = [Sia(), Sia(power=1.0), Pollux(), Pollux(power=0.0), DeepBoot(), Optimus()]
BY_NAME = pytest.mark.parametrize("policy", POLICIES, ids=repr)


def drawn(seed: int, types: int = 2, jobs: int = 6, **columns: Any) -> Instance:
    """A round with current options, factors, weights and steps."""
    rng = np.random.default_rng(seed)
    each = draw_elastic(seed, ELASTIC[seed % len(ELASTIC)], jobs=jobs)
    own = ELASTIC[seed % len(ELASTIC)] != "equal jobs"
    factor = rng.uniform(0.3, 1.0, jobs) if own else np.full(jobs, 0.7)
    steps = rng.integers(1, 99, jobs) if own else np.full(jobs, 7)
    shape = Shape(4, types, rng.integers(1, 7, types).tolist())
    return shape.instance(each, factor, steps_remaining=steps, **columns)


def permuted(instance: Instance, jobs: np.ndarray, options: np.ndarray) -> Instance:
    """The same with jobs and options in another order."""
    columns = {name: values[jobs] for name, values in instance.columns.items()}
    now = columns["current_option"].astype(int)
    place = np.append(np.argsort(options), -1)
    return Instance.of_options(
        instance.throughput[jobs][:, options],
        instance.gpus[jobs][:, options],
        instance.capacity,
        option_accelerator=instance.option_accelerator[options],
        columns={**columns, "current_option": place[now]},
    )


@BY_NAME
def test_order_changes_nothing(policy: Policy) -> None:
    for seed in range(6):
        instance, rng = drawn(seed), np.random.default_rng(seed)
        jobs, options = rng.permutation(6), rng.permutation(4)
        one = solve_instance(policy, instance)
        other = solve_instance(policy, permuted(instance, jobs, options))
        assert other.objective == pytest.approx(one.objective, rel=1e-9, abs=1e-12)
        again = solve_instance(policy, instance)
        assert again.X.tobytes() == one.X.tobytes()


@BY_NAME
@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_what_a_step_is_changes_no_decision(policy: Policy, factor: float) -> None:
    for seed in range(4):
        instance = drawn(seed)
        steps = {"steps_remaining": instance.columns["steps_remaining"] * factor}
        other = replace(
            instance, throughput=instance.throughput * factor, columns={**instance.columns, **steps}
        )
        one, two = (solve_instance(policy, each) for each in (instance, other))
        assert two.objective == pytest.approx(one.objective, rel=1e-9, abs=1e-12)


@BY_NAME
def test_jobs_of_very_different_speeds_count_alike(policy: Policy) -> None:
    instance = drawn(0)
    size = 10.0 ** np.array([-6, -3, 0, 3, 6, 9])
    steps = {"steps_remaining": instance.columns["steps_remaining"] * size}
    other = replace(
        instance,
        throughput=instance.throughput * size[:, None],
        columns={**instance.columns, **steps},
    )
    one, two = (solve_instance(policy, each) for each in (instance, other))
    assert two.objective == pytest.approx(one.objective, rel=1e-9, abs=1e-12)


@BY_NAME
@pytest.mark.parametrize("types", [1, 2])
def test_classes_are_exact(policy: Policy, types: int) -> None:
    """Three jobs of each kind, one by one and as classes."""
    for seed in range(4):
        each = drawn(seed, types, jobs=3)
        alike = np.repeat(np.arange(3), 3)
        instance = permuted(each, alike, np.arange(4))
        instance = replace(instance, capacity=instance.capacity * 3)
        grouped, single = (solve_instance(policy, instance, group=g) for g in (True, False))
        assert grouped.objective == pytest.approx(single.objective, rel=1e-9, abs=1e-12)
        assert grouped.stats["classes"] <= 3
        counted = replace(each, capacity=instance.capacity)
        counted = counted.with_columns({**each.columns, "count": np.full(3, 3.0)})
        by_class = solve_instance(policy, counted)
        assert by_class.objective == pytest.approx(single.objective, rel=1e-9, abs=1e-12)
        assert pytest.approx(np.rint(by_class.X * 3), abs=1e-9) == by_class.X * 3


@BY_NAME
def test_jobs_that_run_nowhere_and_clusters_without_gpus(policy: Policy) -> None:
    instance = drawn(1)
    speed = instance.throughput.copy()
    speed[2] = 0.0
    now = instance.columns["current_option"].copy()
    now[2] = -1
    idle = replace(instance, throughput=speed, columns={**instance.columns, "current_option": now})
    found = solve_instance(policy, idle)
    assert not found.X[2].any()
    assert found.X.sum() > 0
    empty = solve_instance(policy, replace(idle, capacity=np.zeros(2)))
    assert not empty.X.any()
    assert empty.gap <= 1e-6


@BY_NAME
def test_pins_hold_whatever_they_are_worth(policy: Policy) -> None:
    for seed in range(4):
        instance = drawn(seed)
        instance = replace(instance, capacity=instance.capacity + 4)
        job, option = np.argwhere(instance.throughput > 0)[-1]
        now, pinned = np.full(6, -1.0), np.zeros(6)
        now[job], pinned[job] = option, 1.0
        columns = {**instance.columns, "current_option": now, "pinned": pinned}
        found = solve_instance(policy, instance.with_columns(columns))
        assert found.X[job, option] == 1
        free = solve_instance(policy, instance.with_columns({**columns, "pinned": 0 * pinned}))
        worse = found.objective - free.objective
        better_is_less = isinstance(policy, Optimus) or policy == Pollux()
        assert worse >= -1e-9 if better_is_less else worse <= 1e-9


@BY_NAME
def test_equal_options_change_nothing(policy: Policy) -> None:
    """Two types alike, a job on the second: it stays."""
    instance = Instance.of_options(
        [[1.0, 1.0], [1.0, 1.0]],
        [1, 1],
        [1, 1],
        option_accelerator=[0, 1],
        columns={"current_option": [1, -1], "steps_remaining": [5.0, 5.0]},
    )
    assert solve_instance(policy, instance).X.tolist() == [[0, 1], [1, 0]]


@BY_NAME
def test_a_limit_that_strikes_is_said(policy: Policy) -> None:
    instance = drawn(2, jobs=6)
    with pytest.raises(SolveError, match="time_limit_s"):
        solve_instance(policy, instance, time_limit_s=1e-9)


def test_bad_columns_and_rows_are_named() -> None:
    instance = drawn(0)
    above = {**instance.columns, "reallocation_factor": np.full(6, 1.5)}
    with pytest.raises(InputError, match=r"has reallocation_factor = 1\.5; it must be"):
        solve_instance(Sia(), instance.with_columns(above))
    with pytest.raises(InputError, match=r"'ben' has reallocation_factor = 1\.5; .* <= 1"):
        ap.solve("sia", SPEED, workers="a100=4,t4=2", jobs={"reallocation_factor": [1, 1.5, 1]})
    table = ap.ThroughputTensor.of_combinations(
        {("a",): [[4.0]], ("b",): [[2.0]], ("a", "b"): [[3.0], [1.0]]}, ["v100"], workers="v100=1"
    )
    with pytest.raises(InputError, match="leave the rows of combinations out"):
        ap.solve("sia", table)
    lyra = Instance.of_options(
        [[0.0, 2.0]], [1, 2], [4], columns={"scale_factor": [1], "steps_remaining": [1.0]}
    )
    with pytest.raises(InputError, match="1 base workers has no throughput"):
        solve_instance(Lyra(), lyra)


OPTIONS = pd.MultiIndex.from_tuples(
    [("a100", 1), ("a100", 2), ("a100", 4), ("t4", 1), ("t4", 2)], names=["accelerator", "gpus"]
)
SPEED = pd.DataFrame(
    [[4.0, 7.0, 12.0, 1.0, 1.8], [3.0, 3.5, 3.6, 2.0, 2.2], [8.0, 15.0, 28.0, 2.0, 4.0]],
    index=["ana", "ben", "cid"],
    columns=OPTIONS,
)


@pytest.mark.parametrize("name", ["sia", "pollux", "deepboot", "optimus", "lyra"])
def test_with_labels(name: str) -> None:
    jobs = {
        "reallocation_factor": [0.9, 0.8, 1.0],
        "current_option": {"ana": ("a100", 1), "ben": ("t4", 1), "cid": None},
        "steps_remaining": [1000.0, 500.0, 4000.0],
    }
    found = ap.solve(name, SPEED, workers="a100=4,t4=2", jobs=jobs)
    assert found.status == "optimal"
    assert found.choice.notna().all()
    held = pd.Series([option[1] for option in found.choice], index=found.choice.index)
    kind = pd.Series([option[0] for option in found.choice], index=found.choice.index)
    assert held.groupby(kind).sum().le(pd.Series({"a100": 4, "t4": 2})).reindex(kind).all()
    order = ["cid", "ana", "ben"]
    moved = {
        **jobs,
        "reallocation_factor": [1.0, 0.9, 0.8],
        "steps_remaining": [4000.0, 1000.0, 500.0],
    }
    again = ap.solve(name, SPEED.loc[order], workers="t4=2,a100=4", jobs=moved)
    assert again.choice.reindex(found.choice.index).tolist() == found.choice.tolist()
    session = ap.session(name, "a100=4,t4=2")
    session.add(SPEED, jobs)
    kept = session.solve()
    assert isinstance(kept, ap.Allocation)
    assert kept.choice.tolist() == found.choice.tolist()


@pytest.mark.parametrize("wrong", [np.nan, -1.0, np.inf, None, "x"])
def test_a_reallocation_factor_is_of_times_and_a_part(wrong: Any) -> None:
    for place in range(3):
        given: list[Any] = [[600.0, 60.0], [2, 0], [30.0, 30.0]]
        given[place] = [given[place][0], wrong]
        with pytest.raises(InputError, match="number"):
            reallocation_factor(*given)
    if isinstance(wrong, float):
        instance = drawn(0)
        factors = np.append(np.ones(5), wrong)
        with pytest.raises(InputError, match=r"has reallocation_factor = .*; it must be"):
            solve_instance(
                Sia(), instance.with_columns({**instance.columns, "reallocation_factor": factors})
            )
