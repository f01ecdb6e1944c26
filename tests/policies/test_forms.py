"""What policies say in numbers is the objective that they state, on problems of every kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.policies import (
    Form,
    Instance,
    MaxMinFairness,
    Policy,
    Problem,
    get_policy,
    solve_instance,
)
from apportion.policies.base import form_of
from apportion.policies.registry import POLICIES

if TYPE_CHECKING:
    from apportion.types import Floats

WITH_FORM = [name for name in POLICIES if POLICIES[name].form is not Policy.form]


def drawn(seed: int) -> Instance:
    """Draw classes of jobs with zeros, decades of weights, and numbers of GPUs by option."""
    rng = np.random.default_rng(seed)
    jobs, types = int(rng.integers(1, 12)), int(rng.integers(1, 5))
    speed = rng.uniform(0.5, 20, (jobs, types)) * 10.0 ** rng.integers(-4, 4, (jobs, 1))
    speed[rng.random((jobs, types)) < 0.25] = 0.0
    speed[np.arange(jobs), rng.integers(0, types, jobs)] += 1.0
    columns = {
        "weight": 10.0 ** rng.uniform(-2, 2, jobs),
        "count": rng.integers(1, 5, jobs).astype(float),
        "scale_factor": rng.choice([1.0, 2.0, 4.0], jobs),
        "steps_remaining": 10.0 ** rng.uniform(2, 6, jobs),
        "elapsed_s": rng.uniform(0, 1e4, jobs),
        "isolated_elapsed_s": rng.uniform(0, 1e4, jobs),
        "order": rng.permutation(jobs).astype(float),
        "network_priority": rng.choice([0.0, 0.2, 1.0], jobs),
        "deadline_s": np.full(jobs, np.nan),
    }
    gpus = None if seed % 2 else rng.choice([1.0, 2.0, 4.0], types)
    return Instance.of_options(
        speed,
        gpus,
        rng.integers(4, 9, types),
        option_accelerator=np.arange(types),
        columns=columns,
        prices=rng.uniform(0.5, 3, types),
    )


def at(policy: Policy, instance: Instance, X: Floats) -> tuple[float, float]:
    """Return the objective at shares by expression and by numbers."""
    p = Problem(instance)
    form = form_of(policy, p)
    assert form is not None
    goal = policy.objective(p)
    p.X.save_value(X)
    assert form.maximise is isinstance(goal, cp.Maximize)
    return float(goal.args[0].value), form.value(p.throughput.value, X)


@pytest.mark.parametrize("name", WITH_FORM)
@pytest.mark.parametrize("seed", each_seed(12, 200))
def test_numbers_are_those_of_the_expression(name: str, seed: int) -> None:
    instance = drawn(seed)
    for policy in (get_policy(name), get_policy(f"{name}_agnostic")):
        believed = instance if policy.heterogeneity_aware else instance.blind_to_types()
        X = np.random.default_rng(seed).uniform(0.01, 0.2, believed.throughput.shape)
        expression, numbers = at(policy, believed, X * believed.can_run)
        assert numbers == pytest.approx(expression, rel=1e-9, abs=1e-12)


def test_most_policies_of_any_jobs_say_numbers() -> None:
    assert {"max_min_fairness", "makespan", "fifo", "nash_welfare", "min_cost"} <= set(WITH_FORM)


@dataclass(frozen=True)
class Another(MaxMinFairness):
    """Another objective than that of which the form is inherited."""

    traits = frozenset({"depends_on_step_size"})

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(p.total(p.throughput))


@dataclass(frozen=True)
class InNumbers(Another):
    """The same, in numbers as well."""

    def form(self, p: Problem) -> Form:
        return Form.gain(p.count)


@dataclass(frozen=True)
class Wrong(Another):
    """Forgets the jobs behind a class."""

    def form(self, p: Problem) -> Form:
        return Form.gain(np.ones(p.instance.jobs))


@dataclass(frozen=True)
class Capped(MaxMinFairness):
    """The objective of which it has a form, and a constraint."""

    def constraints(self, p: Problem) -> list[cp.Constraint]:
        return [p.X[:, 0] <= 0.25]


SPEEDS: Any = [[8.0, 1.0], [4.0, 3.0]]


def test_a_form_is_not_inherited_by_another_objective() -> None:
    p = Problem(Instance.of_jobs(SPEEDS, [1.0, 1.0], [1.0, 1.0]))
    assert form_of(Another(), p) is None
    assert form_of(InNumbers(), p) is not None
    found = [ap.solve(each, SPEEDS, workers=[1, 1]) for each in (Another(), InNumbers())]
    assert [each.objective for each in found] == pytest.approx([11.0, 11.0])
    assert found[0].X.equals(found[1].X)


def test_classes_of_jobs_are_exact_for_policies_of_ones_own() -> None:
    """Who forgets the jobs behind a class is asked about single jobs."""
    speeds = np.repeat(np.array(SPEEDS), 3, axis=0)
    instance = Instance.of_jobs(speeds, np.ones(6), [2.0, 1.0])
    for policy, classes in ((InNumbers(), 2), (Wrong(), 6)):
        found = solve_instance(policy, instance)
        assert found.stats["classes"] == classes
        assert found.objective == pytest.approx(19.0)


def test_constraints_hold_beside_a_form() -> None:
    assert ap.solve(Capped(), SPEEDS, workers=[1, 1]).X.to_numpy()[:, 0].max() <= 0.25 + 1e-9


def test_a_form_of_another_objective_is_no_policy() -> None:
    ap.check_policy(InNumbers())
    with pytest.raises(AssertionError, match="one objective in form and expression"):
        ap.check_policy(Wrong())
