"""`placement_and_rotation` on odd draws, against trying everything; order and units do not matter.

Jobs that send nothing or always, more than a link carries, twice in an iteration; equal jobs and
equal places; weights from 0 to 100; trees, hashed uplinks, rails, fat trees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from tests.oracles.placements import least_sum

import apportion as ap
from apportion.errors import InfeasibleError
from apportion.sim.network import (
    ParallelUplinks,
    fat_tree,
    leaf_spine,
    rails,
)
from apportion.sim.shifts import GangPlacement

if TYPE_CHECKING:
    from apportion.sim.network import Topology

MOST_TRIED = 40_000


def topology(rng: np.random.Generator) -> Topology:
    """Draw one of four kinds of 12 GPUs and more."""
    tree: dict[str, Any] = {"servers": 12, "gpus_per_server": 1, "server_gbps": 50.0}
    kind, seed = int(rng.integers(4)), int(rng.integers(100))
    if kind == 0:
        return leaf_spine("leaves", **tree, servers_per_leaf=2, oversubscription=2.0)
    if kind == 1:
        leaves = leaf_spine("hashed", **tree, servers_per_leaf=4, oversubscription=2.0)
        return ParallelUplinks(leaves, {"leaf": 2}, seed)
    if kind == 2:
        return rails("rails", servers=6, gpus_per_server=2, gpu_gbps=50.0, groups=3)
    return fat_tree("fat", ports=4, server_gbps=40.0)


class Odd(NamedTuple):
    """What is posed."""

    topology: Topology
    unit_s: float
    profiles: dict[str, ap.CommunicationProfile]
    gangs: dict[str, list[list[int]]]
    weight: dict[str, float]

    def best(self) -> float | None:
        """Try everything; who sends nothing uses no link."""
        demand = [
            profile.demand((np.arange(round(profile.period_s / self.unit_s)) + 0.5) * self.unit_s)
            for profile in self.profiles.values()
        ]
        places = [
            [
                (frozenset(each), self.topology.links_of(each) if own.any() else ())
                for each in self.gangs[job]
            ]
            for job, own in zip(self.profiles, demand, strict=True)
        ]
        weight = [self.weight.get(job, 1.0) for job in self.profiles]
        return least_sum(demand, places, self.topology.capacities, weight)

    def solved(self, order: list[str]) -> GangPlacement:
        """Solve it, jobs in an order and gangs in the opposite one."""
        shortest_s = min(profile.period_s for profile in self.profiles.values())
        given = ap.PlacedGangs(
            {job: self.profiles[job] for job in order},
            {job: self.gangs[job] for job in reversed(order)},
            self.topology,
            slots=round(shortest_s / self.unit_s),
            pace=0.0,
            weight=self.weight,
        )
        found = ap.solve("placement_and_rotation", given, time_limit_s=60)
        assert isinstance(found, GangPlacement)
        return found


def drawn(seed: int) -> tuple[Odd, list[str]] | None:
    """Draw a problem and another order of its jobs; None if there is too much to try."""
    rng = np.random.default_rng([9, seed])
    links, unit_s = topology(rng), float(rng.choice([0.05, 1e-3, 0.013, 7.0]))
    odd = Odd(links, unit_s, {}, {}, {})
    tried = 1
    for number in range(int(rng.integers(1, 5))):
        job, period = f"job {number}", int(rng.choice([2, 4, 6, 12]))
        phases: list[tuple[float, float, float]] = []
        kind = rng.integers(8)
        if kind == 1:
            phases = [(0.0, period * unit_s, float(rng.choice([10.0, 50.0, 120.0])))]
        elif kind > 1:
            edges = 2 * min(int(rng.integers(1, 3)), (period + 1) // 2)
            cuts = np.sort(rng.choice(period + 1, edges, replace=False)).reshape(-1, 2).tolist()
            rates = rng.choice([5.0, 20.0, 50.0, 80.0], len(cuts)).tolist()
            phases = [
                (unit_s * first, unit_s * (last - first), rate)
                for (first, last), rate in zip(cuts, rates, strict=True)
            ]
        odd.profiles[job] = ap.CommunicationProfile(job, period * unit_s, phases)
        if number and rng.random() < 0.2:
            odd.profiles[job] = odd.profiles["job 0"].named(job)
        size, gpus = int(rng.integers(1, 5)), min(links.gpus, 12)
        places = [rng.choice(gpus, size, replace=False).tolist() for _ in range(rng.integers(1, 4))]
        odd.gangs[job] = [*places, places[0]] if rng.random() < 0.3 else places
        if rng.random() < 0.4:
            odd.weight[job] = float(rng.choice([0.0, 0.01, 1.0, 3.0, 100.0]))
        tried *= round(odd.profiles[job].period_s / unit_s) * len(odd.gangs[job])
    return (odd, rng.permutation(list(odd.gangs)).tolist()) if tried <= MOST_TRIED else None


@pytest.mark.parametrize(
    "seeds",
    [
        range(8),
        pytest.param(range(8, 30), marks=pytest.mark.thorough),
        pytest.param(range(30, 700), marks=pytest.mark.slow),
    ],
    ids=["few", "dozens", "hundreds"],
)
def test_nothing_is_better_on_odd_draws(seeds: range) -> None:
    looked = slower = 0
    for seed in seeds:
        if (posed := drawn(seed)) is None:
            continue
        odd, order = posed
        best = odd.best()
        if best is None:
            with pytest.raises((InfeasibleError, ap.InputError), match="for one gang"):
                odd.solved(list(odd.gangs))
            continue
        found = odd.solved(list(odd.gangs))
        assert found.status == "optimal", seed
        assert found.objective == pytest.approx(best, rel=1e-7, abs=1e-9), seed
        told = sum(odd.weight.get(job, 1.0) * found.slowdowns[job] for job in odd.gangs)
        assert told == pytest.approx(best, rel=1e-7, abs=1e-9), seed
        again = odd.solved(order)
        assert again.objective == pytest.approx(found.objective, rel=1e-9, abs=1e-9), seed
        looked += 1
        slower += best > sum(odd.weight.get(job, 1.0) for job in odd.gangs) + 1e-9
    assert looked
    assert slower
