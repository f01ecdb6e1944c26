"""Leases that are passed over against runs in which every lease is an event, on drawn workloads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed
from tests.sim.leasing.one_by_one import leased

import apportion as ap
from apportion.mechanism.orders import LeastAttainedService

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.sim import Workload
    from apportion.sim.network import NetworkModel

pytestmark = pytest.mark.usefixtures("free_starts")

STEPS_PER_S = {"BERT-large": 0.07, "VGG11": 4.3, "ResNet50": 2.9, "AlexNet": 19.0}
CLUSTERS = [
    ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4),
    ap.Cluster.of_racks(1, machines_per_rack=4, gpus_per_machine=4),
    ap.Cluster.of_racks(3, machines_per_rack=2, gpus_per_machine=4),
    ap.Cluster.of_racks({"v100": 2, "k80": 2}, machines_per_rack=2, gpus_per_machine=4),
]
POLICIES = ("max_min_fairness", "network_sensitive", "dally_round")
DECIDERS = [
    *("gandiva", "tiresias", "dally", "themis", "gandiva", "dally_manual", "dally_no_wait"),
    *("migrating themis", "dally", *POLICIES),
]
PAUSES: list[Any] = [0.0, 0.0, 1.0, 5.0, {"VGG11": 0.0, "others": 2.0}]


def drawn(rng: np.random.Generator) -> tuple[Workload, ap.Cluster]:
    """Few jobs of few lengths that come at few times, so that many leases end together."""
    count, cluster = int(rng.integers(3, 10)), CLUSTERS[rng.integers(len(CLUSTERS))]
    models, gpus = (
        rng.choice([*STEPS_PER_S], count),
        rng.choice([1, 2, 2, 3, 4, 4, 6, 8, 12], count),
    )
    steps_per_s = np.array([STEPS_PER_S[model] for model in models])
    arrival_s = rng.choice([0.0, 0.0, 0.0, 600.0, 1200.0, 2400.0], count)
    jobs = pd.DataFrame({"job_type": models, "scale_factor": gpus, "arrival_s": np.sort(arrival_s)})
    jobs["total_steps"] = rng.choice([1000.0, 3000.0, 6000.0, 9000.0], count) * steps_per_s
    pairs = pd.concat([jobs, pd.DataFrame({"job_type": [*STEPS_PER_S], "scale_factor": 1})])
    pairs = pairs[["job_type", "scale_factor"]].drop_duplicates()
    alone = pairs["job_type"].map(STEPS_PER_S).to_numpy()
    speeds = {name: alone for name in cluster.accelerators}
    if "k80" in speeds:
        speeds["k80"] = alone * rng.choice([0.3, 0.6, 1.0, 1.2], len(pairs))
    throughputs = pd.DataFrame(speeds, pd.MultiIndex.from_frame(pairs))
    return ap.Workload("drawn", jobs, throughputs), cluster


def decided(rng: np.random.Generator, name: str) -> tuple[Any, dict[str, Any]]:
    """Draw what leases are like: the scheduler that has it, or a policy and the settings."""
    lease_s, pause_s = float(rng.choice([600.0, 1200.0])), PAUSES[rng.integers(len(PAUSES))]
    if name in POLICIES:
        return name, {"lease_seconds": lease_s, "checkpoint_seconds_per_gpu": pause_s}
    how, _, scheduler = name.rpartition(" ")
    terms = ap.get_scheduler(scheduler, lease_s=lease_s, checkpoint_s_per_gpu=pause_s)
    restore_s = float(rng.choice([0.0, 3.0]))
    return replace(terms, restore_s_per_gpu=restore_s, migrates=how == "migrating"), {}


@pytest.mark.parametrize("seed", each_seed(40, 200))
def test_leases_that_are_passed_over_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (load, cluster), name = drawn(rng), DECIDERS[seed % len(DECIDERS)]
    decider, settings = decided(rng, name)
    settings |= {"mechanism": "leases", "network": "table1", "seed": seed}
    some, every = (leased(decider, load, cluster, every=each, **settings) for each in (False, True))
    pd.testing.assert_frame_equal(some.jobs, every.jobs, rtol=1e-9, atol=1e-6)
    one, other = (run.schedule[["job", "accelerator", "machines"]] for run in (some, every))
    pd.testing.assert_frame_equal(one, other)
    assert len(some.rounds) <= len(every.rounds)


def test_jobs_whose_leases_end_together_give_back_before_any_chooses() -> None:
    load = ap.generate_rack_workload(jobs=5, seed=0)
    jobs = pd.DataFrame({"job_type": ["BERT-large", "BERT-large", "VGG11"]})
    jobs = jobs.assign(arrival_s=0.0, scale_factor=[8, 4, 2], duration_s=[3e4, 6e4, 3e4])
    jobs["total_steps"] = [1974.203738, 3948.407476, 127659.574468]
    run = ap.simulate("gandiva", replace(load, jobs=jobs), CLUSTERS[0])
    # The gang of 8 is spread over racks at first. One rack is its own once the gangs of one lease
    # have given back together.
    first, last = run.schedule[run.schedule["job"] == 0]["machines"].iloc[[0, -1]]
    assert {machine // 2 for machine in first} == {0, 1}
    assert len({machine // 2 for machine in last}) == 1
    assert run.jobs["jct_s"].iloc[0] == pytest.approx(39957, abs=1)


def test_who_gave_back_in_an_instant_gets_the_same_gpus_after_others_have_moved(
    workload_of: Callable[..., Workload], network: NetworkModel
) -> None:
    """A lease ends as a gang of 6 comes, takes its GPUs first, and moves on to a rack."""
    cluster = ap.Cluster.of_racks(2, machines_per_rack=6, gpus_per_machine=4)
    # By machine: 2 and 2 for a while, 2 and the job that is looked at, 4 each, and in the other
    # rack 3 each, so that there one GPU is free of each machine.
    gpus = [2, 2, 2, *[4] * 4, *[3] * 6, 2, 6]
    watched, comes_s = len(gpus) - 2, 50.0 + 1000.0 + 2.0
    arrival_s = [0.0] * watched + [50.0, comes_s]
    steps = [9000.0, 500.0, *[9000.0] * (len(gpus) - 2)]
    gandiva = ap.get_scheduler("gandiva", order=LeastAttainedService(), placement="first_fit")
    scheduler = replace(gandiva, lease_s=1000.0, checkpoint_s_per_gpu=1.0)
    load = workload_of(steps, gpus, arrival_s)
    run = ap.simulate(scheduler, load, cluster, network=network)
    stays = run.schedule[run.schedule["job"] == watched + 1]
    assert stays["start_s"].iloc[0] == comes_s
    assert stays["machines"].iloc[0] == (6, 7, 8, 9, 10, 11)
    assert run.schedule[run.schedule["job"] == watched]["machines"].tolist() == [(1,)]
    assert run.jobs["preemptions"].iloc[watched] == 0


def test_who_comes_back_to_its_gpus_in_an_instant_pays_for_no_restart() -> None:
    """The last gang is on its faster type; at ends of leases it is offered the other one first."""
    jobs = pd.DataFrame({"arrival_s": [0.0, 600.0, 3600.0, 3600.0, 3600.0]})
    jobs["job_type"] = ["ResNet50", "MobileNetV3", "BERT-large", "ResNet50", "MobileNetV3"]
    jobs = jobs.assign(scale_factor=[6, 6, 4, 6, 6], duration_s=[2e3, 3e4, 1e4, 4.5e4, 4.5e4])
    steps_per_s = {"v100": [2.915452, 120.481928, 0.065807], "k80": [2.915452, 72.289157, 0.039484]}
    pairs = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]].iloc[:3])
    throughputs = pd.DataFrame(steps_per_s, pairs)
    jobs["total_steps"] = jobs["duration_s"] * throughputs["v100"].to_numpy()[[0, 1, 2, 0, 1]]
    gandiva = ap.get_scheduler("gandiva", lease_s=600.0, placement="best_fit")
    load = ap.Workload("two types", jobs, throughputs)
    run = ap.simulate(replace(gandiva, restore_s_per_gpu=3.0), load, CLUSTERS[3]).jobs
    lost_s = run[["machine_s", "rack_s", "network_s"]].sum(axis=1)
    lost_s -= run["compute_s"] + run["communication_s"]
    assert run["preemptions"].tolist() == [0, 0, 0, 0, 1]
    np.testing.assert_allclose(lost_s, 3.0 * run["scale_factor"] * run["preemptions"], atol=1e-6)
