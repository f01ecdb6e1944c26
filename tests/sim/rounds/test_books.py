"""The books of a run agree with each other, and time and steps may be counted in any unit."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import sampled
from tests.sim.workloads.generated import SCHEDULERS, Case, draw

import apportion as ap
from apportion.mechanism.deciders import get_scheduler
from apportion.names import POLICY_NAMES
from apportion.policies.base import depends_on_time

if TYPE_CHECKING:
    from apportion.sim import Run

pytestmark = pytest.mark.usefixtures("free_starts")

IN_ROUNDS = (
    *("max_min_fairness", "fifo_agnostic", "makespan", "finish_time_fairness", "min_cost"),
    *("max_min_fairness_space_sharing", "gandiva_packing"),
)
EXACT = ("max_min_fairness", "fifo", "makespan_agnostic", "makespan_space_sharing")
CASES = [("rounds", each) for each in IN_ROUNDS] + [("exact", each) for each in EXACT]
CASES += [("leases", each) for each in [*SCHEDULERS, "max_min_fairness", "network_sensitive"]]
TIMES_S = ("round_seconds", "preemption_overhead_seconds", "resolve_seconds")
LEASE_TIMES_S = ("lease_seconds", "checkpoint_seconds_per_gpu", "resolve_seconds")


@cache
def case_of(mechanism: str, decider: str) -> Case:
    """A drawn case; policies under leases get the cluster and the jobs of a scheduler."""
    rng = np.random.default_rng([0, *f"{mechanism} {decider}".encode()])
    if mechanism == "leases":
        case = replace(draw("dally", rng, most_jobs=9), decider=decider)
        return replace(case, settings={**case.settings, "mechanism": "leases"})
    case = draw(decider, rng, most_jobs=9)
    if mechanism == "rounds":
        return case
    settings = {"mechanism": "exact", "resolve_seconds": case.settings["resolve_seconds"]}
    return replace(case, settings=settings)


@cache
def plain_run(mechanism: str, decider: str) -> Run:
    return run_of(case_of(mechanism, decider))


def run_of(case: Case, decider: Any = None) -> Run:
    return ap.simulate(decider or case.decider, case.workload, case.cluster, **case.settings)


@pytest.mark.parametrize(("mechanism", "decider"), CASES)
def test_a_job_does_its_steps_and_is_never_faster_than_it_can_be(
    mechanism: str, decider: str
) -> None:
    case = case_of(mechanism, decider)
    run = plain_run(mechanism, decider)
    jobs, table = run.jobs, case.workload.jobs
    speed = case.workload.throughput_of(case.cluster).loc[jobs.index]
    total = table["total_steps"].loc[jobs.index].to_numpy()
    names = [name for name in speed if f"{name}_s" in jobs]
    held = jobs[[f"{name}_s" for name in names]].to_numpy()
    most = (held * speed[names].to_numpy()).sum(axis=1)
    assert (most >= total * (1 - 1e-9)).all()
    jct_s = (jobs["completion_s"] - jobs["arrival_s"]).to_numpy()
    assert (jct_s * speed.to_numpy().max(axis=1) >= total * (1 - 1e-9)).all()
    assert (held.sum(axis=1) <= jct_s * (1 + 1e-6) + 1e-6).all()
    if case.settings.get("preemption_overhead_seconds") == 0 and "sharing" not in decider:
        np.testing.assert_allclose(most, total, rtol=1e-7)
    if mechanism == "leases":
        computed = jobs["compute_s"].to_numpy() * speed.to_numpy()[:, 0]
        np.testing.assert_allclose(computed, total, rtol=1e-9)


def in_another_unit_of_time(case: Case, factor: float) -> tuple[Case, Any]:
    """The same with all times so many times as long, and the scheduler for it."""
    jobs = case.workload.jobs
    jobs = jobs.assign(**{name: jobs[name] * factor for name in ("arrival_s", "total_steps")})
    if "deadline_s" in jobs:
        jobs = jobs.assign(deadline_s=jobs["deadline_s"] * factor)
    leases = case.settings.get("mechanism") == "leases"
    times = LEASE_TIMES_S if leases else TIMES_S
    settings = {
        name: value * factor if name in times else value for name, value in case.settings.items()
    }
    if case.decider in POLICY_NAMES and depends_on_time(ap.get_policy(case.decider)):
        settings.setdefault("resolve_every", (settings.get("resolve_seconds") or 3600.0 * factor))
    other = replace(case, workload=replace(case.workload, jobs=jobs), settings=settings)
    timers: dict[str, dict[str, Any]] = {
        "dally": {"history_s": 172800 * factor, "initial": (43200 * factor, 86400 * factor)},
        "dally_manual": {"machine_s": 43200 * factor, "rack_s": 86400 * factor},
        "tiresias": {"queue_limits": (3250 * factor, 7200 * factor, 18000 * factor)},
    }
    if leases and case.decider in timers:
        return other, get_scheduler(case.decider, **timers[case.decider])
    return other, case.decider


@pytest.mark.parametrize(("mechanism", "decider"), sampled(CASES, 3))
def test_the_unit_of_time_changes_nothing(mechanism: str, decider: str) -> None:
    case = case_of(mechanism, decider)
    run = plain_run(mechanism, decider)
    slower = run_of(*in_another_unit_of_time(case, 4.0))
    for name in ("start_s", "completion_s", "gpu_seconds", "queueing_s"):
        np.testing.assert_allclose(
            *(slower.jobs[name], 4 * run.jobs[name]), rtol=1e-6, atol=1e-4, err_msg=name
        )
    assert slower.jobs["preemptions"].tolist() == run.jobs["preemptions"].tolist()


@pytest.mark.parametrize(("mechanism", "decider"), sampled(CASES, 3))
def test_the_unit_of_steps_changes_nothing(mechanism: str, decider: str) -> None:
    """A step that is half as long: twice as many of them, at twice the speed."""
    case = case_of(mechanism, decider)
    load = case.workload
    jobs = load.jobs.assign(total_steps=2 * load.jobs["total_steps"])
    pairs = load.pairs
    if pairs is not None:
        pairs = replace(pairs, own=2 * pairs.own, alone=2 * pairs.alone)
    finer = replace(load, jobs=jobs, throughputs=2 * load.throughputs, pairs=pairs)
    one, other = plain_run(mechanism, decider).jobs, run_of(replace(case, workload=finer)).jobs
    for name in ("start_s", "completion_s", "gpu_seconds", "preemptions"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-6, atol=1e-4, err_msg=name)
