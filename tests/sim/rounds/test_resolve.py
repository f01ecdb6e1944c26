from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.seeds import ranges_of_seeds

import apportion as ap
from apportion.policies import BUILT_IN, Makespan, MaxMinFairness, Policy
from apportion.policies.base import depends_on_time

BY_TIME: list[Any] = [policy for policy in BUILT_IN if depends_on_time(policy())]


def drawn(rng: np.random.Generator) -> ap.Workload:
    """Single-GPU jobs of some hours that come in the first hour."""
    count = int(rng.integers(2, 5))
    rate = rng.uniform(1, 5, (count, 2))
    table = {
        "job_type": [f"m{k}" for k in range(count)],
        "scale_factor": 1,
        "arrival_s": np.sort(rng.uniform(0, 3000, count)),
        "total_steps": rate.max(axis=1) * rng.uniform(3e3, 2e4, count),
        "deadline_s": rng.uniform(2e4, 4e5, count),
        "entity": [f"user {k % 2}" for k in range(count)],
    }
    jobs = pd.DataFrame(table)
    index = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]])
    return ap.Workload("drawn", jobs, pd.DataFrame(rate, index, ["v100", "k80"]))


def longest_without(run: ap.Run) -> float:
    """Longest time for which shares stood while there were jobs, seconds."""
    solved_s = run.rounds["start_s"][run.rounds["resolved"]].to_numpy()
    return float(np.diff([*solved_s, run.jobs["completion_s"].max()]).max())


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", ["rounds", "exact"])
@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 12))
def test_shares_are_found_anew_on_events_and_periodically(mechanism: Any, seeds: range) -> None:
    cluster = ap.Cluster({"v100": 2, "k80": 2})
    late_s = 360.0 if mechanism == "rounds" else 1e-6  # until the next round
    for seed in seeds:
        rng = np.random.default_rng(seed)
        load = drawn(rng)
        every_s = float(rng.uniform(900, 5000))
        policies = (*BY_TIME, MaxMinFairness, Makespan)
        for policy in policies if seed else policies[mechanism == "exact" :: 2]:
            told: Any = {"resolve_every": every_s, "mechanism": mechanism}
            assert longest_without(ap.simulate(policy(), load, cluster, **told)) <= every_s + late_s
            if seed % 4 and not depends_on_time(policy()):
                continue
            own = ap.simulate(policy(), load, cluster, mechanism=mechanism)
            asked = ap.simulate(policy(), load, cluster, mechanism=mechanism, resolve_every=np.inf)
            assert asked.solves <= 2 * len(load)
            if not depends_on_time(policy()):
                assert own.solves == asked.solves
                continue
            assert longest_without(own) <= 3600.0 + late_s
            rarely = ap.simulate(
                policy(), load, cluster, mechanism=mechanism, resolve_seconds=1800.0
            )
            assert longest_without(rarely) <= 1800.0 + late_s


@pytest.mark.thorough
def test_under_leases_shares_are_as_old_as_a_period_at_most() -> None:
    load = drawn(np.random.default_rng(3))
    racks = ap.Cluster.of_racks(1, machines_per_rack=1, gpus_per_machine=2, accelerator="v100")
    terms: Any = {"mechanism": "leases", "network": "none", "lease_seconds": 600.0}
    own, never, often = (
        ap.simulate("finish_time_fairness", load, racks, **terms, resolve_every=every_s)
        for every_s in (None, np.inf, 1200.0)
    )
    hours = own.jobs["completion_s"].max() / 3600
    assert never.solves <= 2 * len(load) < own.solves <= 2 * len(load) + hours
    assert own.solves < often.solves


class Waits(Policy):
    """Gives no time to jobs that have not been here for long; idle GPUs are not lent."""

    name = "waits"
    source = "a test"
    columns = ("elapsed_s",)
    traits = frozenset({"leaves_gpus_idle"})
    least_s = 4000.0

    def objective(self, p: Any) -> cp.Maximize:
        return cp.Maximize(p.total(cp.multiply(1 / p.fastest_throughput, p.throughput)))

    def constraints(self, p: Any) -> list[cp.Constraint]:
        return [p.time <= (p.elapsed_s >= self.least_s).astype(float)]


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", ["rounds", "exact"])
def test_who_gets_nothing_now_may_get_something_later_but_nobody_waits_for_ever(
    mechanism: Any,
) -> None:
    load = drawn(np.random.default_rng(1))
    run = ap.simulate(Waits(), load, "v100=4,k80=4", mechanism=mechanism, resolve_every=500.0)
    assert (run.jobs["start_s"] - run.jobs["arrival_s"]).between(4000, 4900).all()
    never = type("Never", (Waits,), {"least_s": 1e18})()
    with pytest.raises(ap.SolveError, match="gives none of the"):
        ap.simulate(never, load.head(1), "v100=4,k80=4", mechanism=mechanism, resolve_every=1e6)


PRICES = {"k80": 0.45, "p100": 1.46, "v100": 2.48}


def due(rng: np.random.Generator, spare_s: float) -> tuple[ap.Workload, ap.Cluster]:
    """Jobs with deadlines that drawn shares of the cluster, had all the time, meet.

    They do so with `spare_s` to spare. Types are faster and dearer from one to the next.
    """
    kinds, count = int(rng.integers(2, 4)), int(rng.integers(1, 8))
    gpus = rng.integers(1, 4, kinds)
    speed = rng.uniform(1, 2, (count, 1)) * np.sort(rng.uniform(0.5, 5, (count, kinds)), axis=1)
    speed[(rng.random(speed.shape) < 0.15) & (np.arange(kinds) > 0)] = 0.0
    share = rng.dirichlet(np.full(kinds + 1, 0.7), count)[:, :kinds] * (speed > 0)
    share /= max(1.0, (share.sum(axis=0) / gpus).max() / rng.uniform(0.7, 1.0))
    pace = (share * speed).sum(axis=1)
    left_s = rng.uniform(4, 30, count) * 3600
    table = {
        "arrival_s": np.sort(rng.uniform(0, 4 * 3600, count)) * (rng.random() < 0.5),
        "job_type": [f"m{k}" for k in range(count)],
        "scale_factor": 1,
        "total_steps": pace * left_s,
        "deadline_s": left_s + spare_s,
    }
    jobs = pd.DataFrame(table)[pace > 0.01 * speed.max(axis=1)]
    index = pd.MultiIndex.from_frame(pd.DataFrame(table)[["job_type", "scale_factor"]])
    names = list(PRICES)[:kinds]
    prices = {name: PRICES[name] for name in names}
    cluster = ap.Cluster(dict(zip(names, gpus.tolist(), strict=True)), prices_per_gpu_hour=prices)
    return ap.Workload("due", jobs, pd.DataFrame(speed, index, names)), cluster


@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 200))
def test_deadlines_that_can_be_met_are_met_and_jobs_rarely_move(seeds: range) -> None:
    """With room for a period, a round and two starts every one is met."""
    lost_s, moves, jobs = 60.0, 0, 0
    for seed in seeds:
        load, cluster = due(np.random.default_rng(seed), 3600 + 360 + 2 * lost_s)
        if not len(load):
            continue
        run = ap.simulate("min_cost_slos", load, cluster, preemption_overhead_seconds=lost_s)
        assert run.summary()["deadlines_met"] == 1.0, seed
        moves, jobs = moves + int(run.jobs["preemptions"].sum()), jobs + len(load)
        assert run.jobs["preemptions"].max() <= 12, seed
    assert moves <= 1.5 * jobs


@pytest.mark.parametrize("lost_s", [0.0, 60.0])
def test_a_job_begins_where_it_is_cheap_and_ends_where_it_is_fast(lost_s: float) -> None:
    index = pd.MultiIndex.from_tuples([("m", 1)], names=["job_type", "scale_factor"])
    speed = pd.DataFrame({"v100": [4.0], "k80": [1.0]}, index)
    row = {"arrival_s": 0.0, "job_type": "m", "scale_factor": 1, "total_steps": 72000.0}
    load = ap.Workload("one", pd.DataFrame([row | {"deadline_s": 36000.0}]), speed)
    cluster = ap.Cluster({"v100": 1, "k80": 1})
    run = ap.simulate("min_cost_slos", load, cluster, preemption_overhead_seconds=lost_s)
    assert run.jobs["preemptions"].tolist() == [1]
    assert run.jobs["completion_s"].between(33000, 36000).all()
    stays = run.tables["schedule"]["accelerator"].tolist()
    assert list(dict.fromkeys(stays)) == ["k80", "v100"]
    exact = ap.simulate("min_cost_slos", load, cluster, mechanism="exact")
    assert exact.jobs["completion_s"].tolist() == [pytest.approx(36000, rel=1e-6)]
    fastest = ap.simulate("max_total_throughput", load, cluster)
    assert run.summary()["cost"] < fastest.summary()["cost"]
