"""Floors read off constraints as policies state them, and jobs of like floors solved as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
import pytest

from apportion.policies import Instance, Policy, Problem, solve_instance

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
