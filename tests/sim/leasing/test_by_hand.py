from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import apportion as ap
from apportion.cluster import Cluster
from apportion.errors import InputError, SolveError
from apportion.mechanism.deciders import get_scheduler
from apportion.mechanism.leases import JobQueue, OfferScheduler
from apportion.mechanism.leases.queue import Candidate
from apportion.mechanism.scheduler import RACK
from apportion.sim.network import (
    AnalyticNetwork,
    Dimension,
    Exchange,
    Interconnect,
    Layer,
    ModelProfile,
    model_profiles,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.sim import Workload
    from apportion.sim.network import NetworkModel, Shape

    Make = Callable[..., Workload]

pytestmark = pytest.mark.usefixtures("free_starts")

SMALL = Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
ONE_GPU = Cluster.of_racks(1, machines_per_rack=1, gpus_per_machine=1)


def test_a_lease_ends_with_a_checkpoint(workload_of: Make) -> None:
    run = ap.simulate("dally", workload_of([5000], 2), SMALL, network="none")
    (job,) = run.jobs.itertuples()
    assert job.completion_s == pytest.approx(3600 + 2 + 1400)
    assert (job.compute_s, job.communication_s) == pytest.approx((5000, 0))
    assert (job.gpu_s, job.machine_s, job.rack_s, job.network_s) == pytest.approx(
        (5002, 5002, 0, 0)
    )
    assert (job.queueing_s, job.preemptions, job.gpu_seconds) == pytest.approx((0, 0, 10004))


def test_two_jobs_take_turns_on_one_gpu(workload_of: Make) -> None:
    turns = get_scheduler("dally", lease_s=1000.0, checkpoint_s_per_gpu=10.0)
    run = ap.simulate(turns, workload_of([5000, 5000]), ONE_GPU, network="none")
    # Leases start every 1010 s in turn; the first job's fifth one at 8080, the second's at 9080.
    assert run.jobs.completion_s.tolist() == pytest.approx([9080, 10080])
    assert run.jobs.preemptions.tolist() == [4, 4]
    assert run.jobs.queueing_s.tolist() == pytest.approx([4 * 1010, 1010 * 4 + 1000])
    assert run.summary()["preemptions"] == run.rounds.preemptions.sum() == 8


def test_an_arrival_waits_for_the_end_of_the_present_lease(workload_of: Make) -> None:
    leases = get_scheduler("dally", lease_s=1000.0, checkpoint_s_per_gpu=10.0)
    load = workload_of([9000, 500], arrival_s=[0, 2500])
    jobs = ap.simulate(leases, load, ONE_GPU, network="none").jobs
    # Leases start at 0, 1010 and 2020; the third ends at 3020 and its GPU is free at 3030.
    assert jobs.start_s.tolist() == [0, 3030]
    assert jobs.completion_s.tolist() == pytest.approx([3530 + 6000 + 5 * 10, 3530])


def test_the_machine_timer_wakes_a_waiting_job(workload_of: Make, network: NetworkModel) -> None:
    patient = get_scheduler("dally_manual", machine_s=500.0, rack_s=800.0, lease_s=1e6)
    racks = Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=4)
    load = workload_of([9000, 9000, 100], [3, 3, 2], [0, 0, 10])
    jobs = ap.simulate(patient, load, racks, network=network).jobs
    assert jobs.start_s.tolist() == [0, 0, 510]
    assert jobs.rack_s.tolist() == pytest.approx([0, 0, 200])


@dataclass(frozen=True)
class ByModel:
    """Overheads by model: those that wait for nobody come first by their priority."""

    name: str = "by model"

    def overhead(self, job_type: str, shape: Shape) -> float:
        return {"VGG11": 9.0, "ResNet50": 1.0}[job_type]


def test_a_job_over_a_rack_leaves_it_at_the_end_of_its_lease(workload_of: Make) -> None:
    # Its wait starts anew, so it holds out for a machine though nobody else wants its GPUs.
    racks = Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=4)
    load = workload_of([90000, 90000, 1500], [3, 3, 2], job_type=["VGG11", "VGG11", "ResNet50"])
    plain = get_scheduler("dally_manual", machine_s=500.0, lease_s=1000.0, checkpoint_s_per_gpu=0.0)
    job = ap.simulate(plain, load, racks, network=ByModel()).jobs.iloc[2]
    # Three leases of 1000 s, each of 500 steps, and 500 s of waiting before each.
    assert job.completion_s == pytest.approx(3 * 1500)
    assert (job.preemptions, job.queueing_s) == (2, 1500)


def test_gandiva_moves_a_running_job_when_a_rack_becomes_free(
    workload_of: Make, network: NetworkModel
) -> None:
    # Until 125 there are no more than 1 or 2 GPUs free on any machine: the gang of 5 gets them all.
    load = workload_of([100, 100, 100, 100, 800], [3, 3, 3, 2, 5], [0, 0, 0, 0, 1])
    run = ap.simulate("gandiva", load, SMALL, network=network)
    job = run.jobs.iloc[4]
    assert job.network_s == pytest.approx(124)
    # It has done 124 / 8 steps by then, and runs 8 / 2 times as fast from then on.
    assert job.completion_s == pytest.approx(125 + (800 - 124 / 8) * 2)
    assert job.rack_s == pytest.approx(job.completion_s - 125)
    assert job.preemptions == 1


def test_rounds_add_up_to_the_jobs(random_workload: Make, network: NetworkModel) -> None:
    run = ap.simulate("dally", random_workload(1), SMALL, network=network)
    rounds, jobs = run.rounds, run.jobs
    assert rounds.gpu_busy.sum() == pytest.approx(jobs.gpu_seconds.sum())
    for tier in ("machine", "rack", "network"):
        seconds = (jobs[f"{tier}_s"] * jobs.scale_factor).sum()
        assert rounds[f"{tier}_gpus"].sum() == pytest.approx(seconds)
    length_s = rounds.end_s - rounds.start_s
    assert (rounds.active_jobs * length_s).sum() == pytest.approx(jobs.jct_s.sum())
    assert (rounds.running_jobs * length_s).sum() == pytest.approx(jobs.gpu_s.sum())
    assert rounds.preemptions.sum() == jobs.preemptions.sum() > 0
    assert (rounds.start_s.iloc[1:].to_numpy() == rounds.end_s.iloc[:-1].to_numpy()).all()
    assert (rounds.gpu_busy <= length_s * 16 * (1 + 1e-9)).all()


class LastOverARack(JobQueue):
    """The last job that waits has GPUs of a whole rack, in several machines."""

    def first(self, now_s: float, room: Sequence[int]) -> Candidate | None:
        waiting = self.waiting(room)
        if not waiting.job.size or room[RACK] < 8:
            return None
        return Candidate(waiting.job.item(-1), 0, RACK, RACK)

    def next_change_s(self, now_s: float, room: Sequence[int]) -> float:
        return np.inf


def test_a_queue_of_ones_own_says_who_is_first(workload_of: Make) -> None:
    @dataclass(frozen=True, repr=False)
    class RacksOnly(OfferScheduler):
        def queue(self) -> JobQueue:
            return LastOverARack()

    load = workload_of([100, 100, 100], [8, 8, 8])
    jobs = ap.simulate(RacksOnly("racks_only"), load, SMALL, network="none").jobs
    assert jobs.start_s.tolist() == [100, 0, 0]
    assert jobs.rack_s.tolist() == [100, 100, 100]


def test_jobs_that_accept_nothing_for_ever_are_an_error(workload_of: Make) -> None:
    class Nobody(LastOverARack):
        def first(self, now_s: float, room: Sequence[int]) -> Candidate | None:
            return None

    @dataclass(frozen=True, repr=False)
    class Unserved(OfferScheduler):
        def queue(self) -> JobQueue:
            return Nobody()

    with pytest.raises(SolveError, match=r"'unserved' gives none of the 1 active jobs any time"):
        ap.simulate(Unserved("unserved"), workload_of([1.0]), SMALL, network="none")


def test_what_cannot_be_simulated_is_named_before_anything_runs(workload_of: Make) -> None:
    load = workload_of([1e9, 10], [1, 17])
    with pytest.raises(InputError, match=r"Job 1 .*scale factor 17\) needs more GPUs"):
        ap.simulate("dally", load, SMALL)
    load = workload_of([1e9, 10], [1, 2], job_type="MyNet")
    with pytest.raises(InputError, match="'MyNet'"):
        ap.simulate("dally", load, SMALL)
    with pytest.raises(InputError, match="'MyNet'"):
        ap.simulate("tiresias", load, SMALL)
    load = workload_of([10.0])
    with pytest.raises(InputError, match=r"throughput.*'v100'|'v100'.*throughput"):
        ap.simulate("dally", load, "gpu=8,v100=8")
    with pytest.raises(InputError, match="multiple of 4"):
        ap.simulate("dally", load, "gpu=10")
    with pytest.raises(InputError, match="Unknown scheduler 'dalli'"):
        ap.simulate("dalli", load, SMALL)
    slow = get_scheduler("dally", restore_s_per_gpu=2000.0)
    with pytest.raises(
        InputError, match=r"restore_s_per_gpu.*job 0 would lose 4000 s.*less than 3600"
    ):
        ap.simulate(slow, workload_of([10.0], 2), SMALL, network="none")


@pytest.mark.parametrize(("largest", "rack_s", "jct_s"), [(1.0, 100.0, 100.0), (9.0, 0.0, 590.0)])
def test_tiresias_consolidates_by_the_tensors_of_a_profile(
    workload_of: Make, largest: float, rack_s: float, jct_s: float
) -> None:
    """Two machines with a GPU free: only a model without a large tensor spreads over them."""
    sizes = (1.0, 1.0, 1.0, largest)  # skew 1/4, or 3/4
    parts = tuple(Layer("part", 1.0, 0.0, 1.0, Exchange("all_reduce", size)) for size in sizes)
    links = Dimension("rack", "switch", 1e18)
    network = AnalyticNetwork(
        "mine",
        Interconnect((replace(links, tier="machine"),), links, replace(links, tier="network")),
        {"MyNet": ModelProfile("MyNet", parts), **model_profiles()},
    )
    load = workload_of([500, 500, 100], [3, 3, 2], [0, 0, 10], ["ResNet50"] * 2 + ["MyNet"])
    racks = Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=4)
    mine = ap.simulate("tiresias", load, racks, network=network).jobs.iloc[2]
    assert (mine.rack_s, mine.jct_s) == pytest.approx((rack_s, jct_s))
