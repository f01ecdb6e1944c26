"""Whole decisions whose objective is a sum over options, against integer programs of scipy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from tests.seeds import each_seed

import apportion as ap
from apportion.policies import Instance, solve_instance
from apportion.sim.resolve import Resolver

if TYPE_CHECKING:
    from apportion.policies import Problem
    from apportion.types import Floats

POLICY = ap.LeastMeanCompletion()


def drawn(rng: np.random.Generator) -> Instance:
    """Draw gangs on types, some alike, of speeds that are all different or of a few numbers."""
    jobs, types = int(rng.integers(1, 30)), int(rng.integers(1, 5))
    speed = rng.lognormal(0.0, 1.0, (jobs, types)) * (rng.random((jobs, types)) < 0.9)
    if rng.random() < 0.4:
        speed = np.ceil(speed)
    speed[:, 0] += speed.max(axis=1) == 0
    gang = rng.choice([1.0, 2.0, 4.0, 8.0], jobs)
    gpus = rng.integers(1, 20, types).astype(float)
    speed, gpus = np.where(gang[:, None] <= gpus, speed, 0.0), gpus
    left = speed.max(axis=1) * rng.choice([1e-9, 1.0, 5e3, 9e4], jobs)
    columns = {"steps_remaining": left, "weight": rng.choice([1.0, 1.0, 3.0], jobs)}
    alike = rng.integers(0, jobs, jobs) if rng.random() < 0.3 else np.arange(jobs)
    runs = alike[speed[alike].any(axis=1)]
    columns = {name: each[runs] for name, each in columns.items()}
    return Instance.of_jobs(speed[runs], gang[runs], gpus, columns=columns)


def most(instance: Instance) -> float:
    """The largest objective of a whole decision, written out by hand, by scipy."""
    speed = instance.throughput
    fastest = speed.max(axis=1)
    left_s = np.maximum(instance.columns["steps_remaining"] / fastest, 3600.0)
    worth = np.sqrt(instance.columns["weight"] / left_s)[:, None] * speed / fastest[:, None]
    return best_of_all(worth, instance)


def best_of_all(worth: Floats, instance: Instance) -> float:
    """The largest sum of what options are worth, of which each job has one at most, by scipy."""
    types = np.eye(instance.capacity.size)[instance.option_accelerator]
    held = (instance.gpus[:, :, None] * types).reshape(-1, instance.capacity.size).T
    rows = np.vstack([held, np.kron(np.eye(len(worth)), np.ones(instance.options))])
    most: Any = np.append(instance.capacity, np.ones(len(worth)))
    found = optimize.milp(
        -worth.ravel(),
        constraints=optimize.LinearConstraint(rows, ub=most),
        integrality=np.ones(worth.size, dtype=int),
        bounds=optimize.Bounds(0, (worth > 0).ravel()),
        options={"mip_rel_gap": 0.0},
    )
    assert found.fun is not None
    return -float(found.fun)


@pytest.mark.parametrize("seed", each_seed(15, 2000))
def test_the_best_whole_decision_is_found(seed: int) -> None:
    instance = drawn(np.random.default_rng(seed))
    if not instance.jobs:
        return
    found = solve_instance(POLICY, instance)
    assert found.status == "optimal"
    assert np.isin(found.X, (0.0, 1.0)).all()
    assert (found.X.sum(axis=1) <= 1).all()
    assert (instance.columns["scale_factor"] @ found.X <= instance.capacity).all()
    assert found.objective == pytest.approx(most(instance), rel=1e-9)


def elastic(rng: np.random.Generator) -> Instance:
    """Draw jobs of several sizes on types, some alike, some of which hold an option now."""
    jobs, types = int(rng.integers(1, 20)), int(rng.integers(1, 4))
    sizes = np.sort(rng.choice([1, 2, 3, 4, 8, 16], int(rng.integers(1, 5)), replace=False))
    kind, gpus = np.repeat(np.arange(types), sizes.size), np.tile(sizes, types).astype(float)
    speed = rng.lognormal(0.0, 1.0, (jobs, 1)) * rng.lognormal(0.0, 0.3, (jobs, types))[:, kind]
    speed *= gpus ** rng.uniform(0.2, 1.1, (jobs, 1)) * (rng.random(speed.shape) < 0.85)
    if rng.random() < 0.3:
        speed = np.ceil(speed)
    speed[:, 0] += speed.max(axis=1) == 0
    columns = {"weight": rng.choice([1.0, 1.0, 2.0], jobs), "current_option": np.full(jobs, -1.0)}
    for job in np.flatnonzero(rng.random(jobs) < rng.choice([0.0, 0.7])):
        columns["current_option"][job] = rng.choice(np.flatnonzero(speed[job] > 0))
    columns["reallocation_factor"] = rng.choice([0.5, 0.9, 1.0], jobs)
    rows = rng.integers(0, jobs, jobs) if rng.random() < 0.3 else np.arange(jobs)
    capacity = rng.integers(1, 1 + 3 * jobs, types).astype(float)
    speed = np.where(gpus <= capacity[kind], speed, 0.0)
    known = {name: each[rows] for name, each in columns.items()}
    return Instance.of_options(speed[rows], gpus, capacity, option_accelerator=kind, columns=known)


@dataclass(frozen=True)
class Paid(ap.Policy):
    """What options are worth by a column of one's own."""

    name, integral, columns = "paid", True, ("weight", "usd")

    def objective(self, p: Problem) -> cp.Maximize:
        each = (p.column("weight") * p.column("usd"))[:, None] * np.sqrt(p.speed + 1e-9)
        worth = np.where(p.speed > 0, each, 0.0)
        return cp.Maximize(p.total(cp.sum(cp.multiply(worth, p.X), axis=1)))


@pytest.mark.parametrize("seed", each_seed(10, 300))
def test_worths_of_ones_own_are_decided(seed: int) -> None:
    drawn = elastic(np.random.default_rng(seed))
    usd = np.random.default_rng(seed).uniform(1, 9, drawn.jobs)
    found = solve_instance(Paid(), drawn.with_columns({**drawn.columns, "usd": usd}))
    each = (drawn.columns["weight"] * usd)[:, None] * np.sqrt(drawn.throughput + 1e-9)
    best = best_of_all(np.where(drawn.throughput > 0, each, 0.0), drawn)
    assert found.objective == pytest.approx(best, rel=2e-9)


def test_worths_of_ones_own_that_are_none_are_told() -> None:
    instance = elastic(np.random.default_rng(1))
    for usd in (np.full(instance.jobs, np.nan), np.full(instance.jobs, np.inf)):
        with pytest.raises(ap.InputError, match="Paid"):
            solve_instance(Paid(), instance.with_columns({**instance.columns, "usd": usd}))


def test_the_first_of_jobs_that_are_alike_are_served_in_any_order_of_rows() -> None:
    speed = pd.DataFrame({"a": 4.0, "b": 1.0}, index=list("vwxyz"))
    jobs = pd.DataFrame({"steps_remaining": 1e6, "arrival_s": 0.0}, index=speed.index)
    for order in (list("vwxyz"), list("zxvyw")):
        found = ap.solve(POLICY, speed.loc[order], workers="a=2,b=1", jobs=jobs.loc[order])
        assert found.choice.dropna().to_dict() == {"v": "a", "w": "a", "x": "b"}


def test_a_session_decides_as_solve_does() -> None:
    rng = np.random.default_rng(1)
    names = [f"job {number:02}" for number in range(12)]
    speed = pd.DataFrame(rng.uniform(1, 9, (12, 2)), index=names, columns=["a", "b"])
    jobs = pd.DataFrame({"steps_remaining": rng.lognormal(10, 1, 12)}, index=names)
    with ap.session("least_mean_completion", "a=4,b=2") as session:
        session.add(speed, jobs)
        session.solve()
        session.remove(names[:5])
        now: Any = session.solve()
    anew = ap.solve("least_mean_completion", speed[5:], workers="a=4,b=2", jobs=jobs[5:])
    assert now.choice.to_dict() == anew.choice.to_dict()
    assert now.stats["path"] == "cold start"


@dataclass(frozen=True)
class MostAtOnce(ap.Policy):
    """Of which the counts of classes are a parameter: max over whole X of the sum of GPUs busy."""

    name = "most_at_once"
    integral = True

    def objective(self, p: Any) -> cp.Maximize:
        """State GPUs, by speed."""
        per_step = p.scale_factor / p.fastest_throughput
        return cp.Maximize(p.total(cp.multiply(per_step, p.throughput)))


def test_rounds_are_given_whole_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    load = ap.generate_workload(jobs=30, seed=1, jobs_per_hour=60.0, scale_factors="gavel")
    solve, told = Resolver.solve, list[Any]()

    def noted(self: Resolver, now_s: float) -> Any:
        told.append(solve(self, now_s))
        return told[-1]

    monkeypatch.setattr(Resolver, "solve", noted)
    ap.simulate(MostAtOnce(), load, "v100=4,p100=8,k80=8")
    assert len(told) > 30
    assert all(np.isin(shares[0], (0.0, 1.0)).all() for shares in told)


def test_worths_that_are_nothing_leave_all_waiting() -> None:
    speed: Floats = np.array([[1.0, 2.0]])
    instance = Instance.of_jobs(speed, [1.0], [1.0, 1.0], columns={"steps_remaining": np.ones(1)})
    worthless = instance.with_columns({**instance.columns, "weight": np.zeros(1)})
    assert solve_instance(POLICY, worthless).objective == 0.0
