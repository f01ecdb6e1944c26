"""A gang that is alone on the cluster, from the start or after a crowd."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed

from apportion.cluster import Cluster
from apportion.mechanism.deciders import get_scheduler, scheduler_table
from apportion.sim import Workload, simulate
from apportion.sim.network import get_network
from apportion.sim.network.model import placings_of
from apportion.sim.simulation import carried_on

pytestmark = pytest.mark.usefixtures("free_starts")

SCHEDULERS: list[str] = scheduler_table("leases")["name"].tolist()
MODELS = ("VGG11", "AlexNet", "MobileNetV3", "ResNet18", "ResNet50", "BERT-large")
NETWORKS = ("table1", "alpha_beta", "table1_model", "none")
CLUSTERS = (
    Cluster.of_racks(1, machines_per_rack=4, gpus_per_machine=8),
    Cluster.of_racks(3, machines_per_rack=2, gpus_per_machine=4),
    Cluster.of_racks(2),
)
POLICIES = ("max_min_fairness", "finish_time_fairness", "network_sensitive")
LEASE_S, HOUR_S = 3600.0, 3600.0


def workload_of(rows: list[tuple[float, str, int, float]]) -> Workload:
    """Jobs of (arrival_s, job_type, scale_factor, seconds of compute)."""
    jobs = pd.DataFrame(rows, columns=["arrival_s", "job_type", "scale_factor", "total_steps"])
    pairs = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]].drop_duplicates())
    return Workload("by hand", jobs, pd.DataFrame({"gpu": 1.0}, index=pairs))


def drawn(seed: int) -> tuple[Cluster, str, str, int]:
    """A cluster, a network, a model and the GPUs of a gang."""
    rng = np.random.default_rng(seed)
    cluster = CLUSTERS[rng.integers(len(CLUSTERS))]
    network, model = str(rng.choice(NETWORKS)), str(rng.choice(MODELS))
    return cluster, network, model, int(rng.integers(1, cluster.total_gpus + 1))


@pytest.mark.parametrize("seed", each_seed(10, 40))
def test_a_job_alone_is_as_fair_as_can_be_but_for_its_checkpoints(seed: int) -> None:
    cluster, network, model, gpus = drawn(seed)
    name = [*SCHEDULERS, *POLICIES][seed % (len(SCHEDULERS) + len(POLICIES))]
    load = workload_of([(0.0, model, gpus, 5 * HOUR_S)])
    job = simulate(name, load, cluster, mechanism="leases", network=network).jobs.iloc[0]
    slowdown = placings_of(cluster, get_network(network, cluster=cluster))[0].least_worth(
        model, gpus
    )[0]
    run_s = 5 * HOUR_S * slowdown
    checkpoint_s = 0.0 if name == "gandiva" else 1.0 * gpus
    leases = np.ceil(run_s / LEASE_S - 1e-9)
    assert job.jct_s == pytest.approx(run_s + (leases - 1) * checkpoint_s, rel=1e-8)
    assert job.ftf == pytest.approx(job.jct_s / run_s, rel=1e-8)
    assert job.isolated_s == pytest.approx(run_s, rel=1e-8)


@pytest.mark.parametrize("seed", each_seed(10, 24))
def test_a_gang_left_alone_is_on_its_best_placement_within_a_lease(seed: int) -> None:
    cluster, network, model, gpus = drawn(100 + seed)
    rng = np.random.default_rng(seed)
    scheduler = get_scheduler(SCHEDULERS[seed % len(SCHEDULERS)])
    assert scheduler.comes_together
    crowd = [
        (0.0, str(rng.choice(MODELS)), int(rng.integers(1, cluster.largest_machine + 1)), 1800.0)
        for _ in range(cluster.total_gpus // 3)
    ]
    load = workload_of([*crowd, (1.0, model, gpus, 9 * HOUR_S)])
    jobs = simulate(scheduler, load, cluster, network=network).jobs
    last_s = jobs.completion_s.iloc[:-1].max()
    gang = jobs.iloc[-1]
    slowdown = placings_of(cluster, get_network(network, cluster=cluster))[0].least_worth(
        model, gpus
    )[0]
    left_s = 9 * HOUR_S * slowdown
    checkpoints_s = gpus * (np.ceil(left_s / LEASE_S) + 2)
    assert gang.completion_s <= last_s + LEASE_S + left_s + checkpoints_s
    # Whatever it had before, it ran at that pace from then on.
    assert gang.compute_s == pytest.approx(9 * HOUR_S)


def test_a_gang_that_a_crowd_has_spread_comes_together() -> None:
    # Four machines of 8, each with a gang of 5 for half an hour: 12 GPUs are 3 + 3 + 3 + 3.
    crowd = [(0.0, "VGG11", 5, 1800.0)] * 4
    load = workload_of([*crowd, (1.0, "MobileNetV3", 12, HOUR_S)])
    for name in SCHEDULERS:
        jobs = simulate(name, load, CLUSTERS[0]).jobs
        # 29.2 times its compute on four machines, 10.4 times on two.
        assert jobs.jct_s.iloc[-1] / HOUR_S < 11.2


@pytest.mark.parametrize(("gpus", "tier"), [(2, 0), (8, 1), (12, 2)])
def test_who_goes_on_from_the_middle_is_counted_where_it_is(gpus: int, tier: int) -> None:
    cluster = Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
    load = workload_of([(0.0, "VGG11", gpus, 100.0)])
    begun = replace(load, jobs=load.jobs.assign(steps_remaining=load.jobs["total_steps"] * 0.6))
    held = {load.jobs.index[0]: ("gpu", range(gpus))}
    run = carried_on("dally_no_wait", begun, cluster, 40.0, held, network="none")
    held_s = run.jobs[["machine_s", "rack_s", "network_s"]].to_numpy()
    # The 40 s before are of no tier.
    assert held_s[0].tolist() == [60.0 * (tier == each) for each in range(3)]
    assert run.rounds[["machine_gpus", "rack_gpus", "network_gpus"]].sum().to_list() == [
        *(gpus * held_s[0])
    ]
