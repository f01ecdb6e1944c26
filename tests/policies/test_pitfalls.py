"""Mistakes that schedulers of this kind are known to make; each is a test here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

from apportion.errors import InfeasibleError, InputError, SolveError
from apportion.policies import (
    BUILT_IN,
    Makespan,
    MaxMinFairness,
    Policy,
    Problem,
    solve,
    solve_instance,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.policies.conftest import Bench

SPEED = pd.DataFrame({"a100": [4.0, 2.0], "h100": [9.0, 3.0]}, index=["x", "y"])
JOBS = pd.DataFrame(
    {"steps_remaining": [1e4, 1e4], "entity": ["red", "blue"], "deadline_s": [np.nan, np.nan]},
    index=["x", "y"],
)
NAMES = [f"{policy.name}{suffix}" for policy in BUILT_IN for suffix in ("", "_agnostic")]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("min_cost")])
def test_any_type_names_will_do(name: str) -> None:
    allocation = solve(name, SPEED, workers={"a100": 1, "h100": 1}, jobs=JOBS)
    assert allocation.status == "optimal"
    assert list(allocation.X.columns) == ["a100", "h100"]


def test_a_job_larger_than_the_cluster_is_refused() -> None:
    jobs = pd.DataFrame({"scale_factor": [1, 16]}, index=["x", "y"])
    with pytest.raises(InputError, match=r"'y' fits nowhere: it needs 16 GPUs.*a100=8,h100=4"):
        solve("max_min_fairness", SPEED, workers={"a100": 8, "h100": 4}, jobs=jobs)


def test_a_gang_does_not_run_on_a_type_with_too_few_gpus() -> None:
    jobs = pd.DataFrame({"scale_factor": [1, 8]}, index=["x", "y"])
    allocation = solve("max_min_fairness", SPEED, workers={"a100": 8, "h100": 4}, jobs=jobs)
    assert allocation.X.loc["y", "h100"] == 0
    assert allocation.X["a100"].iloc[1] > 0


@pytest.mark.thorough
def test_a_job_is_never_given_time_where_it_cannot_run() -> None:
    speed = pd.DataFrame({"a100": [4.0, 2.0], "h100": [9.0, 0.0]}, index=["x", "y"])
    for name in NAMES:
        if name.startswith(("min_cost", "hierarchical")):
            continue
        jobs = JOBS[["steps_remaining"]].assign(entity="one")
        allocation = solve(name, speed, workers={"a100": 1, "h100": 1}, jobs=jobs)
        assert allocation.X.loc["y", "h100"] == 0, name


def test_the_makespan_is_exact_on_many_jobs(bench: type[Bench]) -> None:
    problem = bench.random(0, jobs=60, types=3)
    steps = problem.columns["steps_remaining"]
    solution = solve_instance(Makespan(), problem.instance)
    assert solution.objective == pytest.approx(1 / problem.level(steps), rel=1e-8)


@pytest.mark.parametrize("name", ["max_min_fairness", "max_min_fairness_agnostic", "proportional"])
def test_twice_the_weight_is_twice_the_share_aware_or_not(name: str) -> None:
    speed = pd.DataFrame({"a100": [4.0, 4.0, 4.0]}, index=["x", "y", "z"])
    jobs = pd.DataFrame({"weight": [2.0, 1.0, 1.0]}, index=["x", "y", "z"])
    allocation = solve(name, speed, workers={"a100": 1}, jobs=jobs)
    np.testing.assert_allclose(allocation.X["a100"], [0.5, 0.25, 0.25], atol=1e-6)


class Quota(MaxMinFairness):
    """Max-min fairness with two quotas, which a test makes contradict each other."""

    name = "quota"
    least, most = 0.0, 1.0

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        return [
            (p.time >= self.least).set_label("least time"),
            (p.time <= self.most).set_label("most time"),
        ]


class Contradiction(Quota):
    """Quotas that cannot hold together."""

    least, most = 0.6, 0.4


class Unbounded(MaxMinFairness):
    """An objective without a bound."""

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(cp.Variable(name="free"))


def test_contradictory_constraints_are_named() -> None:
    with pytest.raises(InfeasibleError, match="cannot hold together") as refused:
        solve(Contradiction(), SPEED, workers={"a100": 1, "h100": 1})
    text = str(refused.value)
    assert "least time" in text
    assert "most time" in text
    assert "X >= 0" not in text


def test_a_quota_against_the_capacity_is_named() -> None:
    class TooMuch(Quota):
        least = 0.8

    speed = pd.DataFrame({"a100": [4.0, 2.0]}, index=["x", "y"])
    with pytest.raises(InfeasibleError) as refused:
        solve(TooMuch(), speed, workers={"a100": 1})
    assert "least time" in str(refused.value)
    assert "capacity" in str(refused.value)
    assert "most time" not in str(refused.value)


def test_an_unbounded_objective_raises_instead_of_returning_numbers() -> None:
    with pytest.raises(SolveError):
        solve(Unbounded(), SPEED, workers={"a100": 1, "h100": 1})


def test_constraints_of_a_policy_hold() -> None:
    class AtMostHalf(Quota):
        most = 0.5

    allocation = solve(AtMostHalf(), SPEED, workers={"a100": 4, "h100": 4})
    np.testing.assert_allclose(allocation.X.sum(axis=1), 0.5, atol=1e-7)


def test_the_real_throughputs_of_a_cluster(public_data: Path) -> None:
    table = pd.read_json(public_data / "gavel" / "simulation_throughputs.json.gz")
    single = table.index.str.endswith(", 1)")
    kinds = ["k80", "p100", "v100"]
    speed = table.loc[single, kinds].map(lambda entry: entry["null"]).astype(float)
    assert len(speed) == 26
    jobs = pd.DataFrame({"steps_remaining": 1e5 * speed["v100"]}, index=speed.index)
    for policy in ("max_min_fairness", "makespan", "finish_time_fairness"):
        allocation = solve(policy, speed, workers={"k80": 4, "p100": 4, "v100": 4}, jobs=jobs)
        agnostic = solve(
            f"{policy}_agnostic", speed, workers={"k80": 4, "p100": 4, "v100": 4}, jobs=jobs
        )
        assert allocation.gap <= 1e-6
        fastest = speed.max(axis=1)
        gained = (allocation.throughput / fastest).sum() / (agnostic.throughput / fastest).sum()
        assert gained > 1.05  # types matter to these models


def test_policies_are_values() -> None:
    made: list[Policy] = [policy() for policy in BUILT_IN]
    assert made == [policy() for policy in BUILT_IN]
    assert len({repr(policy) for policy in made}) == len(made)


class FreeLevel(Policy):
    """Two variables of its own, of which the constraints forget one."""

    name, source = "free_level", "a test"

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(p.total(p.throughput) + p.variable("level") - p.variable("excess"))

    def constraints(self, p: Problem) -> list[cp.Constraint]:
        return [p.variable("excess") >= p.total(p.time) - 1]


def test_the_variable_that_nothing_bounds_is_named() -> None:
    with pytest.raises(SolveError, match=r"nothing bounds its variable 'level'\.$"):
        solve(FreeLevel(), SPEED, workers={"a100": 1, "h100": 1})
