"""Complaints about runs against plain loops over the schedule, and linear programs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TYPES, GPUS = ["fast", "slow"], np.array([2.0, 2.0])
CLUSTER = "fast=2,slow=2"


def drawn(seed: int, count: int = 6) -> ap.Workload:
    rng = np.random.default_rng(seed)
    rows = [(kind, gpus) for kind in "ab" for gpus in (1, 2)]
    index = pd.MultiIndex.from_tuples(rows, names=["job_type", "scale_factor"])
    speed = {"fast": rng.uniform(2, 5, 4), "slow": rng.uniform(0.5, 2, 4)}
    jobs = pd.DataFrame(
        {
            "arrival_s": rng.integers(0, 8, count) * 500.0,
            "job_type": rng.choice(list("ab"), count),
            "scale_factor": rng.choice([1, 1, 2], count),
            "total_steps": rng.integers(2, 20, count) * 1000.0,
            "weight": rng.choice([1.0, 2.0], count),
            "user": rng.choice(["ann", "bob"], count),
        },
        index=[f"job {number}" for number in rng.permutation(count)],
    )
    return ap.Workload("drawn", jobs, pd.DataFrame(speed, index=index))


def most_of(speed: Floats, bundle: Floats, gang: float) -> float:
    """The largest throughput that a bundle of GPUs gives, by a solver."""
    x = cp.Variable(2, nonneg=True)
    limits: Any = [gang * x <= bundle, cp.sum(x) <= 1]
    problem = cp.Problem(cp.Maximize(speed @ x), limits)
    problem.solve(solver=cp.HIGHS)
    value: Any = problem.value
    return float(value)


def by_hand(run: ap.Run, load: ap.Workload) -> tuple[dict[Any, float], dict[Any, float]]:
    """Return ``ratio`` of sharing by job, and of envy by pair, stretch by stretch."""
    jobs: dict[Any, Any] = {row.Index: row for row in run.jobs.itertuples()}
    facts: dict[Any, Any] = {row.Index: row for row in load.jobs.itertuples()}
    speed = {
        name: np.array(load.throughputs.loc[(each.job_type, each.scale_factor)], dtype=float)
        for name, each in facts.items()
    }
    times = sorted({t for job in jobs.values() for t in (job.arrival_s, job.completion_s)})
    has, alone = dict.fromkeys(jobs, 0.0), dict.fromkeys(jobs, 0.0)
    mine: dict[Any, float] = {}
    theirs: dict[Any, float] = {}
    for begin, end in pairwise(times):
        here = [n for n, j in jobs.items() if j.arrival_s <= begin and j.completion_s >= end]
        held = {name: np.zeros(2) for name in here}
        stay: Any
        for stay in run.schedule.itertuples():
            inside = min(stay.end_s, end) - max(stay.start_s, begin)
            if stay.job in held and inside > 0:
                held[stay.job][TYPES.index(stay.accelerator)] += inside / (end - begin)
        whole = sum(facts[name].weight for name in here)
        for job in here:
            gang, weight = facts[job].scale_factor, facts[job].weight
            made = float(speed[job] @ held[job]) * (end - begin)
            has[job] += made
            alone[job] += most_of(speed[job], GPUS * weight / whole, gang) * (end - begin)
            for other in here:
                bundle = held[other] * facts[other].scale_factor * weight / facts[other].weight
                pair = job, other
                mine[pair] = mine.get(pair, 0.0) + made
                worth = most_of(speed[job], bundle, gang) * (end - begin)
                theirs[pair] = theirs.get(pair, 0.0) + worth
    ratio = {name: has[name] / alone[name] for name in jobs}
    envy = {
        pair: theirs[pair] / mine[pair] if mine[pair] else (np.inf if theirs[pair] else 1.0)
        for pair in mine
        if pair[0] != pair[1]
    }
    return ratio, {pair: each for pair, each in envy.items() if each > 1 + 1e-6}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("seed", "decider"), sampled([(1, "max_min_fairness"), (0, "fcfs"), (2, "easy")], 3)
)
def test_a_run_is_what_each_held_from_event_to_event(seed: int, decider: str) -> None:
    load = drawn(seed)
    run = ap.simulate(decider, load, CLUSTER)
    found: Any = ap.audit_run(run, load, together_s=0.0)
    ratio, envy = by_hand(run, load)
    assert found.sharing["ratio"].to_dict() == pytest.approx(ratio, rel=1e-6)
    told = {(row.job, row.other): row.ratio for row in found.envy.itertuples()}
    assert told == pytest.approx(envy, rel=1e-6)
    assert found.allocation is None
    assert f"Audit of the run of {decider}" in repr(found)
    assert "lies" not in repr(found)
    few: Any = ap.audit_run(run, load, together_s=1e9)
    assert few.envy.empty
    turned: Any = ap.Workload("drawn", load.jobs.iloc[::-1], load.throughputs[TYPES[::-1]])
    again: Any = ap.audit_run(ap.simulate(decider, turned, "slow=2,fast=2"), turned, together_s=0.0)
    other = again.sharing["ratio"].to_dict()
    assert other == pytest.approx(ratio, rel=1e-6)
    groups = found.by(load.jobs["user"])
    assert "gain_by_lies" not in groups  # none are tried
    assert groups["jobs"].sum() == len(load.jobs)


def test_what_nobody_loses_could_have_been_gained() -> None:
    """Two jobs on two GPUs leave none idle; without the stays of one of them its GPU is."""
    index = pd.MultiIndex.from_tuples([("a", 1)], names=["job_type", "scale_factor"])
    speed = pd.DataFrame({"fast": [2.0], "slow": [1.0]}, index=index)
    table = {"arrival_s": 0.0, "job_type": "a", "scale_factor": 1, "total_steps": [400.0] * 2}
    load = ap.Workload("two", pd.DataFrame(table, index=["x", "y"]), speed)
    both = ap.simulate("max_min_fairness", load, "fast=2")
    found: Any = ap.audit_run(both, load)
    assert found.pareto_gain == 0.0
    assert found.better is None
    schedule = both.schedule[both.schedule["job"] == "x"]
    jobs = both.jobs.assign(completion_s=200.0)
    idle = replace(both, jobs=jobs, tables={"schedule": schedule})
    worse: Any = ap.audit_run(idle, load)
    assert worse.pareto_gain == pytest.approx(1.0)
    assert worse.better.loc["y", "fast"] == pytest.approx(1.0)
    assert worse.sharing.loc["y", "ratio"] == 0.0


def test_runs_that_cannot_be_audited_are_refused() -> None:
    load = drawn(0)
    run = ap.simulate("max_min_fairness", load, CLUSTER, mechanism="exact")
    with pytest.raises(ap.InputError, match="no schedule of devices"):
        ap.audit_run(run, load)
    with pytest.raises(ap.InputError, match="not of the workload"):
        ap.audit_run(run, drawn(0, 5))
    shared = replace(run, settings={"mechanism": "iterations"})
    with pytest.raises(ap.InputError, match="by the mechanism 'iterations' they may share"):
        ap.audit_run(shared, load)
    plain = ap.simulate("fcfs", load, CLUSTER)
    twice = pd.concat([plain.schedule.assign(job=job) for job in load.jobs.index])
    with pytest.raises(ap.InputError, match="jobs share GPUs"):
        ap.audit_run(replace(plain, tables={"schedule": twice}), load)
