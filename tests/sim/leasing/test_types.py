"""Leases on racks of several accelerator types: offers, and policies over (type, tier)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled
from tests.sim.leasing.one_by_one import leased

import apportion as ap
from apportion.cluster import TIERS, Cluster
from apportion.mechanism.deciders import get_scheduler, scheduler_table
from apportion.sim import Workload, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.sim.network import NetworkModel

pytestmark = pytest.mark.usefixtures("free_starts")

SCHEDULERS: list[str] = scheduler_table("leases")["name"].tolist()
TWO = Cluster.of_racks({"v100": 2, "k80": 1}, machines_per_rack=2, gpus_per_machine=4)
ONE_MACHINE_EACH = Cluster.of_racks({"v100": 1, "k80": 1}, machines_per_rack=1, gpus_per_machine=4)
ONE_RACK_EACH = Cluster.of_racks({"v100": 1, "k80": 1}, machines_per_rack=2, gpus_per_machine=4)


def jobs_of(
    rows: Sequence[tuple[float, int, float]], job_type: Sequence[str] | str = "ResNet50"
) -> Workload:
    """Jobs of (arrival_s, scale_factor, total_steps): 2 steps/s on a V100, 1 on a K80.

    VGG11 does not run on a K80.
    """
    jobs = pd.DataFrame(rows, columns=["arrival_s", "scale_factor", "total_steps"])
    jobs = jobs.assign(job_type=job_type)
    gangs = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]].drop_duplicates())
    speeds = pd.DataFrame({"v100": 2.0, "k80": 1.0}, index=gangs)
    speeds.loc[gangs.get_level_values(0) == "VGG11", "k80"] = 0.0
    return Workload("by hand", jobs, speeds)


def checked(
    decider: Any, workload: Workload, cluster: Cluster, network: NetworkModel, **settings: Any
) -> ap.Run:
    run = simulate(decider, workload, cluster, mechanism="leases", network=network, **settings)
    ap.check_schedule(run, workload, cluster, network=network)
    return run


def at_once(**parts: Any) -> Any:
    return get_scheduler("dally_no_wait", checkpoint_s_per_gpu=0.0, **parts)


def test_a_job_takes_the_type_and_tier_on_which_it_is_fastest(network: NetworkModel) -> None:
    # Overheads 1/4, 1 and 7: a step takes 0.625 s in a V100 machine, 1 s in a rack, 4 s over
    # racks, and 1.25 s in a K80 machine. Four gangs of 3 leave one GPU on each V100 machine.
    load = jobs_of([(0, 3, 1000)] * 5 + [(1, 2, 100)])
    run = checked(at_once(), load, TWO, network)
    first = run.schedule.drop_duplicates("job").set_index("job").sort_index()
    assert first.accelerator.tolist() == ["v100"] * 4 + ["k80", "v100"]
    assert first.machines.tolist()[4:] == [(0,), (0, 1)]  # the gang of 2 lies in a rack
    jobs = run.jobs
    np.testing.assert_allclose(jobs.completion_s, [625, 625, 625, 625, 1250, 101])
    np.testing.assert_allclose(jobs.compute_s, [500, 500, 500, 500, 1000, 50])
    np.testing.assert_allclose(jobs.communication_s, [125, 125, 125, 125, 250, 50])
    np.testing.assert_allclose(jobs.v100_s, [625, 625, 625, 625, 0, 100])
    np.testing.assert_allclose(jobs.k80_s, [0, 0, 0, 0, 1250, 0])
    np.testing.assert_allclose(jobs.rack_s, [0, 0, 0, 0, 0, 100])
    busy = run.rounds[["v100_busy", "k80_busy"]].sum()
    assert busy.tolist() == pytest.approx([4 * 3 * 625 + 200, 3 * 1250])
    by_tier = run.rounds[[f"{tier}_gpus" for tier in TIERS]].sum()
    assert by_tier.tolist() == pytest.approx([4 * 3 * 625 + 3 * 1250, 200, 0])


@pytest.mark.parametrize(("full", "kind", "start_s"), [(True, "v100", 100), (False, "k80", 1)])
def test_timers_are_by_tier_whatever_the_type(
    network: NetworkModel, full: bool, kind: str, start_s: float
) -> None:
    # One GPU is free on each V100 machine and, if full, on each K80 machine. A job that holds out
    # for a machine of any type takes one at once, be it a K80; else a rack after its timer, of
    # which that of V100s is faster.
    crowd = [(0, 3, 10000)] * (6 if full else 5)
    load = jobs_of([*crowd, (1, 2, 100)])
    scheduler = get_scheduler("dally_manual", machine_s=99.0, rack_s=5000.0)
    run = checked(scheduler, load, TWO, network)
    stay = run.schedule[run.schedule.job == len(crowd)].iloc[0]
    assert (stay.accelerator, stay.start_s) == (kind, start_s)
    assert stay.machines == ((0, 1) if full else (1,))


def test_a_type_on_which_a_job_cannot_run_is_never_taken(network: NetworkModel) -> None:
    load = jobs_of([(0, 4, 800), (1, 4, 800), (2, 4, 800)], ["VGG11", "VGG11", "ResNet50"])
    jobs = checked(at_once(), load, ONE_MACHINE_EACH, network).jobs
    # The second waits for the V100s though the K80s are free; the third takes these.
    np.testing.assert_allclose(jobs.completion_s, [500, 1000, 1002])
    assert jobs.k80_s.tolist() == [0, 0, 1000]
    both = Cluster.of_racks({"v100": 1, "k80": 3}, machines_per_rack=1, gpus_per_machine=4)
    large = jobs_of([(0, 12, 80)], "VGG11")  # 12 GPUs there are of K80s only
    with pytest.raises(ap.InputError, match="needs more GPUs"):
        ap.simulate("dally", large, both, network=network)


def test_a_job_moves_to_the_faster_type_when_it_is_free(network: NetworkModel) -> None:
    load = jobs_of([(0, 4, 500), (1, 4, 1000)])
    run = checked(at_once(migrates=True), load, ONE_MACHINE_EACH, network)
    # At 312.5 s the second has done 311.5 * 0.8 = 249.2 steps; the others at 1.6 a second.
    second: Any = run.jobs.loc[1]
    assert second.completion_s == pytest.approx(312.5 + 750.8 / 1.6)
    assert (second.v100_s, second.k80_s) == pytest.approx((750.8 / 1.6, 311.5))
    assert second.compute_s == pytest.approx(249.2 + 750.8 / 2)
    assert second.communication_s == pytest.approx(second.compute_s / 4)
    assert second.preemptions == 1


def test_a_job_moves_to_the_faster_type_at_the_end_of_a_lease(network: NetworkModel) -> None:
    load = jobs_of([(0, 4, 500), (0, 4, 1000)])
    scheduler = get_scheduler("dally_no_wait", lease_s=300.0)
    run = checked(scheduler, load, ONE_MACHINE_EACH, network)
    # Both pause 4 s after 300 s, having done 480 and 240 steps. Most slowed is the second, by the
    # slow type: it chooses first and makes 480 more on the V100s, and the rest after a pause. The
    # first does its last 20 on the K80s.
    np.testing.assert_allclose(run.jobs.completion_s, [304 + 20 / 0.8, 608 + 280 / 1.6])
    assert run.jobs.loc[[1], ["v100_s", "k80_s"]].to_numpy()[0].tolist() == pytest.approx(
        [479, 304]
    )


def test_a_policy_gives_types_and_tiers_to_those_that_gain_most(network: NetworkModel) -> None:
    # Steps/s: a gang of 8 in a rack 1 on V100s and 0.5 on K80s; gangs of 4 in machines 1.6 and
    # 0.8. Most steps are made with the small ones on the V100s; Dally, in order, has it otherwise.
    load = jobs_of([(0, 8, 1000), (0, 4, 1600), (0, 4, 1600)])
    dally = checked(at_once(), load, ONE_RACK_EACH, network)
    assert dally.jobs.v100_s.tolist() == pytest.approx([1000, 0, 0])
    assert dally.jobs.k80_s.tolist() == pytest.approx([0, 2000, 2000])
    run = checked("max_total_throughput", load, ONE_RACK_EACH, network, lease_seconds=20000.0)
    assert run.jobs.v100_s.tolist() == pytest.approx([0, 1000, 1000])
    assert run.jobs.k80_s.tolist() == pytest.approx([2000, 0, 0])
    assert run.jobs.rack_s.tolist() == pytest.approx([2000, 0, 0])


def test_a_type_that_nobody_can_use_changes_nothing(
    random_workload: Callable[..., Workload], network: NetworkModel
) -> None:
    load = random_workload(3)
    one = Cluster.of_racks(2, machines_per_rack=4, gpus_per_machine=4)
    two = Cluster.of_racks({"useless": 2, "gpu": 2}, machines_per_rack=4, gpus_per_machine=4)
    wider = Workload(load.name, load.jobs, load.throughputs.assign(useless=0.0))
    for name in ("dally", "tiresias", "gandiva"):
        alone = ap.simulate(name, load, one, network=network)
        beside = ap.simulate(name, wider, two, network=network)
        columns = ["start_s", "completion_s", "gpu_s", "preemptions", *(f"{t}_s" for t in TIERS)]
        pd.testing.assert_frame_equal(alone.jobs[columns], beside.jobs[columns], check_exact=True)
        pd.testing.assert_frame_equal(alone.schedule, beside.schedule, check_exact=True)
        assert (beside.jobs.useless_s == 0).all()


VARIANTS = {
    **{name: get_scheduler(name) for name in SCHEDULERS},
    "moved": get_scheduler("dally_no_wait", migrates=True, restore_s_per_gpu=3.0, lease_s=700.0),
    "random": get_scheduler("dally", placement="random"),
}


@pytest.mark.parametrize("variant", sampled(VARIANTS, 3))
def test_random_jobs_hold_what_they_compute_and_leases_need_not_be_told_apart(
    random_workload: Callable[..., Workload], network: NetworkModel, variant: str
) -> None:
    seed = sorted(VARIANTS).index(variant)
    load, rng = random_workload(seed, jobs=16), np.random.default_rng(seed)
    fits = load.jobs[load.jobs["scale_factor"] <= 8]
    speeds = load.throughputs["gpu"]
    types = {"v100": speeds, "k80": speeds * rng.choice([0.0, 0.25, 0.5, 1.0], len(speeds))}
    load = Workload("two types", fits, pd.DataFrame(types))
    runs = [
        leased(VARIANTS[variant], *(load, TWO), network=network, seed=1, every=every)
        for every in (False, True)
    ]
    ap.check_schedule(runs[0], load, TWO, network=network)
    pd.testing.assert_frame_equal(runs[0].jobs, runs[1].jobs, rtol=1e-9)
    jobs = runs[0].jobs
    held = jobs[["v100_s", "k80_s"]].sum(axis=1)
    np.testing.assert_allclose(jobs[[f"{tier}_s" for tier in TIERS]].sum(axis=1), held)
    assert (jobs.compute_s + jobs.communication_s <= held * (1 + 1e-9)).all()
    swapped = ap.simulate(
        VARIANTS[variant],
        *(load, Cluster.of_racks({"k80": 1, "v100": 2}, machines_per_rack=2, gpus_per_machine=4)),
        network=network,
        seed=1,
    )
    assert list(swapped.jobs.columns).index("k80_s") < list(swapped.jobs.columns).index("v100_s")
    pd.testing.assert_frame_equal(swapped.jobs[jobs.columns], jobs, check_exact=True)
