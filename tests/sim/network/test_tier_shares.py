from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from apportion.cluster import TIERS, Cluster
from apportion.policies import get_policy, solve, solve_instance
from apportion.sim import Workload, generate_rack_workload, simulate
from apportion.sim.network import get_network
from apportion.sim.network.model import placings_of
from apportion.sim.tiers.tier_problem import at_tiers, tier_problem, tier_slowdowns
from apportion.tensor import ThroughputTensor

pytestmark = pytest.mark.usefixtures("free_starts")

RACKS = Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)


def tier_speeds(workload: Workload, cluster: Cluster, network: Any) -> Any:
    alone = workload.throughput_of(cluster).to_numpy(dtype=float)
    return at_tiers(alone, tier_slowdowns(workload, placings_of(cluster, network)))


def jobs_of(*gangs: int, hours: float = 10.0, **columns: Any) -> Workload:
    """ResNet18 jobs that all arrive at once, each an hour of compute for 3600 steps."""
    table = pd.DataFrame(
        {"job_type": "ResNet18", "scale_factor": gangs, "total_steps": 3600.0 * hours, **columns}
    )
    index = pd.MultiIndex.from_tuples([("ResNet18", gang) for gang in sorted(set(gangs))])
    return Workload("by hand", table, pd.DataFrame({"gpu": 1.0}, index=index))


@pytest.mark.parametrize(
    ("gpus", "tiers"), [(1, 1), (2, 3), (4, 3), (5, 2), (8, 2), (9, 1), (16, 1)]
)
def test_speeds_are_known_at_the_tiers_that_a_gang_can_lie_at(gpus: int, tiers: int) -> None:
    network = get_network("table1", cluster=RACKS)
    speeds = tier_speeds(jobs_of(gpus), RACKS, network)[0]
    # One GPU lies in a machine only, more than 4 in none, more than 8 in no rack.
    assert np.count_nonzero(speeds) == tiers
    assert speeds[2] > 0 or gpus == 1


@pytest.mark.parametrize("network", ["none", "table1", "table1_model"])
def test_the_slowdown_at_a_tier_is_that_of_the_best_placement_there(network: str) -> None:
    cluster = Cluster.of_racks({"v100": 2, "k80": 1}, machines_per_rack=3, gpus_per_machine=4)
    workload = generate_rack_workload(jobs=30, seed=2, max_scale_factor=24)
    placings = placings_of(cluster, get_network(network, cluster=cluster))
    found = tier_slowdowns(workload, placings).reshape(30, 2, len(TIERS))
    jobs = workload.jobs[["job_type", "scale_factor"]].itertuples(index=False)
    free = [np.array(cluster.racks(name)) for name in cluster.accelerators]
    for job, (model, gpus) in enumerate(jobs):
        for kind, tier in np.ndindex(2, len(TIERS)):
            best = placings[kind].fastest(free[kind], model, gpus, tier)
            worth = np.inf if best is None else placings[kind].worth(model, best)[0]
            assert found[job, kind, : tier + 1].min() == worth


def test_two_gangs_share_the_one_machine_and_neither_waits_for_ever() -> None:
    cluster = Cluster.of_racks(1, machines_per_rack=1, gpus_per_machine=4)
    run = simulate("max_min_fairness", jobs_of(4, 4), cluster, mechanism="leases", network="none")
    jobs = run.jobs
    # Ten hours each in turns of an hour: the first ends before its last lease would.
    held = jobs["machine_s"].to_numpy() / 3600
    np.testing.assert_allclose(held, 10, rtol=0.01)
    assert jobs["completion_s"].min() / 3600 == pytest.approx(19, rel=0.01)
    assert jobs["completion_s"].max() / 3600 == pytest.approx(20, rel=0.01)


def test_time_follows_weights() -> None:
    cluster = Cluster.of_racks(1, machines_per_rack=1, gpus_per_machine=4)
    workload = jobs_of(4, 4, hours=30.0, weight=[3.0, 1.0])
    run = simulate("max_min_fairness", workload, cluster, mechanism="leases", network="none")
    # Of the first forty hours the heavier one has three quarters.
    assert run.jobs["completion_s"].iloc[0] / 3600 == pytest.approx(40, abs=2)


@pytest.mark.parametrize("policy", ["max_min_fairness", "max_total_throughput"])
def test_types_and_tiers_are_posed_as_solve_poses_them_of_labels(policy: str) -> None:
    cluster = Cluster.of_racks({"k80": 1, "v100": 2}, machines_per_rack=2, gpus_per_machine=4)
    jobs = jobs_of(3, 3, 4, 6, 8, 1, 12)
    types = pd.DataFrame({"k80": 0.4, "v100": 1.0}, index=jobs.throughputs.index)
    jobs = Workload("by hand", jobs.jobs, types)
    speed = tier_speeds(jobs, cluster, get_network("table1", cluster=cluster))
    scale = jobs.jobs["scale_factor"]
    names = pd.MultiIndex.from_tuples([(job, job) for job in scale.index], names=["row", "job"])
    options = pd.MultiIndex.from_product(
        [cluster.accelerators, TIERS], names=["accelerator", "tier"]
    )
    tensor = ThroughputTensor(pd.DataFrame(speed, index=names, columns=options))
    posed = tier_problem(speed, scale.to_numpy(), cluster)
    own = (solve_instance(get_policy(policy), posed).X * speed).sum(axis=1)
    solved = solve(policy, tensor, workers=cluster, jobs=scale.to_frame())
    np.testing.assert_allclose(own, (solved.X.to_numpy() * speed).sum(axis=1), rtol=1e-6)
