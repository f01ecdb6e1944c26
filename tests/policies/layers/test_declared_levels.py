"""What is read off declared objectives: demands at a level, ratios, what keeps an optimum."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.errors import InputError
from apportion.policies import (
    BUILT_IN,
    FinishTimeFairness,
    Instance,
    Makespan,
    MaxMinFairness,
    MinCost,
    NashWelfare,
    Policy,
    PowerCapped,
    Problem,
    solve_instance,
)
from apportion.policies.solving import demands
from apportion.policies.solving.choice import staying_optimal
from apportion.policies.solving.demands import levels_of, pose

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.policies.conftest import Bench

    from apportion.policies.solving.worst_off.declared_levels import Levels

Expression = Any
WORST_OFF = (MaxMinFairness, Makespan, FinishTimeFairness)


def levels(policy: Policy, instance: Instance) -> Levels:
    found = levels_of(policy, instance)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(8))
def test_demands_are_those_of_the_definitions(seed: int, bench: type[Bench]) -> None:
    problem = bench.random(seed)
    instance, columns = problem.instance, problem.columns
    steps, weight, elapsed = (columns[c] for c in ("steps_remaining", "weight", "elapsed_s"))
    fair = levels(MaxMinFairness(), instance).demand(0.3)
    np.testing.assert_allclose(fair, 0.3 * weight * problem.equal_share / problem.gpus, rtol=1e-13)
    np.testing.assert_allclose(levels(Makespan(), instance).demand(1 / 500), steps / 500)
    alone_s = columns["isolated_elapsed_s"] + steps / problem.isolated
    for level in (0.9, 1.7):
        left_s = level * alone_s - elapsed
        wanted = np.where(left_s > 0, steps / np.where(left_s > 0, left_s, 1.0), np.inf)
        late = levels(FinishTimeFairness(), instance).demand(level)
        np.testing.assert_allclose(late, wanted, rtol=4e-12)


@pytest.mark.parametrize("policy", WORST_OFF, ids=lambda policy: policy.name)
def test_whoever_makes_what_is_demanded_has_the_level(
    policy: type[Policy], bench: type[Bench]
) -> None:
    """Evaluate the declared objective at demanded throughputs: a problem with one option a job."""
    for seed in range(5):
        instance = bench.random(seed).instance
        found, p = levels(policy(), instance), demands.SpeedProblem(instance)
        level = 1.6 if found.inverse else 0.4
        u: Any = p.throughput
        u.value = found.demand(1 / level if policy is Makespan else level)
        value = policy().objective(p).args[0].value
        assert value == pytest.approx(level, rel=1e-12)


def test_other_policies_demand_nothing(bench: type[Bench]) -> None:
    problem = bench.random(0)
    columns = {name: np.zeros(len(problem.gpus)) for name in ("entity", "entity_used_s")}
    instance = problem.with_columns(**columns, running_on=-np.ones(len(problem.gpus))).instance
    instance = Instance.of_jobs(
        problem.speed,
        problem.gpus,
        problem.capacity,
        columns={**problem.columns, **columns},
        prices=problem.prices,
        texts={"entity": ("red",)},
    )
    for policy in BUILT_IN:
        worst_off = policy in (*WORST_OFF, PowerCapped)  # max-min fairness, without a cap
        assert (levels_of(policy(), instance) is not None) == worst_off, policy


@dataclass(frozen=True)
class Stated(Policy):
    """A policy whose objective is any expression in the throughput."""

    name = "stated"
    source = "a test"
    columns = ("weight",)

    of: Callable[[Any, Any], Expression] = lambda u, p: u
    least: bool = True

    def __post_init__(self) -> None:
        """Take any function."""

    def objective(self, p: Problem) -> cp.Maximize | cp.Minimize:
        level = self.of(p.throughput, p)
        return cp.Maximize(cp.min(level)) if self.least else cp.Minimize(cp.max(level))


READ: list[tuple[Callable[[Any, Any], Expression], bool, float, Callable[[Any], Any]]] = [
    (lambda u, p: u, True, 3.0, lambda w: 3.0 * np.ones_like(w)),
    (lambda u, p: 2.0 * u / 4.0, True, 3.0, lambda w: 6.0 * np.ones_like(w)),
    (lambda u, p: -1.0 * (-cp.multiply(u, p.weight)), True, 3.0, lambda w: 3.0 / w),
    (lambda u, p: u / p.weight, True, 3.0, lambda w: 3.0 * w),
    (lambda u, p: 1.5 + cp.inv_pos(u) + 0.5, False, 3.0, lambda w: np.ones_like(w)),
    (lambda u, p: (p.weight + 2 * cp.inv_pos(3 * u)) / 2, False, 9.0, lambda w: 2 / 3 / (18 - w)),
    (lambda u, p: cp.power(u, -1) + p.weight, False, 9.0, lambda w: 1 / (9 - w)),
]
NOT_READ: list[tuple[Callable[[Any, Any], Expression], bool]] = [
    (lambda u, p: u + 1, True),
    (lambda u, p: -u, True),
    (lambda u, p: cp.log(u), True),
    (lambda u, p: cp.sqrt(u), True),
    (lambda u, p: u[: p.count.size - 1], True),
    (lambda u, p: u + cp.sum(u), True),
    (lambda u, p: u + cp.min(u), True),
    (lambda u, p: u + p.time, True),
    (lambda u, p: p.time, True),
    (lambda u, p: u, False),
    (lambda u, p: cp.inv_pos(u + 1), False),
    (lambda u, p: cp.inv_pos(u) - 1, False),
    (lambda u, p: cp.power(u, -2), False),
]


@pytest.mark.parametrize("case", range(len(READ)))
def test_levels_are_read_however_they_are_written(case: int, bench: type[Bench]) -> None:
    of, least, level, wanted = READ[case]
    problem = bench.random(3, jobs=4, types=2)
    demand = levels(Stated(of, least), problem.instance).demand(level)
    np.testing.assert_allclose(demand, wanted(problem.columns["weight"]), rtol=1e-14)


@pytest.mark.parametrize("case", range(len(NOT_READ)))
def test_what_is_no_level_of_single_jobs_is_left_alone(case: int, bench: type[Bench]) -> None:
    of, least = NOT_READ[case]
    assert levels_of(Stated(of, least), bench.random(3, jobs=4, types=2).instance) is None


def test_what_was_read_is_kept_as_long_as_the_instance(bench: type[Bench]) -> None:
    instance, policy = bench.random(1).instance, MaxMinFairness()
    first, before = levels_of(policy, instance), len(demands._FOUND)
    assert levels_of(policy, instance) is first
    assert levels_of(Makespan(), instance) is not first
    del instance
    gc.collect()
    assert len(demands._FOUND) < before + 1


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


def test_ratios_that_do_not_become_linear_are_refused(bench: type[Bench]) -> None:
    with pytest.raises(InputError, match="affine in X; bent is not"):
        pose(Bent(), bench.random(0).instance)


@dataclass(frozen=True)
class Impossible(NashWelfare):
    lexicographic: bool = True


def test_levels_beyond_the_first_need_a_first(bench: type[Bench]) -> None:
    with pytest.raises(InputError, match="lexicographic, and its objective has no levels"):
        solve_instance(Impossible(), bench.random(0).instance)


def test_sums_of_logarithms_are_kept_by_their_throughputs(bench: type[Bench]) -> None:
    p = Problem(bench.random(2).instance)
    p.X.value = np.full(p.X.shape, 0.1)
    assert staying_optimal(NashWelfare(), p, 0.0) is not None

    @dataclass(frozen=True)
    class Mixed(NashWelfare):
        def objective(self, p: Problem) -> cp.Maximize:
            return cp.Maximize(super().objective(p).args[0] + cp.sum(p.throughput))

    assert staying_optimal(Mixed(), p, 0.0) is None


@dataclass(frozen=True)
class Bare(NashWelfare):
    def objective(self, p: Problem) -> Any:
        return cp.Variable()


def test_an_objective_that_is_none_is_refused(bench: type[Bench]) -> None:
    with pytest.raises(InputError, match="Bare"):
        solve_instance(Bare(), bench.random(0).instance)
