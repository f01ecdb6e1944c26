"""What constraints say of single instants, beside the constraints themselves at whole shares."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import ranges_of_seeds

import apportion as ap
from apportion.policies import BUILT_IN, Instance
from apportion.policies.base import Policy
from apportion.policies.labelled import instance_of, jobs_of
from apportion.policies.stated_resources import stated_resources
from apportion.tensor import ThroughputTensor
from apportion.testing.policy_case import PolicyCase

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Own(Policy):
    """Most throughput under what a test states."""

    columns = ("user",)
    states: Any = None

    def objective(self, p: ap.Problem) -> cp.Maximize:
        return cp.Maximize(p.total(p.throughput))

    def constraints(self, p: ap.Problem) -> list[cp.Constraint]:
        return list(self.states(p))


def posed(jobs: int, users: list[int] | None = None, seed: int = 0) -> Instance:
    rng = np.random.default_rng(seed)
    speed, gpus = rng.uniform(1, 5, (jobs, 2)), rng.choice([1.0, 2.0], jobs)
    columns = {"user": np.array(users or [0] * jobs, dtype=float)}
    return Instance.of_jobs(speed, gpus, [4.0, 4.0], columns=columns)


def stated(states: Callable[[Any], list[Any]], jobs: int = 3, **how: Any) -> Any:
    return stated_resources(Own(states), posed(jobs, **how))


@pytest.mark.parametrize("seeds", ranges_of_seeds(5, 100))
def test_who_runs_together_is_who_meets_the_constraint(seeds: range) -> None:
    """Every choice of an option, or none, for each job is told apart as the numbers do it."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        bounds, jobs = int(rng.integers(1, 4)), 4
        units = rng.choice([0.0, 1.0, 2.5], (bounds, jobs, 2))
        most = rng.choice([0.0, 1.0, 3.5, 6.0], bounds)
        units[:, 0, 0] = units[:, 1, 1] = 1.0  # so that each is about several jobs

        def states(p: Any, units: Any = units, most: Any = most) -> list[Any]:
            each = [cp.sum(cp.multiply(one * p.count[:, None], p.X)) for one in units]
            return [cp.hstack(each) <= most, most[0] >= each[0]]

        found = stated(states, jobs, seed=seed)
        assert not found.on_average
        for options in itertools.product([None, 0, 1], repeat=jobs):
            X = np.array([[option == k for k in (0, 1)] for option in options], dtype=float)
            meets = ((units * X).sum(axis=(1, 2)) <= most + 1e-9).all()
            held = np.einsum("jor,jo->r", found.usage, X)
            assert (held <= found.capacity + 1e-9).all() == meets, (seed, options)


ON_AVERAGE: dict[str, Callable[[Any], Any]] = {
    "a floor": lambda p: p.throughput >= 1,
    "an equality": lambda p: cp.sum(p.X) == 1,
    "a coefficient below 0": lambda p: cp.sum(p.X[:, 0]) <= 1 + cp.sum(p.X[:, 1]),
    "not linear": lambda p: cp.sum_squares(p.X) <= 1,
    "a variable of its own": lambda p: cp.sum(p.X) <= p.variable("most"),
    "the time of each job": lambda p: p.time <= 0.5,
    "the pace of each job": lambda p: p.throughput <= 0.1 * p.fastest_throughput,
    "marked": lambda p: p.on_average(cp.sum(p.X) <= 1),
}


@pytest.mark.parametrize("kind", ON_AVERAGE)
@pytest.mark.parametrize("jobs", [1, 3])
def test_others_hold_on_average_and_are_named(kind: str, jobs: int) -> None:
    found = stated(lambda p: [ON_AVERAGE[kind](p).set_label(kind)], jobs)
    assert found.on_average == (kind,)
    assert not found.stated
    assert not found.capacity.size


def test_what_single_instants_always_meet_is_not_named() -> None:
    always = stated(lambda p: [p.time <= 1, p.X >= 0, True, p.variable("v") <= 3])
    assert not always.on_average
    assert not always.stated


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_bound_on_a_user_is_one_whoever_is_there(jobs: int) -> None:
    """Where a user has one job now a bound on what the user holds is none on the job's time."""

    def states(p: Any) -> list[Any]:
        user = np.arange(2)[:, None] == p.column("user")
        return [((user * p.count) @ cp.sum(cp.multiply(p.gpus, p.X), axis=1) <= 0.5)]

    found = stated(states, jobs, users=[0, 1][:jobs])
    assert found.stated == ("constraint 1",)
    assert found.exceeded.any(axis=2).all()


def test_nobody_is_where_shares_are_said_to_be_0() -> None:
    found = stated(lambda p: [p.X[:, 1] == 0, -2 * p.X[0, 0] == 0])
    assert found.exceeded[:, 1].any(axis=1).all()
    assert found.exceeded[:, 0].any(axis=1).tolist() == [True, False, False]
    assert stated(lambda p: [p.X[:, 1] <= 0]).on_average == ("constraint 1",)


@pytest.mark.parametrize(
    "policy", [each for each in BUILT_IN if each.constraints is not Policy.constraints]
)
def test_no_policy_of_the_package_states_any(policy: type[Policy]) -> None:
    """So that simulations need not look."""
    chosen = policy()
    case = PolicyCase.random(np.random.default_rng(0), 4, 3)
    table = case.jobs.assign(scale_factor=1)
    tensor = ThroughputTensor.of(case.speed)
    instance = instance_of(tensor, case.cluster, jobs_of(tensor, table, chosen))
    assert not stated_resources(chosen, instance).stated


def test_one_job_on_one_type() -> None:
    """A sum over one entry has a number as its slope."""

    class Capped(Policy):
        name = "capped_total"

        def objective(self, p: ap.Problem) -> cp.Maximize:
            return cp.Maximize(p.total(p.throughput))

        def constraints(self, p: ap.Problem) -> list[Any]:
            return [cp.sum(cp.multiply(p.gpus, p.X)) <= 3.0]

    load = ap.generate_workload(jobs=1, seed=0, accelerators=["v100"])
    plain = ap.simulate("max_total_throughput", load, "v100=4")
    capped = ap.simulate(Capped(), load, "v100=4")
    assert capped.jobs["completion_s"].tolist() == plain.jobs["completion_s"].tolist()
