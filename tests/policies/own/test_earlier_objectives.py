"""Several objectives, one after the other: what plain cvxpy finds in as many solves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import ranges_of_seeds

import apportion as ap
from apportion.policies import Instance, MinCostWithSLOs, Policy, solve_instance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Objective: TypeAlias = cp.Maximize | cp.Minimize
    State = Callable[[Any], Objective]


def least(p: Any) -> Objective:
    return cp.Maximize(cp.min(cp.multiply(1 / p.equal_share_throughput, p.throughput)))


def most(p: Any) -> Objective:
    return cp.Maximize(p.total(cp.multiply(p.weight / p.fastest_throughput, p.throughput)))


def cheapest(p: Any) -> Objective:
    return cp.Minimize(p.cost_per_hour)


def busiest(p: Any) -> Objective:
    return cp.Maximize(p.total(p.time))


def logarithms(p: Any) -> Objective:
    return cp.Maximize(p.count @ cp.log(p.throughput / p.equal_share_throughput))


def per_dollar(p: Any) -> Objective:
    return cp.Maximize(p.total(p.throughput / p.fastest_throughput) / p.cost_per_hour)


@dataclass(frozen=True)
class InTurn(Policy):
    """Objectives that are given, the most important first."""

    name = "in_turn"
    columns = ("weight",)
    stated: Sequence[State] = ()

    def earlier_objectives(self, p: Any) -> Sequence[Objective]:
        return [state(p) for state in self.stated[:-1]]

    def objective(self, p: Any) -> Objective:
        return self.stated[-1](p)


class Plain:
    """Throughput, time and cost over a variable of plain cvxpy, a row for each job."""

    def __init__(self, instance: Instance) -> None:
        self.X = cp.Variable(instance.throughput.shape, nonneg=True)
        runs, gpus = instance.throughput > 0, instance.columns["scale_factor"]
        self.count, self.weight = instance.count, instance.columns["weight"]
        self.throughput: Any = cp.sum(cp.multiply(instance.throughput, self.X), axis=1)
        self.time = cp.sum(self.X, axis=1)
        self.cost_per_hour = gpus @ self.X @ instance.prices
        self.equal_share_throughput = instance.equal_share_throughput
        self.fastest_throughput = instance.throughput.max(axis=1)
        self.limits: list[Any] = [self.time <= 1, gpus @ self.X <= instance.capacity]
        self.limits.append(self.X[~runs] == 0)

    def total(self, each: Any) -> Any:
        return cp.sum(each)


def drawn(seed: int) -> Instance:
    """Draw jobs of which some are alike."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, 8)
    speed, gpus = rng.uniform(1, 9, (4, 2))[kind], rng.choice([1.0, 2.0], 4)[kind]
    speed[kind == 0, rng.integers(0, 2)] = 0.0
    weight = {"weight": rng.choice([1.0, 2.0], 4)[kind]}
    return Instance.of_jobs(speed, gpus, [3.0, 4.0], columns=weight, prices=[1.0, 2.5])


def best(problem: cp.Problem) -> float:
    solver: Any = cp.CLARABEL if problem.is_dcp() and not problem.is_qp() else cp.HIGHS
    problem.solve(solver=solver)
    value: Any = problem.value
    return float(value)


def in_sequence(instance: Instance, stated: Sequence[State]) -> float:
    """Solve once for each objective, those before it held to what they reached."""
    p = Plain(instance)
    value = np.nan
    for state in stated:
        objective = state(p)
        sign = 1 if isinstance(objective, cp.Maximize) else -1
        value = best(cp.Problem(objective, p.limits))
        hair = 1e-9 * max(1.0, abs(value))
        p.limits.append(sign * objective.args[0] >= sign * value - hair)
        share = np.asarray(p.throughput.value) / p.fastest_throughput
        if state in (least, logarithms) and share.min() < 1e-6:
            return np.nan  # what is left to somebody is the hair, and so is the value
    return value


SEQUENCES = [
    (least, most),
    (most, cheapest),
    (busiest, least),
    (busiest, most, cheapest),
    (least, cheapest),
    (busiest, logarithms),
]


@pytest.mark.parametrize("stated", SEQUENCES, ids=lambda each: "-".join(s.__name__ for s in each))
@pytest.mark.parametrize("seeds", ranges_of_seeds(3, 100, 25))
def test_each_objective_is_best_among_the_optima_before_it(
    stated: Sequence[State], seeds: range
) -> None:
    for seed in seeds:
        instance = drawn(seed)
        expected = in_sequence(instance, stated)
        if np.isnan(expected):
            continue
        found = solve_instance(InTurn(stated=stated), instance)
        assert found.objective == pytest.approx(expected, rel=1e-5), seed
        single = solve_instance(InTurn(stated=stated), instance, group=False)
        assert single.objective == pytest.approx(found.objective, rel=1e-6)


def of_a_ratio(p: Plain, worth: Any) -> float:
    """Bisect the largest ``worth / cost`` within the limits."""
    low, high = 0.0, 100.0
    for _ in range(50):
        middle = (low + high) / 2
        reached = best(cp.Problem(cp.Maximize(worth - middle * p.cost_per_hour), p.limits))
        low, high = (middle, high) if reached > 1e-9 else (low, middle)
    return low


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 20, 6))
def test_a_ratio_may_be_the_last(seeds: range) -> None:
    for seed in seeds:
        instance = drawn(seed)
        found = solve_instance(InTurn(stated=(busiest, per_dollar)), instance)
        p = Plain(instance)
        p.limits.append(cp.sum(p.time) >= in_sequence(instance, (busiest,)) - 1e-9)
        expected = of_a_ratio(p, cp.sum(p.throughput / p.fastest_throughput))
        assert found.objective == pytest.approx(expected, rel=1e-6), seed


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 20, 6))
def test_of_the_least_shortfalls_the_cheapest_is_taken(seeds: range) -> None:
    for seed in seeds:
        instance, rng = drawn(seed), np.random.default_rng(seed)
        steps, due = rng.uniform(100, 1000, 8), rng.uniform(20, 400, 8)
        facts = {"steps_remaining": steps, "elapsed_s": np.zeros(8), "deadline_s": due}
        instance = instance.with_columns({**instance.columns, **facts})
        found = solve_instance(MinCostWithSLOs(), instance)
        p = Plain(instance)
        missed = cp.sum(cp.pos(1 - cp.multiply(due / steps, p.throughput)))
        p.limits.append(missed <= best(cp.Problem(cp.Minimize(missed), p.limits)) + 1e-9)
        expected = of_a_ratio(p, cp.sum(p.throughput / p.fastest_throughput))
        assert found.objective == pytest.approx(expected, rel=1e-6), seed


def test_whole_decisions_have_one_objective() -> None:
    class Whole(InTurn):
        integral = True

    with pytest.raises(ap.InputError, match="one objective only"):
        solve_instance(Whole(stated=(busiest, most)), drawn(0))
