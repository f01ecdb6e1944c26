"""Whole decisions equal enumeration, whoever proves them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from tests.policies.whole.oracle import Knapsack, Rotations, best_value, random_instance

from apportion.errors import InputError, SolveError
from apportion.policies.instance import Instance
from apportion.policies.solver import solve_instance

if TYPE_CHECKING:
    from apportion.policies.problem import Problem
    from apportion.policies.solution import Solution


def assert_whole(instance: Instance, solution: Solution) -> None:
    """Every job has one option at most, and no capacity is exceeded."""
    X = solution.X
    assert set(np.unique(X)) <= {0.0, 1.0}
    assert (X.sum(axis=1) <= 1).all()
    assert not X[instance.throughput == 0].any()
    resources = instance.capacity.size
    usage = instance.usage.toarray().reshape(*X.shape, resources)
    assert (np.einsum("jo,jor->r", X, usage) <= instance.capacity).all()


@pytest.mark.thorough
@pytest.mark.parametrize("types", [1, 2])
def test_decisions_equal_enumeration(types: int) -> None:
    rng = np.random.default_rng(types)
    proved = set()
    for _ in range(60):
        instance = random_instance(rng, types=types)
        solution = solve_instance(Knapsack(), instance)
        assert_whole(instance, solution)
        assert solution.objective == pytest.approx(best_value(instance, instance.throughput))
        assert solution.status == "optimal"
        assert solution.gap <= 1e-9
        proved.add(solution.stats["proved_by"])
    assert proved <= {"relaxation", "dynamic programme"}


@pytest.mark.parametrize("types", [1, 2])
def test_classes_are_exact(types: int) -> None:
    rng = np.random.default_rng(7)
    for _ in range(10):
        each = random_instance(rng, types=types, jobs=3)
        alike = np.repeat(np.arange(3), 4)
        instance = Instance.of_options(
            each.throughput[alike],
            np.tile([1, 2, 4], types),
            each.capacity * 2,
            option_accelerator=each.option_accelerator,
        )
        grouped = solve_instance(Knapsack(), instance)
        single = solve_instance(Knapsack(), instance, group=False)
        assert_whole(instance, grouped)
        assert grouped.stats["classes"] <= 3
        assert grouped.objective == pytest.approx(single.objective, rel=1e-9)
        by_class = replace(
            instance.subset(np.arange(0, 12, 4), np.full(3, 4.0)), capacity=instance.capacity
        )
        counted = solve_instance(Knapsack(), by_class)
        assert counted.objective == pytest.approx(single.objective, rel=1e-9)
        units = counted.X * 4
        np.testing.assert_allclose(units, np.rint(units), atol=1e-12)


def test_what_is_no_sum_over_jobs_is_decided_job_by_job() -> None:
    class LeastWell(Knapsack):
        def objective(self, p: Problem) -> cp.Maximize:
            return cp.Maximize(cp.min(p.throughput))

    # Two jobs that are alike: one has the fast GPU and the other the slow one, whatever the mean.
    instance = Instance.of_options(
        np.full((2, 2), [[4.0, 1.0]]), [1, 1], [1, 1], option_accelerator=[0, 1]
    )
    found = solve_instance(LeastWell(), instance)
    assert found.objective == pytest.approx(1.0)
    assert found.stats["reduction"] == "none (the objective is no sum over jobs)"
    assert sorted(found.throughput) == [1.0, 4.0]


def soft_instance(rng: np.random.Generator) -> tuple[Instance, np.ndarray]:
    """Draw three jobs of four rotations on a link of six slots."""
    demand = (rng.random((3, 6)) < 0.5) * rng.uniform(0.5, 1.5, (3, 1))
    held = np.stack([np.roll(demand, shift, axis=1) for shift in range(4)], axis=1)
    usage = sparse.csr_array(held.reshape(3, 24))
    ones = np.ones((3, 4))
    instance = Instance.of_options(
        ones, 0.0 * ones, [1.0], usage=usage, resource_capacity=np.full(6, np.inf)
    )
    return instance, held


@pytest.mark.thorough
def test_soft_resources_equal_enumeration() -> None:
    rng = np.random.default_rng(11)
    for _ in range(30):
        instance, held = soft_instance(rng)
        solution = solve_instance(Rotations(), instance)
        least = min(
            np.maximum(sum(held[job, shift] for job, shift in enumerate(shifts)) - 1.5, 0).sum()
            for shifts in product(range(4), repeat=3)
        )
        assert solution.objective == pytest.approx(least, abs=1e-9)
        assert (solution.X.sum(axis=1) == 1).all()
        assert solution.gap <= 1e-8


def test_pinned_jobs_stay_whatever_it_costs() -> None:
    rng = np.random.default_rng(3)
    for types in (1, 2):
        for _ in range(15):
            each = random_instance(rng, types=types)
            kept = np.full(4, -1)
            kept[1] = 0
            columns = {
                **each.columns,
                "current_option": kept.astype(float),
                "pinned": np.array([0.0, 1.0, 0.0, 0.0]),
            }
            instance = each.with_columns(columns)
            solution = solve_instance(Knapsack(), instance)
            assert_whole(instance, solution)
            assert solution.X[1, 0] == 1
            best = best_value(instance, instance.throughput, kept=kept)
            assert solution.objective == pytest.approx(best)


def test_a_limit_before_any_decision_is_an_error_or_the_fallback() -> None:
    instance = random_instance(np.random.default_rng(0), types=3, jobs=40)
    now = np.zeros(40)
    now[5:] = -1
    instance = instance.with_columns({**instance.columns, "current_option": now})
    with pytest.raises(SolveError, match="time_limit_s struck"):
        solve_instance(Knapsack(), instance, time_limit_s=1e-9)
    kept = solve_instance(Knapsack(), instance, time_limit_s=1e-9, fallback="isolated")
    assert kept.status == "fallback"
    assert kept.X.sum() == min(5, instance.capacity[0])


@pytest.mark.parametrize("limit", [0, -1.0, "soon", float("nan"), True])
def test_limits_that_are_none_are_refused(limit: object) -> None:
    instance = random_instance(np.random.default_rng(0))
    with pytest.raises(InputError, match="time_limit_s"):
        solve_instance(Knapsack(), instance, time_limit_s=limit)  # type: ignore[arg-type]


class Indifferent(Knapsack):
    """Wants jobs to run, and nothing else."""

    name = "indifferent"

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(3.0 + 0.0 * p.total(p.time))


def test_an_objective_that_nothing_changes_has_no_prices() -> None:
    for seed in range(5):
        instance = random_instance(np.random.default_rng(seed), types=2)
        solution = solve_instance(Indifferent(), instance)
        assert solution.objective == 3.0
        assert solution.prices.tolist() == [0.0] * instance.capacity.size
