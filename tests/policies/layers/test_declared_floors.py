"""Floors read off constraints as policies state them, and jobs of like floors solved as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
import pytest

from apportion.policies import Instance, MinCostWithSLOs, Policy, Problem, solve_instance
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.declared_floors import floors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Stated = Callable[[Problem], Sequence[cp.Constraint]]


@dataclass(frozen=True)
class Stating(Policy):
    """Most throughput, under constraints that are given."""

    name = "stating"
    stated: Stated = lambda p: []
    by_weight: bool = False

    def objective(self, p: Problem) -> cp.Maximize:
        gain = (p.weight if self.by_weight else 1.0) / p.fastest_throughput
        return cp.Maximize(p.total(cp.multiply(gain, p.throughput)) + 3)

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        return self.stated(p)


def jobs(number: int = 4, seed: int = 0) -> Instance:
    """Jobs of two classes, each with a weight of its own."""
    rng = np.random.default_rng(seed)
    speed = np.array([[4.0, 1.0], [2.0, 6.0]])[rng.integers(0, 2, number)]
    return Instance.of_jobs(
        speed,
        np.ones(number),
        np.full(2, number / 3),
        columns={"weight": rng.uniform(0.5, 2.0, number)},
        prices=np.array([1.0, 2.0]),
    )


@pytest.mark.parametrize(
    ("stated", "floors"),
    [
        (lambda p: [p.throughput >= 2], [2, 2, 2, 2]),
        (lambda p: [p.throughput[[1, 3]] >= np.array([0.5, 3.0])], [0, 0.5, 0, 3]),
        (lambda p: [np.array([1.0, 2.0]) <= 4 * p.throughput[:2]], [0.25, 0.5, 0, 0]),
        (lambda p: [1 - p.throughput / 2 <= 0, p.throughput[0] >= 5], [5, 2, 2, 2]),
        (lambda p: [p.throughput[[2, 2]] >= np.array([3.0, 1.0])], [0, 0, 3, 0]),
        (lambda p: [p.throughput >= -1], [0, 0, 0, 0]),
        (lambda p: [p.throughput[np.arange(0)] >= np.zeros(0)], [0, 0, 0, 0]),
        (lambda p: [], None),
        (lambda p: [p.throughput <= 2], None),
        (lambda p: [p.throughput == 2], None),
        (lambda p: [p.throughput[0] + p.throughput[1] >= 2], None),
        (lambda p: [p.throughput >= 2, p.X[0, 0] <= 0.5], None),
        (lambda p: [p.time >= 0.5], None),
        (lambda p: [cp.sqrt(p.throughput) >= 2], None),
        (lambda p: [p.throughput >= p.variable("own", 4)], None),
        (lambda p: [0 * p.throughput >= -1], None),
    ],
)
def test_floors_are_lower_limits_of_single_jobs(stated: Stated, floors: list[float] | None) -> None:
    found = floors_of(Stating(stated), jobs())
    if floors is None:
        assert found is None
    else:
        assert found is not None
        np.testing.assert_allclose(found.pace, floors, rtol=1e-15)


def _fair(p: Problem) -> list[cp.Constraint]:
    part = np.linspace(0.05, 0.3, p.count.size)
    return [(p.throughput >= part * p.fastest_throughput).set_label("fair")]


@pytest.mark.parametrize("seed", range(3))
def test_jobs_of_like_floors_are_merged_for_any_policy(seed: int) -> None:
    instance, policy = jobs(300, seed), Stating(_fair)
    merged = solve_instance(policy, instance)
    alone = solve_instance(policy, instance, intervals=False)
    assert merged.stats["reduction"] == "demand intervals"
    assert merged.stats["rows"] <= 8
    assert alone.stats["rows"] == 300
    assert merged.objective == pytest.approx(alone.objective, rel=1e-9)
    least = np.linspace(0.05, 0.3, 300) * instance.fastest_throughput
    assert (merged.throughput >= least * (1 - 1e-9)).all()
    assert merged.X.sum(axis=0) == pytest.approx(alone.X.sum(axis=0), abs=1e-4 * 300)


def test_an_objective_that_tells_jobs_apart_keeps_them_apart() -> None:
    instance = jobs(300)
    apart = solve_instance(Stating(_fair, by_weight=True), instance)
    assert apart.stats["reduction"].startswith("none")
    assert apart.stats["rows"] == 300


def _with_deadlines(instance: Instance, hurry: float) -> Instance:
    rng = np.random.default_rng(1)
    steps = rng.uniform(1e3, 1e5, instance.jobs)
    pace = hurry * instance.isolated_throughput * rng.uniform(0.1, 1.0, instance.jobs)
    return instance.with_columns(
        {
            **instance.columns,
            "steps_remaining": steps,
            "elapsed_s": np.full(instance.jobs, 60.0),
            "deadline_s": 60.0 + steps / pace,
        }
    )


@pytest.mark.parametrize(("hurry", "number", "solved"), [(0.5, 300, 2), (2.5, 300, 3), (0.5, 9, 2)])
def test_reading_floors_solves_no_problem_of_the_policy(
    monkeypatch: pytest.MonkeyPatch, hurry: float, number: int, solved: int
) -> None:
    # Floors that can all be met: whether they can, and the policy's problem. Others: whether they
    # can, which part is missed, and the policy's problem. Of few jobs: the last two.
    times = 0
    optimum = Compiled.optimum

    def counting(*args: object) -> object:
        nonlocal times
        times += 1
        return optimum(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Compiled, "optimum", counting)
    instance = _with_deadlines(jobs(number), hurry)
    merged = solve_instance(MinCostWithSLOs(), instance).stats["reduction"] == "demand intervals"
    assert merged == (hurry < 1 and number > 256)
    assert times <= solved + merged  # the share of floors is found with and without its limit


def test_floors_of_deadlines_are_their_paces_whether_they_give_way_or_not() -> None:
    instance = _with_deadlines(jobs(8), 0.9)
    columns = instance.columns
    pace = columns["steps_remaining"] / (columns["deadline_s"] - columns["elapsed_s"])
    for strict in (True, False):
        found = floors_of(MinCostWithSLOs(strict=strict), instance)
        assert found is not None
        assert found.label == "deadlines"
        np.testing.assert_array_equal(found.pace, pace)
