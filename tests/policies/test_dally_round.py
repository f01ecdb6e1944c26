"""Dally's round as a program, against enumeration and against Algorithm 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from tests.oracles.dally_round import Cluster, Waiting, algorithm_1, eligible, lexicographic, ranks
from tests.oracles.draw_whole import ROUNDS, draw_round
from tests.seeds import sampled

import apportion as ap
from apportion.cluster import TIERS as NAMES
from apportion.policies import solve_instance
from apportion.policies.dally_round import DallyRound
from apportion.sim.tiers.round_places import RoundPlaces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from tests.oracles.dally_round import Option

TIERS = 3


def decided(
    cluster: Cluster, jobs: Sequence[Waiting]
) -> tuple[dict[int, Option | None], NDArray[np.intp], RoundPlaces]:
    """Ask the policy; return (type, tier) by job, and what the places are made of."""
    places, types = RoundPlaces.of([np.array(racks) for racks in cluster.free]), len(cluster.free)
    speed = np.zeros((len(jobs), types * TIERS))
    for row, job in enumerate(jobs):
        for kind in range(types):
            for tier in eligible(job, cluster):
                speed[row, kind * TIERS + tier] = job.speed[kind][tier]
    columns = {
        "network_priority": np.array([job.priority for job in jobs]),
        "waited_s": np.array([100.0 - job.released for job in jobs]),
        "order": np.array([float(job.name) for job in jobs]),
    }
    scale = np.array([job.gpus for job in jobs])
    solution = solve_instance(DallyRound(), places.problem(speed, scale, columns))
    assert solution.status == "optimal"
    option = np.where(solution.X.any(axis=1), solution.X.argmax(axis=1), -1)
    found = {
        job.name: None if at < 0 else (int(places.kind[at]), int(places.tier[at]))
        for job, at in zip(jobs, option, strict=True)
    }
    check_devices(cluster, jobs, option, places)
    return found, option, places


def check_devices(
    cluster: Cluster, jobs: Sequence[Waiting], option: NDArray[np.intp], places: RoundPlaces
) -> None:
    """Every gang has its GPUs, within its tier, and nobody's twice."""
    held: dict[tuple[int, int, int], int] = {}
    scale = np.array([job.gpus for job in jobs])
    for job, taken, at in zip(jobs, places.devices(option, scale), option, strict=True):
        assert (taken is None) == (at < 0)
        if taken is None:
            continue
        assert sum(gpus for _, _, gpus in taken.where) == job.gpus
        assert len(taken.where) == 1 or places.tier[at] > 0
        assert len({rack for rack, _, _ in taken.where}) == 1 or places.tier[at] == 2
        for rack, machine, gpus in taken.where:
            place = taken.kind, rack, machine
            held[place] = held.get(place, 0) + gpus
    for (kind, rack, machine), gpus in held.items():
        assert gpus <= cluster.free[kind][rack][machine]


@pytest.mark.parametrize("kind", sampled(ROUNDS, 2))
def test_equals_enumeration(kind: str) -> None:
    for seed in range(25):
        cluster, jobs = draw_round(seed, kind)
        found, _, _ = decided(cluster, jobs)
        best = lexicographic(cluster, jobs)
        assert ranks(cluster, jobs, found) == ranks(cluster, jobs, best), (kind, seed)
        assert ranks(cluster, jobs, found) <= ranks(cluster, jobs, algorithm_1(cluster, jobs))


def test_order_of_jobs_does_not_matter() -> None:
    for seed in range(30):
        cluster, jobs = draw_round(seed, "blocking")
        shuffled = [jobs[at] for at in np.random.default_rng(seed).permutation(len(jobs))]
        a, b = decided(cluster, jobs)[0], decided(cluster, shuffled)[0]
        assert ranks(cluster, jobs, a) == ranks(cluster, jobs, b)


def test_a_best_fit_in_the_way() -> None:
    """Best fit puts the first 2 on the machine of 3, so that 3 waits; here all three run."""
    cluster = Cluster((((4, 3),),), 4, 8)
    jobs = [Waiting(j, n, 0, 12, 24, j) for j, n in enumerate((2, 2, 3))]
    assert algorithm_1(cluster, jobs)[2] is None
    found, option, places = decided(cluster, jobs)
    assert None not in found.values()
    assert places.machine[option].tolist() == [0, 0, 1]


def test_with_labels_nothing_is_printed_that_is_no_number() -> None:
    """Places in an order have no prices; of jobs that came together the first id comes first."""
    tiers = pd.MultiIndex.from_product([["v100"], NAMES], names=["accelerator", "tier"])
    speed = pd.DataFrame([[4.0, 3.0, 2.0]] * 2, index=["a", "b"], columns=tiers)
    rack = ap.Cluster({"v100": 4}, machines_per_rack=1)
    for arrival_s, first in (([0.0, 0.0], "a"), ([1.0, 0.0], "b")):
        jobs = {"scale_factor": 3, "arrival_s": arrival_s}
        found = ap.solve("dally_round", speed, workers=rack, jobs=jobs)
        assert found.choice.dropna().to_dict() == {first: ("v100", "machine")}
        assert found.prices.isna().all()
        assert "nan" not in repr(found).lower()
        assert "price" not in repr(found)


def test_no_time_is_said() -> None:
    """Without any time to search later jobs take what is free, and the status says so."""
    cluster = Cluster((((4, 3),),), 4, 8)
    places = RoundPlaces.of([np.array(racks) for racks in cluster.free])
    speed, scale = np.ones((3, TIERS)) * [1, 0, 0], np.array([2, 2, 3])
    columns = {"network_priority": np.zeros(3), "waited_s": np.zeros(3), "order": np.arange(3.0)}
    problem = places.problem(speed, scale, columns)
    solution = solve_instance(DallyRound(), problem, time_limit_s=1e-9)
    assert solution.status == "time_limit"
    assert solution.X.any(axis=1).tolist() == [True, True, False]


def test_without_regard_to_types_the_first_type_does_as_well_as_a_faster_one() -> None:
    """Speeds are told as if types were alike; what the jobs make is at the speeds they have."""
    places = RoundPlaces.of([np.array([[2, 2]]), np.array([[2, 2]])])
    speed, scale = np.array([[1.0, 1.0, 1.0, 5.0, 5.0, 5.0]] * 3), np.array([2, 2, 2])
    columns = {"network_priority": np.zeros(3), "waited_s": np.zeros(3), "order": np.arange(3.0)}
    problem = places.problem(speed, scale, columns)
    kinds = {}
    for aware in (True, False):
        solution = solve_instance(DallyRound(heterogeneity_aware=aware), problem)
        at = solution.X.argmax(axis=1)
        assert (places.tier[at] == 0).all()
        kinds[aware] = places.kind[at].tolist()
        assert solution.throughput.tolist() == [(1.0, 5.0)[kind] for kind in kinds[aware]]
    assert kinds == {True: [1, 1, 0], False: [0, 0, 1]}
