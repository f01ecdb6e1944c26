"""The program as placements ask it: no worse than the host, and room is kept where gangs wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import Gang
from apportion.mechanism.time_shifts import LinkScores
from apportion.sim.network import get_network
from apportion.sim.network.cassini import CassiniNetwork
from apportion.sim.network.model import pace_of
from apportion.sim.shifts.placement_program import PlacementProgram

RACKS, WIDE = 5, 3
CLUSTER = ap.Cluster({"a100": RACKS * WIDE}, gpus_per_machine=1, machines_per_rack=WIDE)
MODELS = {
    name: ap.CommunicationProfile(name, 0.24, [(0.0, duty * 0.24, 50.0)])
    for name, duty in (("third", 1 / 3), ("half", 0.5), ("most", 0.7))
}


def lost(links: Any, placed: dict[int, Any], models: dict[int, str]) -> float:
    """Sum of what jobs lose by their worst links, link by link by the law itself."""
    jobs_of: dict[Any, list[int]] = {}
    for job, where in placed.items():
        for link in links.links_of(where):
            jobs_of.setdefault(link, []).append(job)
    gbps = {link: many for where in placed.values() for link, many in links.links_of(where).items()}
    trained = {job: (models[job], 2) for job in placed}
    worst = dict.fromkeys(placed, 1.0)
    for link, score in links.scores.of_links(jobs_of, trained, gbps).items():
        worst |= {job: min(worst[job], score) for job in jobs_of[link]}
    return sum(1 - score for score in worst.values())


def room(free: np.ndarray) -> list[int]:
    """Gangs of each size for which racks have room."""
    return [int((free.sum(axis=1) // size).sum()) for size in range(1, WIDE + 1)]


@pytest.mark.parametrize(
    "seeds", [range(6), pytest.param(range(6, 60), marks=pytest.mark.thorough)]
)
def test_no_worse_than_the_host_and_room_is_kept(seeds: range) -> None:
    gained = kept = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        network = get_network(CassiniNetwork(profiles=MODELS, oversubscription=3), cluster=CLUSTER)
        placer = Placer(CLUSTER, "cassini_program", seed, pace=pace_of(network))
        links: Any = pace_of(network)
        models = {job: str(rng.choice([*MODELS])) for job in range(6)}
        for job in range(4):  # wherever something is free
            gang = Gang(job, 2, model=models[job])
            devices = rng.choice(placer.pools[0].free_devices, 2, replace=False).tolist()
            placer._hold(gang, sorted(devices))
            placer.remember(job, models[job])
        tiers = (2, 2) if seed % 2 else None
        free = placer.pools[0].free_devices
        gangs = [
            Gang(job, 2, model=models[job], tiers=tiers, before=tuple(free[2 * at : 2 * at + 2]))
            for at, job in enumerate((4, 5))
        ]
        wheres = placer.together(gangs)
        pool = placer.pools[0]
        others = {job: pool.placement(placer.held[job][1]) for job in range(4)}
        host = {gang.job: pool.placement(gang.before or ()) for gang in gangs}
        found = {gang.job: where for gang, where in zip(gangs, wheres, strict=True)}
        before, now = (lost(links, {**others, **each}, models) for each in (host, found))
        assert now <= before + 1e-9, seed
        gained += now < before - 1e-9
        if tiers:
            left = []
            for each in (host, found):
                free_now = pool.free.copy()
                for where in each.values():
                    for rack, machine, gpus in where:
                        free_now[rack, machine] -= gpus
                assert (free_now >= 0).all(), seed
                left.append(room(free_now))
            assert all(new >= old for old, new in zip(*left, strict=True)), seed
            kept += host != found
    assert gained
    if len(seeds) > 10:
        assert kept


@pytest.mark.parametrize("model", ["silent", "third"])
def test_who_sends_nothing_stays_where_the_host_has_it(model: str) -> None:
    profiles = {**MODELS, "silent": ap.CommunicationProfile("silent", 0.24, [])}
    program = PlacementProgram(
        lambda name, _: profiles[name], LinkScores(lambda name, _: profiles[name]), 0.0
    )
    crowded, idle = ((0, 3, 1), (1, 3, 1)), ((2, 0, 1), (3, 0, 1))
    others = {job: ((0, job, 1), (1, job, 1)) for job in range(2)}
    found = program.placed(
        [{2: crowded}, {2: idle}],
        others,
        {0: ("most", 2), 1: ("most", 2), 2: (model, 2)},
        {(rack, machine): 1 for rack, machine, _ in crowded + idle},
        lambda where: {f"rack {rack}": 50.0 for rack, _, _ in where},
    )
    assert found == {2: crowded if model == "silent" else idle}


@pytest.mark.parametrize("gpus", [2, 3])
def test_room_is_kept_for_sizes_that_there_are(gpus: int) -> None:
    """Racks of two: a whole one is kept where there is a gang of two, not where all have three."""
    program = PlacementProgram(
        lambda name, _: MODELS[name], LinkScores(lambda name, _: MODELS[name]), 0.0
    )
    meets, alone = ((0, 1, 1), (1, 0, 1), (1, 1, 1)), ((1, 0, 1), (1, 1, 1), (2, 0, 1))
    other = ((0, 0, 1), (3, 0, 1), (3, 1, 1))[:gpus]
    found = program.placed(
        [{1: meets}, {1: alone}],
        {0: other},
        {0: ("most", gpus), 1: ("most", 3)},
        {(0, 1): 1, (1, 0): 1, (1, 1): 1, (2, 0): 1, (2, 1): 1},
        lambda where: {f"rack {rack}": 50.0 for rack, _, _ in where},
        keeps_room=True,
    )
    assert found == {1: meets if gpus == 2 else alone}
