"""What is read off declared objectives: demands at a level, ratios, what keeps an optimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.errors import InputError
from apportion.policies import (
    MinCost,
    NashWelfare,
    Problem,
    solve_instance,
)

if TYPE_CHECKING:
    from tests.policies.conftest import Bench


@dataclass(frozen=True)
class Dearest(MinCost):
    """The ratio turned over, with constraints that have constants."""

    def objective(self, p: Problem) -> Any:
        return cp.Minimize((p.cost_per_hour + 2.0) / (p.total(p.throughput) + 3.0))

    def constraints(self, p: Problem) -> list[Any]:
        most = 0.5 * p.fastest_throughput
        return [p.throughput <= most, cp.sum(p.time) >= 0.1, p.time[0] == 0.05]


@pytest.mark.parametrize("seed", each_seed(2, 4))
def test_ratios_with_constants_are_those_of_dinkelbach(seed: int, bench: type[Bench]) -> None:
    problem = bench.random(seed, jobs=5, types=2)
    solution = solve_instance(Dearest(), problem.instance, group=False)
    ratio = 1.0
    for _ in range(30):
        p = Problem(problem.instance)
        cost, made = p.cost_per_hour + 2.0, p.total(p.throughput) + 3.0
        constraints = [*p.constraints, *Dearest().constraints(p)]
        cp.Problem(cp.Minimize(cost - ratio * made), constraints).solve(solver=cp.CLARABEL)
        ratio = float(np.asarray(cost.value) / np.asarray(made.value))
    assert solution.objective == pytest.approx(ratio, rel=1e-6)
    assert solution.gap <= 1e-6
    time = solution.X.sum(axis=1)
    assert time[0] == pytest.approx(0.05, abs=1e-8)
    assert time.sum() >= 0.1 - 1e-8


@dataclass(frozen=True)
class Bent(MinCost):
    def constraints(self, p: Problem) -> list[cp.Constraint]:
        return [(cp.sum_squares(p.time) <= 1).set_label("bent")]


def test_ratios_may_have_curved_constraints(bench: type[Bench]) -> None:
    """The cheapest job alone has the best ratio; what is spent beyond that ends at the curve."""
    problem = bench.random(0, jobs=5, types=2)
    solution, plain = (solve_instance(each(), problem.instance) for each in (Bent, MinCost))
    assert solution.objective == pytest.approx(plain.objective, rel=1e-9)
    assert solution.gap <= 1e-9
    assert (solution.X.sum(axis=1) ** 2).sum() <= 1 + 1e-9


class Crooked(NashWelfare):
    def objective(self, p: Problem) -> Any:
        return cp.Maximize(cp.sum(cp.log(p.throughput)) / p.total(p.time))


def test_ratios_that_do_not_become_linear_are_refused(bench: type[Bench]) -> None:
    with pytest.raises(InputError, match="both its sides must be affine in X"):
        solve_instance(Crooked(), bench.random(0).instance)


@dataclass(frozen=True)
class Impossible(NashWelfare):
    lexicographic: bool = True


def test_levels_beyond_the_first_need_a_first(bench: type[Bench]) -> None:
    with pytest.raises(InputError, match="lexicographic, and its objective has no levels"):
        solve_instance(Impossible(), bench.random(0).instance)


@dataclass(frozen=True)
class Bare(NashWelfare):
    def objective(self, p: Problem) -> Any:
        return cp.Variable()


def test_an_objective_that_is_none_is_refused(bench: type[Bench]) -> None:
    with pytest.raises(InputError, match="Bare"):
        solve_instance(Bare(), bench.random(0).instance)
