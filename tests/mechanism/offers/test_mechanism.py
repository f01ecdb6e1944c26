from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mechanism.offers.without_a_run import Alone
from tests.seeds import sampled

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.mechanism.deciders import get_scheduler, scheduler_table
from apportion.mechanism.scheduler import MACHINE, RACK

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEDULERS: list[str] = scheduler_table("leases")["name"].tolist()
HOUR_S = 3600.0


def book(mechanism: Alone, job: int, compute_s: float, run_s: float) -> None:
    mechanism.ran(np.array([job]), np.array([compute_s]), np.array([run_s]))


def test_delay_timers_by_hand(bench: Callable[..., Any]) -> None:
    table = bench("dally", [[2, 2], [1, 0]])
    job = table.arrive(4)
    assert table.offer(11.9 * HOUR_S) == {}
    assert table.mechanism.next_change_s(11.9 * HOUR_S) == 12 * HOUR_S
    assert table.offer(12 * HOUR_S) == {job: ((0, 0, 2), (0, 1, 2))}
    assert table.mechanism.timers.waits_s(RACK, 4).tolist() == [12 * HOUR_S]


def test_the_rack_timer_counts_from_the_same_start(bench: Callable[..., Any]) -> None:
    table = bench("dally_manual", [[2, 1], [1, 0]])
    job = table.arrive(4)
    assert table.offer(12 * HOUR_S) == {}
    assert table.offer(23.9 * HOUR_S) == {}
    assert table.mechanism.next_change_s(23.9 * HOUR_S) == 24 * HOUR_S
    assert table.offer(24 * HOUR_S) == {job: ((0, 0, 2), (0, 1, 1), (1, 0, 1))}


@pytest.mark.parametrize("waited_s", [0.0, 5 * HOUR_S, 100 * HOUR_S])
def test_a_machine_is_accepted_after_any_wait(bench: Callable[..., Any], waited_s: float) -> None:
    table = bench("dally", [[0, 4], [4, 4]])
    job = table.arrive(4)
    assert table.offer(waited_s) == {job: ((0, 1, 4),)}
    assert table.mechanism.timers.waits_s(MACHINE, 4).tolist() == [waited_s]


def test_a_gang_larger_than_a_machine_takes_a_rack_at_once(bench: Callable[..., Any]) -> None:
    table = bench("dally_manual", [[3, 3], [1, 0]])
    job = table.arrive(6)
    assert table.offer(0.0) == {job: ((0, 0, 3), (0, 1, 3))}


def test_a_gang_larger_than_a_machine_waits_for_a_rack(bench: Callable[..., Any]) -> None:
    table = bench("dally_manual", [[3, 2], [1, 0]])
    job = table.arrive(6)
    assert table.offer(0.0) == table.offer(23.9 * HOUR_S) == {}
    assert set(table.offer(24 * HOUR_S)) == {job}


def test_a_gang_larger_than_a_rack_takes_several_at_once(bench: Callable[..., Any]) -> None:
    table = bench("dally_manual", [[4, 4], [2, 0]])
    job = table.arrive(10)
    assert set(table.offer(0.0)) == {job}


def test_a_rejection_does_not_block_the_next_job(bench: Callable[..., Any]) -> None:
    cluster = Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=8)
    mechanism = Alone(get_scheduler("dally"), cluster, room=3)
    mechanism.holdings.hold(-1, 0, ((0, 1, 6),))
    sizes = {"a": 8, "b": 8, "c": 2}
    jobs = {
        name: mechanism.arrive(0.0, scale_factor=gpus, job_type="m", ideal_s=1e5)
        for name, gpus in sizes.items()
    }
    mechanism.jobs.compute_s[:] = [200.0, 0.0, 900.0]
    mechanism.jobs.run_s[:, 1] = [1000.0, 0.0, 1000.0]
    assert [lease.job for lease in mechanism.offer(0.0)] == [jobs["b"], jobs["c"]]
    assert np.flatnonzero(mechanism.jobs.waiting).tolist() == [jobs["a"]]


def test_ties_go_to_the_earlier_release_then_to_the_earlier_job(bench: Callable[..., Any]) -> None:
    table = bench("dally", [[0, 0], [0, 0]])
    late, first, second = table.arrive(4, 5.0), table.arrive(4, 1.0), table.arrive(4, 1.0)
    served = []
    for _ in range(3):
        table.set_free([[4, 0], [0, 0]])
        served += list(table.offer(10.0))
        table.mechanism.complete(served[-1])
    assert served == [first, second, late]


def test_the_wait_starts_anew_at_the_end_of_a_lease(bench: Callable[..., Any]) -> None:
    table = bench("dally_manual", [[2, 2], [0, 0]])
    job = table.arrive(4)
    assert set(table.offer(12 * HOUR_S)) == {job}
    table.mechanism.release(job, 13 * HOUR_S)
    assert table.offer(13 * HOUR_S) == {}
    assert table.mechanism.next_change_s(13 * HOUR_S) == 25 * HOUR_S
    assert set(table.offer(25 * HOUR_S)) == {job}


def test_a_job_that_goes_on_at_once_has_the_same_gpus(bench: Callable[..., Any]) -> None:
    table = bench("dally_manual", [[0, 0], [0, 3]])
    job = table.arrive(2)
    assert table.offer(0.0) == {job: ((1, 1, 2),)}
    table.set_free([[2, 0], [0, 1]])
    table.mechanism.release(job, HOUR_S)
    (lease,) = table.mechanism.offer(HOUR_S)
    assert (lease.placement, lease.continued) == (((1, 1, 2),), True)


@pytest.mark.parametrize(
    ("name", "model", "gpus", "taken"),
    [
        ("tiresias", "VGG11", 4, None),
        ("tiresias", "ResNet50", 4, "rack"),
        ("tiresias", "VGG11", 6, "rack"),
        ("tiresias", "MobileNetV3", 3, None),
        ("dally_no_wait", "VGG11", 4, "rack"),
        ("dally_fully_consolidated", "ResNet50", 4, None),
        ("dally_fully_consolidated", "ResNet50", 6, "rack"),
        ("gandiva", "ResNet50", 4, None),
        ("gandiva", "ResNet50", 6, "any"),
        ("themis", "ResNet50", 4, "rack"),
    ],
)
def test_which_tier_each_rule_takes_at_once(
    bench: Callable[..., Any], name: str, model: str, gpus: int, taken: str | None
) -> None:
    table = bench(name, [[3, 3], [2, 0]] if gpus > 4 else [[2, 2], [2, 0]])
    job = table.arrive(gpus, job_type=model)
    placements = table.offer(0.0)
    assert set(placements) == (set() if taken is None else {job})
    if taken == "rack":
        assert {rack for rack, _, _ in placements[job]} == {0}


def test_gandiva_takes_the_machine_with_most_free_gpus(bench: Callable[..., Any]) -> None:
    table = bench("gandiva", [[2, 3], [4, 0]])
    job = table.arrive(2)
    assert table.offer(0.0) == {job: ((1, 0, 2),)}


def test_running_jobs_move_to_a_tighter_tier_that_is_free_with_their_own_gpus() -> None:
    cluster = Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
    mechanism = Alone(get_scheduler("gandiva"), cluster)
    mechanism.holdings.hold(-1, 0, ((0, 0, 4), (1, 0, 3)))
    job = mechanism.arrive(0.0, scale_factor=6, job_type="m", ideal_s=1.0)
    (lease,) = mechanism.offer(0.0)
    assert lease.tier == 2
    assert mechanism.migrate([job]) == []
    mechanism.holdings.give_back(-1)
    (moved,) = mechanism.migrate([job])
    assert moved.tier == 1
    assert len(moved.placement) == 2
    assert mechanism.migrate([job]) == []


def test_a_job_keeps_its_gpus_unless_one_before_it_takes_them(bench: Callable[..., Any]) -> None:
    keeping = get_scheduler("dally_manual", keep_placement=True)
    table = bench(keeping, [[2, 2], [0, 0]])
    job = table.arrive(4)
    table.offer(12 * HOUR_S)
    book(table.mechanism, job, 100.0, 200.0)
    assert table.mechanism.keeps(job, 13 * HOUR_S)
    large = table.arrive(4, 13 * HOUR_S)
    assert table.mechanism.keeps(job, 14 * HOUR_S)
    assert not table.mechanism.keeps(job, 25 * HOUR_S)
    behind = table.mechanism.jobs
    behind.compute_s[large], behind.run_s[large, 0] = 900.0, 1000.0
    assert table.mechanism.keeps(job, 25 * HOUR_S)
    table.set_free([[0, 0], [4, 0]])
    assert not table.mechanism.keeps(job, 25 * HOUR_S)


def test_a_scheduler_by_the_text_lets_go_of_a_rack_that_the_job_no_longer_accepts(
    bench: Callable[..., Any],
) -> None:
    table = bench("dally_manual", [[2, 2], [0, 0]])
    job = table.arrive(4)
    table.offer(12 * HOUR_S)
    assert not table.mechanism.keeps(job, 13 * HOUR_S)
    assert not table.mechanism.surely_keeps(job, 13 * HOUR_S)


def drive(mechanism: Alone, seed: int, steps: range, *, apart: bool = False) -> list[Any]:
    """Let random jobs come, go and be stopped; the choices follow from the seed and the step.

    Leases end with the offers, or `apart`, each before all are asked again.
    """
    told: list[Any] = []
    for step in steps:
        rng, now_s = np.random.default_rng([seed, step]), step * 1800.0
        holders, ending = sorted(mechanism.held), list[int]()
        for job in holders:
            book(mechanism, job, 1000.0, 1000.0 + 100.0 * mechanism.jobs.tier[job])
        if step % 2 == 0:
            gpus, model = (
                int(rng.choice([1, 2, 3, 4, 6, 8, 12])),
                str(rng.choice(["VGG11", "ResNet50"])),
            )
            mechanism.arrive(now_s, scale_factor=gpus, job_type=model, ideal_s=1e5)
        for job in holders:
            if (draw := rng.random()) < 0.15:
                mechanism.complete(job)
            elif draw < 0.5:
                ending.append(job)
        if apart:
            for job in ending:
                mechanism.release(job, now_s)
            told.append(mechanism.offer(now_s))
        else:
            told.append(mechanism.offer(now_s, ending))
        while moved := mechanism.migrate(sorted(mechanism.held)):
            told += [moved, mechanism.offer(now_s)]
        told.append(mechanism.next_change_s(now_s))
    return told


@pytest.mark.parametrize("name", sorted(SCHEDULERS))
@pytest.mark.parametrize("fit", sampled(["best_fit", "random", "first_fit"], 2))
def test_leases_end_with_the_offers_as_they_do_before(name: str, fit: str) -> None:
    scheduler = replace(get_scheduler(name), placement=fit)
    cluster = Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
    for seed in range(2):
        once, apart = (Alone(scheduler, cluster, seed=seed) for _ in range(2))
        told = drive(once, seed, range(40))
        assert told == drive(apart, seed, range(40), apart=True)
        assert once.placer.held == apart.placer.held
        assert once.held == apart.held


@settings(max_examples=15, deadline=None)
@given(
    name=st.sampled_from(sorted(SCHEDULERS)),
    fit=st.sampled_from(["best_fit", "first_fit", "emptiest", "random"]),
    seed=st.integers(0, 10**6),
)
def test_no_gpu_is_held_twice_and_nobody_left_waiting_would_accept(
    name: str, fit: str, seed: int
) -> None:
    cluster = Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
    mechanism = Alone(get_scheduler(name, placement=fit), cluster, seed=seed)
    for step in range(20):
        drive(mechanism, seed, range(step, step + 1))
        used = np.zeros((2, 2), dtype=int)
        for job, placement in mechanism.held.items():
            assert sum(gpus for _, _, gpus in placement) == mechanism.jobs.told.scale[job]
            for rack, machine, gpus in placement:
                used[rack, machine] += gpus
        assert (used + mechanism.holdings.pools[0].free == 4).all()
        waiting = set(np.flatnonzero(mechanism.jobs.waiting).tolist())
        assert sorted([*waiting, *mechanism.held]) == mechanism.jobs.told.active.tolist()
        assert mechanism.offer(step * 1800.0) == []
        assert mechanism.next_change_s(step * 1800.0) > step * 1800.0


def test_jobs_that_cannot_be_served_are_refused() -> None:
    cluster = Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=4)
    mechanism = Alone(get_scheduler("tiresias"), cluster)
    with pytest.raises(InputError, match=r"scale factor 9.*1 to the 8 GPUs"):
        mechanism.arrive(0.0, scale_factor=9, job_type="VGG11", ideal_s=1.0)
    with pytest.raises(InputError, match=r"'VGG12'.*'VGG11'"):
        mechanism.arrive(0.0, scale_factor=1, job_type="VGG12", ideal_s=1.0)
    with pytest.raises(InputError, match=r"none of type 'b'.*of_racks"):
        Alone(get_scheduler("dally"), Cluster({"a": 8, "b": 0}))
    with pytest.raises(InputError, match="multiple of 8"):
        Alone(get_scheduler("dally"), Cluster({"a": 12}, gpus_per_machine=4, machines_per_rack=2))
