from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.errors import InputError, SolveError
from apportion.policies import (
    FIFO,
    AlloX,
    FinishTimeFairness,
    Instance,
    Makespan,
    MaxMinFairness,
    MinCost,
    Policy,
    Problem,
    Solution,
    solve_instance,
)
from apportion.policies.core import general, plain

if TYPE_CHECKING:
    import cvxpy as cp
    from tests.policies.conftest import Bench

POLICIES: list[Any] = [MaxMinFairness, Makespan, FinishTimeFairness]
BY_NAME = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
CASES = {
    "few types": {},
    "heavy tail": {"heavy": True},
    "one type": {"types": 1},
    "ample": {"load": 0.2},
    "one class": {"classes": 1},
}


def crowd(
    seed: int,
    *,
    jobs: int = 320,
    types: int = 3,
    classes: int = 6,
    load: float = 3.0,
    heavy: bool = False,
) -> Instance:
    """Jobs of few classes, every one with steps, age and weight of its own."""
    rng = np.random.default_rng(seed)
    speed = rng.uniform(1, 20, (classes, types)) * 10.0 ** rng.uniform(-1, 1, (classes, 1))
    speed[rng.random((classes, types)) < 0.2] = 0.0
    speed[:, 0] += 1.0
    speed = speed[rng.integers(0, classes, jobs)]
    gpus = rng.choice([1.0, 2.0, 4.0], jobs)
    steps = 10.0 ** rng.uniform(0, 9, jobs) if heavy else rng.uniform(1e3, 1e5, jobs)
    elapsed = rng.uniform(0, 36_000, jobs)
    columns = {
        "weight": rng.uniform(0.5, 5.0, jobs),
        "steps_remaining": steps,
        "elapsed_s": elapsed,
        "isolated_elapsed_s": elapsed * rng.uniform(0.5, 1.5, jobs),
        "order": np.arange(float(jobs)),
    }
    capacity = np.full(types, max(gpus.sum() / types / load, 4.0))
    return Instance.of_jobs(
        speed, gpus, capacity, columns=columns, prices=np.arange(1.0, types + 1)
    )


def check_feasible(instance: Instance, solution: Solution) -> None:
    X = solution.X
    assert X.min() >= 0
    assert X.sum(axis=1).max() <= 1 + 1e-9
    assert (instance.columns["scale_factor"] @ X <= instance.capacity * (1 + 1e-9)).all()
    np.testing.assert_allclose((instance.throughput * X).sum(axis=1), solution.throughput)


def test_the_makespan_of_jobs_that_end_exactly_at_a_throughput(bench: type[Bench]) -> None:
    # At 1/T = 1 every demand is a throughput: 1 or 3 steps/s.
    speed = np.tile([1.0, 3.0], (300, 1))
    steps = np.repeat([1.0, 3.0], 150)
    problem = bench(speed, np.ones(300), np.array([150.0, 150.0]), np.ones(2))
    problem = problem.with_columns(steps_remaining=steps)
    solution = solve_instance(Makespan(), problem.instance)
    assert solution.objective == pytest.approx(1.0, rel=1e-9)
    np.testing.assert_allclose(solution.X[:150, 0], 1.0, atol=1e-6)
    np.testing.assert_allclose(solution.X[150:, 1], 1.0, atol=1e-6)


@pytest.mark.parametrize("seed", each_seed(4, 12))
def test_finish_time_fairness_is_accurate_for_jobs_of_all_lengths(
    seed: int, bench: type[Bench]
) -> None:
    problem = bench.random(seed, jobs=8, types=2)
    steps = 10.0 ** np.random.default_rng(seed).uniform(0, 9, 8)
    problem = problem.with_columns(steps_remaining=steps)
    solution = solve_instance(FinishTimeFairness(), problem.instance)
    assert solution.status == "optimal"
    assert solution.gap <= 1e-6
    assert solution.objective == pytest.approx(problem.finish_time_ratio(), rel=1e-8)
    assert list(solution.stats["tried"]) == ["plain"]


def test_reductions_are_named(bench: type[Bench]) -> None:
    few = bench.random(8, jobs=4, types=2)
    crowd_of_few = few.repeated(3).with_columns(order=np.arange(12.0)).instance

    def used(policy: Policy, instance: Instance, **options: Any) -> str:
        return str(solve_instance(policy, instance, **options).stats["reduction"])

    assert used(MaxMinFairness(), crowd_of_few) == "classes"
    assert used(MaxMinFairness(), few.instance) == "none (no jobs are alike)"
    assert used(MaxMinFairness(), crowd_of_few, group=False) == "none (switched off)"
    assert used(FIFO(), crowd_of_few) == "none (jobs are ordered)"
    single = replace(few, gpus=np.ones(4)).instance
    assert used(AlloX(), single) == "none (the policy tells identical jobs apart)"
    assert "tells_identical_jobs_apart" in AlloX.traits


@dataclass(frozen=True)
class _Constrained(Makespan):
    """About the worst off job, with a constraint that no level knows of."""

    def constraints(self, p: Problem) -> list[cp.Constraint]:
        return [p.throughput <= 0.1 * p.fastest_throughput]


def test_constraints_of_its_own_keep_a_policy_from_being_solved_by_levels() -> None:
    solution = solve_instance(_Constrained(), crowd(9), second_stage=False)
    assert "levels" not in solution.stats["tried"]
    assert (solution.throughput <= 0.1 * crowd(9).fastest_throughput * (1 + 1e-6)).all()
    assert solution.gap <= 1e-6


def test_options_are_checked_by_name(bench: type[Bench]) -> None:
    instance = bench.random(0).instance
    with pytest.raises(InputError, match=r"Unknown fallback 'isolate'"):
        solve_instance(MaxMinFairness(), instance, fallback="isolate")  # type: ignore[arg-type]


class _BoundedCost(MinCost):
    """Constraints of its own leave it to a program."""

    def constraints(self, p: Problem) -> list[cp.Constraint]:
        return [p.throughput <= p.fastest_throughput]


@pytest.mark.parametrize(
    "policy", [MaxMinFairness, Makespan, FinishTimeFairness, FIFO, _BoundedCost]
)
def test_a_failed_solve_raises_or_falls_back_on_the_isolated_share(
    policy: type[Policy], bench: type[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise SolveError("No solver found an optimum (highs: time limit).")

    monkeypatch.setattr(plain, "solve", fail)
    monkeypatch.setattr(general, "solve", fail)
    problem = bench.random(1, jobs=5, types=2)
    with pytest.raises(SolveError, match="time limit"):
        solve_instance(policy(), problem.instance)
    solution = solve_instance(policy(), problem.instance, fallback="isolated")
    assert solution.status == "fallback"
    assert "time limit" in solution.message
    assert solution.gap == float("inf")
    np.testing.assert_allclose(solution.throughput, problem.isolated)
    assert np.isfinite(solution.objective)
    check_feasible(problem.instance, solution)


def test_the_warning_of_a_fallback_reaches_those_who_solve_by_labels(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise SolveError("broken")

    monkeypatch.setattr(plain, "solve", fail)
    monkeypatch.setattr(general, "solve", fail)
    speed = pd.DataFrame({"a": [1.0, 2.0]}, index=["x", "y"])
    allocation = ap.solve("max_min_fairness", speed, workers={"a": 1}, fallback="isolated")
    assert allocation.status == "fallback"
    assert "every solver failed: broken" in allocation.message
    assert "broken" in caplog.text
