"""Candidates of CASSINI's placement beside every placement of the gangs at the same tiers."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

import apportion as ap
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import Gang
from apportion.mechanism.placements.compatible import Compatible
from apportion.sim.network import get_network, get_topology
from apportion.sim.network.cassini import CassiniNetwork
from apportion.sim.network.model import pace_of
from benchmarks.cassini import scenarios

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from apportion.mechanism.scheduler import Placement

SERVERS = 18
CLUSTER = ap.Cluster({"a100": SERVERS}, gpus_per_machine=1, machines_per_rack=2)
DUTIES = {"most": 0.8, "sixty": 0.6, "half": 0.5, "third": 1 / 3}
PROFILES = {
    name: ap.CommunicationProfile(name, 1.0, [(0.0, duty, 50.0)]) for name, duty in DUTIES.items()
}
NETWORK = CassiniNetwork(profiles=PROFILES, topology=get_topology("cassini"))
PACE = pace_of(get_network(NETWORK, cluster=CLUSTER))

Held = dict[int, tuple[str, list[int]]]


def score_of(held: Held, newest: set[int]) -> float | None:
    """Mean score of the leaves of two servers with several jobs; None with a loop."""
    on: dict[int, set[int]] = {}
    for job, (_, servers) in held.items():
        leaves = {server // 2 for server in servers}
        for leaf in leaves if len(leaves) > 1 else ():
            on.setdefault(leaf, set()).add(job)
    shared = {leaf: jobs for leaf, jobs in on.items() if len(jobs) > 1}
    # Of a leaf of two servers at most two jobs are there: leaves are edges between jobs.
    group = {job: job for job in held}

    def root(job: int) -> int:
        return job if group[job] == job else root(group[job])

    looped: set[int] = set()
    for one, other in map(sorted, shared.values()):
        if root(one) == root(other):
            looped.add(root(one))
        group[root(one)] = root(other)
    parts = {root(each) for each in looped}
    if any(root(job) in parts for job in newest):
        return None
    scores = []
    for jobs in shared.values():
        a, b = (DUTIES[held[job][0]] for job in jobs)
        start_at_random = a * b  # what both send at once, on average
        loss = start_at_random if root(next(iter(jobs))) in parts else max(0.0, a + b - 1)
        scores.append(1 - loss)
    return sum(scores) / len(scores) if scores else 1.0


def every(free: Mapping[int, list[int]], wanted: Sequence[int]) -> Iterator[list[list[int]]]:
    """Servers of gangs over leaves, in every way; servers of one leaf are alike."""
    if not wanted:
        yield []
        return
    gpus, *others = wanted
    for counts in product(*(range(len(servers) + 1) for servers in free.values())):
        if sum(counts) == gpus and sum(count > 0 for count in counts) > 1:
            parts = list(zip(free.items(), counts, strict=True))
            here = [server for (_, servers), count in parts for server in servers[:count]]
            left = {leaf: servers[count:] for (leaf, servers), count in parts}
            yield from ([here, *rest] for rest in every(left, others))


def servers_of(placement: Placement) -> list[int]:
    return [2 * rack + machine for rack, machine, _ in placement]


def drawn(seed: int) -> tuple[float, float, float]:
    """The host's score, that of the best placement of all, and that of the placement taken."""
    rng = np.random.default_rng(seed)
    models = rng.choice(list(DUTIES), 4).tolist()
    placer = Placer(CLUSTER, "consolidated", seed, pace=PACE)
    ours = Compatible(np.random.default_rng(seed), placer.placings)
    gangs = []
    for job, gpus in enumerate((3, int(rng.choice([3, 5])), 5, int(rng.choice([3, 4])))):
        gang = Gang(job, gpus, model=models[job])
        chosen = placer.give(gang)
        assert chosen is not None
        ours.remember(job, gang.model)
        gangs.append(gang._replace(before=chosen))
    held = {gang.job: (gang.model, [*(gang.before or ())]) for gang in gangs}
    newest = gangs[2:]
    new = {gang.job for gang in newest}
    placer.release(new)
    stay = {job: has for job, has in held.items() if job not in new}
    taken = {server for _, servers in stay.values() for server in servers}
    free: dict[int, list[int]] = {}
    for server in {*range(SERVERS)} - taken:
        free.setdefault(server // 2, []).append(server)

    def score(wheres: Sequence[Sequence[int]]) -> float | None:
        now = {g.job: (g.model, [*servers]) for g, servers in zip(newest, wheres, strict=True)}
        return score_of(stay | now, new)

    known = [score(wheres) for wheres in every(free, [gang.gpus for gang in newest])]
    best = max((each for each in known if each is not None), default=-1.0)
    host = score([held[gang.job][1] for gang in newest])
    got = score([servers_of(where) for where in ours.choose_together(newest, placer.devices)])
    return (-1.0 if host is None else host), best, (-1.0 if got is None else got)


@pytest.mark.parametrize(
    "seeds", [range(16), pytest.param(range(16, 120), marks=pytest.mark.thorough)]
)
def test_the_best_of_all_placements_is_nearly_found(seeds: range) -> None:
    """On average .0002 is missing; with gangs that are always split as the host has it, .025."""
    host, best, ours = np.array([drawn(seed) for seed in seeds]).T
    assert (ours >= host - 1e-9).all()
    assert (ours <= best + 1e-9).all()
    assert (best > host + 1e-9).mean() > 0.2  # there is something to find
    assert (best - ours).mean() < 0.005
    assert np.isclose(ours, best, rtol=0, atol=1e-9).mean() >= 0.9


def test_in_rounds_a_new_job_meets_the_one_that_suits_it() -> None:
    """Two gangs arrive that fill the cluster: one has to be split in another way."""
    dynamic = scenarios.SCENARIOS[0]
    host = next(each for each in scenarios.HOSTS if each[2] == "rounds")
    profiles = scenarios.profiles_of(dynamic, derived=False)
    met = [
        scenarios.whom_it_meets(
            get_topology(dynamic.topology), scenarios.placed(dynamic, host, way, profiles)
        )
        for way in ("consolidated", "cassini")
    ]
    assert met == ["DLRM", "ResNet50"]
