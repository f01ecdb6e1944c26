"""Whole decisions by the dynamic programme, against scipy's integer programs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from tests.policies.whole.oracle import Knapsack, random_instance
from tests.seeds import each_seed

from apportion.policies import Instance, solve_instance
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


@pytest.mark.parametrize("seed", each_seed(10, 300))
def test_the_dynamic_programme_decides_as_integer_programs_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = drawn(rng, jobs=int(rng.integers(1, 25)), types=int(rng.integers(2, 5)))
    found = solve_instance(Knapsack(), instance)
    assert found.objective == pytest.approx(most(instance, instance.throughput), rel=1e-9)
    assert found.stats["proved_by"] in ("relaxation", "dynamic programme")
    assert found.gap <= 1e-9
    held = np.einsum("jo,jor->r", found.X, instance.usage.toarray().reshape(*found.X.shape, -1))
    assert (held <= instance.capacity + 1e-9).all()


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


@pytest.mark.parametrize("seed", each_seed(10, 200))
def test_options_that_hold_more_than_there_is_are_never_taken(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = np.array([0, 0, 0, 1, 1, 1])
    held = np.array([1.0, 2.0, 8.0, 1.0, 4.0, 16.0])
    room = rng.integers(0, 7, 2).astype(float)
    speed = rng.uniform(0.5, 2.0, (int(rng.integers(2, 6)), 6)) * held
    instance = Instance.of_options(speed, held, room, option_accelerator=kind)
    found = solve_instance(Knapsack(), instance)
    assert found.objective == pytest.approx(most(instance, speed), rel=1e-9)
