"""Whatever is simulated, its schedule can be, and does not depend on how things are given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled
from tests.sim.workloads.generated import POLICIES, SCHEDULERS, Case, draw

import apportion as ap
from apportion.mechanism.leases import OfferScheduler
from apportion.policies import Policy
from apportion.sim.deciders import get_decider
from apportion.sim.network import get_network
from apportion.testing.lone_gangs import best_overhead

pytestmark = pytest.mark.usefixtures("free_starts")

MANY = range(1000, 1014)


def hold(case: Case, seed: int) -> None:
    """Check the schedule of a run, and that the same comes out however things are given."""
    run = case.run()
    decider = get_decider(case.decider)
    leases = isinstance(decider, OfferScheduler)
    sharing = isinstance(decider, Policy) and decider.space_sharing
    conserving = isinstance(decider, Policy) and "leaves_gpus_idle" not in decider.traits
    ap.check_schedule(run, case.workload, case.cluster, sharing=sharing, work_conserving=conserving)
    shuffled = case.shuffled(np.random.default_rng([seed, 1]))
    same_jobs(run.jobs, shuffled.run().jobs)
    swapped, other = case.swapped()
    if any(job != name for job, name in other.items()):
        same_jobs(run.jobs, swapped.run().jobs)
    if not (leases or sharing or about_all_gpus(case.decider)):
        unused = case.with_unused_type().run().jobs["completion_s"]
        pd.testing.assert_series_equal(unused, run.jobs["completion_s"], rtol=1e-9)


def about_all_gpus(policy: str) -> bool:
    """Whether jobs are promised a share of all GPUs, also of those on which none can run.

    The logarithms of Nash welfare are no more exact than a tie between jobs has to be.
    """
    promised = ("finish_time_fairness", "isolated", "proportional", "nash_welfare")
    return policy.removesuffix("_agnostic") in promised


def same_jobs(jobs: pd.DataFrame, others: pd.DataFrame) -> None:
    """Compare to the last bit what became of jobs by their names."""
    assert set(jobs.index) == set(others.index)
    pd.testing.assert_frame_equal(jobs, others.loc[jobs.index, jobs.columns], check_exact=True)


def lone(case: Case) -> None:
    """Check that a job that is alone takes as long as its steps take where it is fastest."""
    jobs = case.workload.jobs.iloc[:1]
    alone = replace(case, workload=replace(case.workload, jobs=jobs))
    speed = alone.workload.throughput_of(case.cluster).iloc[0]
    seconds = float(jobs["total_steps"].iloc[0] / speed.max())
    if "lease_seconds" in case.settings:
        settings = {**case.settings, "checkpoint_seconds_per_gpu": 0.0}
        network = get_network(settings["network"], cluster=case.cluster)
        gang = int(jobs["scale_factor"].iloc[0]), str(jobs["job_type"].iloc[0])
        seconds *= 1 + best_overhead(*gang, case.cluster, network)
    else:
        fastest = str(speed.idxmax())
        gpus = {name: count for name, count in case.cluster.gpus.items() if name == fastest}
        alone = replace(alone, cluster=ap.Cluster(gpus))
        settings = {**case.settings, "preemption_overhead_seconds": 0.0}
    ended = alone.run(settings=settings).jobs.iloc[0]
    # Gangs look among few shapes, which hold the best of all but for this network's uneven ones.
    if case.settings.get("network") != "table1_model":
        assert ended["jct_s"] == pytest.approx(seconds, rel=1e-7)
    assert ended["jct_s"] >= seconds * (1 - 1e-7)
    assert ended["ftf"] == pytest.approx(1.0, rel=1e-7)


def check(name: str, seed: int, most_jobs: int) -> None:
    case = draw(name, np.random.default_rng([seed, *name.encode()]), most_jobs)
    hold(case, seed)
    lone(case)


@pytest.mark.parametrize("name", sampled([*POLICIES, *SCHEDULERS], 4))
def test_drawn_simulations(name: str) -> None:
    check(name, seed=0, most_jobs=6)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*POLICIES, *SCHEDULERS])
def test_many_drawn_simulations(name: str) -> None:
    for seed in MANY:
        check(name, seed, most_jobs=12)
