from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from apportion.cluster import Cluster
from apportion.pairs import PairThroughputs
from apportion.policies import HierarchicalFairness
from apportion.sim import Run, Workload, generate_workload, simulate
from apportion.sim.network import get_network
from apportion.sim.sharing import PairSpeeds
from apportion.testing import check_schedule

pytestmark = pytest.mark.usefixtures("free_starts")

SHARED = "max_min_fairness_space_sharing"


def two_jobs(beside: float, steps: tuple[float, float] = (3600.0, 3600.0)) -> Workload:
    """Two jobs of one type that make 1 step/s alone and `beside` next to each other."""
    keys = pd.MultiIndex.from_tuples([("m", 1)], names=["job_type", "scale_factor"])
    jobs = pd.DataFrame({"job_type": "m", "total_steps": list(steps)}, index=["a", "b"])
    pairs = PairThroughputs(
        np.full((1, 1, 1), beside), np.ones((1, 1)), keys, accelerators=("v100",)
    )
    return Workload("two", jobs, pd.DataFrame({"v100": [1.0]}, index=keys), pairs=pairs)


def run(workload: Workload, cluster: Any, policy: Any = SHARED, **options: Any) -> Run:
    return simulate(policy, workload, cluster, **options)


@pytest.mark.parametrize("mechanism", ["rounds", "exact"])
def test_jobs_that_do_not_interfere_run_together(mechanism: str) -> None:
    jobs = run(two_jobs(1.0), {"v100": 1}, mechanism=mechanism).jobs
    np.testing.assert_allclose(jobs["completion_s"], 3600.0)
    np.testing.assert_allclose(jobs["v100_s"], 3600.0)
    # The one GPU is paid for once.
    np.testing.assert_allclose(jobs["gpu_seconds"], 1800.0)


@pytest.mark.parametrize("mechanism", ["rounds", "exact"])
def test_jobs_slow_each_other_down_until_one_is_done(mechanism: str) -> None:
    jobs = run(two_jobs(0.75, (2700.0, 5400.0)), {"v100": 1}, mechanism=mechanism).jobs
    # Together for 3,600 s at 0.75 steps/s; the other 2,700 steps alone, one a second.
    np.testing.assert_allclose(jobs["completion_s"], [3600.0, 6300.0])
    assert jobs["gpu_seconds"].sum() == pytest.approx(6300.0)


def test_pairs_on_racks_are_slowed_by_each_other_and_by_the_network() -> None:
    """Gangs of 8 over two machines of a rack: 2.16 times as long by Table I, ResNet18."""
    racks = Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=4)
    keys = pd.MultiIndex.from_tuples([("ResNet18", 8)], names=["job_type", "scale_factor"])
    steps = pd.DataFrame(
        {"job_type": "ResNet18", "scale_factor": 8, "total_steps": [2700.0, 5400.0]},
        index=["a", "b"],
    )
    pairs = PairThroughputs(np.full((1, 1, 1), 0.75), np.ones((1, 1)), keys, accelerators=("gpu",))
    load = Workload("two", steps, pd.DataFrame({"gpu": [1.0]}, index=keys), pairs=pairs)
    network = get_network("table1", cluster=racks)
    assert 1 + network.overhead("ResNet18", ((4, 4),)) == pytest.approx(2.16)
    shared = run(load, racks, mechanism="rounds", network="table1", round_seconds=72.0)
    # Together for 3600 s at 0.75 steps/s, then the other's 2700 steps alone: all times 2.16.
    np.testing.assert_allclose(shared.jobs["completion_s"], [3600 * 2.16, 6300 * 2.16])
    assert shared.schedule["devices"].tolist() == [tuple(range(8))] * 2
    assert shared.schedule["start_s"].tolist() == [0.0, 0.0]
    # The GPUs are paid for once.
    assert shared.jobs["gpu_seconds"].sum() == pytest.approx(8 * 6300 * 2.16)
    check_schedule(shared, load, racks, sharing=True)
    free = run(load, racks, mechanism="rounds", network="none", round_seconds=72.0)
    np.testing.assert_allclose(free.jobs["completion_s"], [3600, 6300])


@pytest.mark.thorough
@pytest.mark.parametrize("policy", [SHARED, "makespan_space_sharing", "gandiva_packing"])
def test_every_step_is_made_and_no_gpu_is_held_twice(policy: str) -> None:
    workload = generate_workload(jobs=25, seed=3, jobs_per_hour=6, scale_factors="gavel")
    cluster = Cluster({"v100": 8, "p100": 4})
    result = run(workload, cluster, policy, resolve_seconds=1920)
    assert result.jobs["completion_s"].notna().all()
    length = result.rounds["end_s"] - result.rounds["start_s"]
    for name, gpus in cluster.gpus.items():
        assert (result.rounds[f"{name}_busy"] <= gpus * length * (1 + 1e-9)).all()
    busy = result.rounds[["v100_busy", "p100_busy"]].to_numpy().sum()
    assert result.jobs["gpu_seconds"].sum() == pytest.approx(busy)
    again = run(workload, cluster, policy, resolve_seconds=1920)
    pd.testing.assert_frame_equal(result.jobs, again.jobs)


def split_workload() -> Workload:
    """One gang of 4 GPUs that makes a quarter of its steps when it is split."""
    keys = pd.MultiIndex.from_tuples([("m", 4)], names=["job_type", "scale_factor"])
    jobs = pd.DataFrame({"job_type": ["m"], "scale_factor": 4, "total_steps": 3600.0})
    whole = pd.DataFrame({"v100": [1.0]}, index=keys)
    return Workload("split", jobs, whole, unconsolidated=whole / 4)


def test_a_gang_that_is_split_over_machines_is_slower() -> None:
    def completion(gpus_per_machine: int, sensitive: bool) -> float:
        cluster = Cluster({"v100": 4}, gpus_per_machine=gpus_per_machine)
        result = run(split_workload(), cluster, "max_min_fairness", placement_sensitive=sensitive)
        return float(result.jobs["completion_s"].iloc[0])

    assert completion(4, True) == pytest.approx(3600)
    assert completion(2, False) == pytest.approx(3600)
    assert completion(2, True) == pytest.approx(4 * 3600)


def test_policies_are_told_how_fast_gangs_are_that_no_machine_holds() -> None:
    """Whole, it would be faster on v100; split, as it always is, on k80."""
    keys = pd.MultiIndex.from_tuples([("m", 4)], names=["job_type", "scale_factor"])
    jobs = pd.DataFrame({"job_type": ["m"], "scale_factor": 4, "total_steps": 3600.0})
    whole = pd.DataFrame({"v100": [1.0], "k80": [0.5]}, index=keys)
    apart = pd.DataFrame({"v100": [0.25], "k80": [0.5]}, index=keys)
    workload = Workload("large", jobs, whole, unconsolidated=apart)
    for per_machine, name, seconds in ((2, "k80", 7200.0), (4, "v100", 3600.0)):
        cluster = Cluster({"v100": 4, "k80": 4}, gpus_per_machine=per_machine)
        result = run(workload, cluster, "makespan", placement_sensitive=True)
        assert result.received[name].tolist() == [seconds]
        check_schedule(result, workload, cluster, work_conserving=True)


def test_entities_share_by_weight_in_the_simulator() -> None:
    keys = pd.MultiIndex.from_tuples([("m", 1)], names=["job_type", "scale_factor"])
    jobs = pd.DataFrame(
        {"job_type": "m", "total_steps": 36000.0, "entity": ["x", "x", "y"]}, index=list("abc")
    )
    workload = Workload("entities", jobs, pd.DataFrame({"v100": [1.0]}, index=keys))
    policy = HierarchicalFairness(weights={"x": 2, "y": 2})
    result = run(workload, {"v100": 1}, policy, mechanism="exact")
    # y has half of the GPU, a and b a quarter each: y is done first, the others together last.
    np.testing.assert_allclose(result.jobs["completion_s"], [108000.0, 108000.0, 72000.0])


def believing(workload: Workload, beside: float) -> PairThroughputs:
    truth = workload.pairs
    if truth is None:
        raise ValueError("no pairs")
    return replace(truth, own=np.full_like(truth.own, beside))


def test_a_policy_acts_on_what_it_believes_and_jobs_run_as_they_do() -> None:
    load = two_jobs(0.4)
    fooled = run(load, {"v100": 1}, pair_estimates=believing(load, 0.9)).jobs
    # Kept together at 0.4 steps/s all the way, where taking turns would make 0.5.
    np.testing.assert_allclose(fooled["completion_s"], 9000.0)
    timid = run(two_jobs(1.0), {"v100": 1}, pair_estimates=believing(load, 0.1)).jobs
    assert timid["completion_s"].max() == pytest.approx(7200.0)


def test_a_pair_that_has_run_is_known() -> None:
    load = two_jobs(0.4)
    options = {"pair_estimates": believing(load, 0.9), "learn_pairs": True}
    third = load.jobs.iloc[:1].assign(total_steps=60.0, arrival_s=100.0).set_axis(["c"])
    jobs = replace(load, jobs=pd.concat([load.jobs, third]))
    learnt = run(jobs, {"v100": 1}, **options).jobs
    fooled = run(jobs, {"v100": 1}, pair_estimates=believing(load, 0.9)).jobs
    # The arrival makes the policy solve again, and it has seen the pair run.
    assert learnt["completion_s"].max() < fooled["completion_s"].max()


@pytest.mark.parametrize("seed", range(3))
def test_what_a_pair_shows_is_known_of_its_jobs(seed: int) -> None:
    """Against a list of all that was seen, job by job."""
    rng = np.random.default_rng(seed)
    own = np.where(rng.random((3, 3, 2)) < 0.2, 0.0, rng.random((3, 3, 2)))
    own = np.where(own.transpose(1, 0, 2) == 0, 0.0, own)
    believed, key = rng.random((3, 3, 2)), rng.integers(0, 3, 8)
    pairs = PairSpeeds(own, key, believed.copy(), learns=True)
    seen: set[tuple[Any, Any, int]] = set()
    for _ in range(12):
        job, partner = rng.permutation(8)[:2].tolist()
        kind = int(rng.integers(2))
        new = {(job, partner, kind), (partner, job, kind)}
        surprise = own[key[job], key[partner], kind] == 0 and (job, partner, kind) not in seen
        told = pairs.measure(*(np.array([each]) for each in (job, partner, kind)))
        assert told.tolist() == [surprise]
        seen |= new
        table = pairs.table(np.arange(8))
        for a, b in itertools.permutations(range(8), 2):
            expected = [
                (own if (a, b, kind) in seen else believed)[key[a], key[b], kind]
                for kind in range(2)
            ]
            assert table.own[table.key[a], table.key[b]].tolist() == expected


def test_two_jobs_that_were_only_believed_to_fit_are_parted() -> None:
    load = two_jobs(0.0)
    result = run(load, {"v100": 1}, pair_estimates=believing(load, 0.9)).jobs
    assert result["completion_s"].notna().all()


def test_who_joins_a_running_job_pays_its_own_start() -> None:
    """b comes to a in the second round: a goes on, b loses the overhead and starts then."""
    load = two_jobs(1.0)
    load = replace(load, jobs=load.jobs.assign(arrival_s=[0.0, 300.0]))
    result = run(load, {"v100": 1}, preemption_overhead_seconds=100.0)
    assert result.jobs["start_s"].tolist() == [0.0, 360.0]
    assert result.jobs["completion_s"].tolist() == [3700.0, 4060.0]
    assert result.jobs["preemptions"].tolist() == [0, 0]
    assert result.schedule["start_s"].tolist() == [0.0, 360.0]
    check_schedule(result, load, {"v100": 1}, sharing=True, work_conserving=True)


@pytest.mark.thorough
def test_who_is_left_out_of_a_pair_is_preempted_and_its_partner_is_not() -> None:
    """Two pairs share two GPUs; when one job is done, its partner goes on."""
    workload = generate_workload(jobs=20, seed=4, jobs_per_hour=20, scale_factors="gavel")
    cluster = "v100=8,p100=4"
    for policy, overhead_s in (
        *((SHARED, 60.0), ("gandiva_packing", 0.0), ("makespan_space_sharing", 60.0)),
    ):
        result = run(workload, cluster, policy, preemption_overhead_seconds=overhead_s)
        assert result.jobs["start_s"].notna().all()
        check_schedule(result, workload, cluster, sharing=True, work_conserving=True)
