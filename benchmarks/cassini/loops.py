"""Loops in affinity graphs: how often, and what one program for all links saves.

``python -m benchmarks.cassini.loops [--quick]``. Gangs of 2 to 5 GPUs fill 24
servers of one GPU; their jobs send on and off at 50 Gb/s, with periods of 0.24 s and 0.48 s.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import numpy as np

import apportion as ap
from apportion.mechanism.time_shifts import AffinityGraph
from apportion.sim.links import LinkShifts, PhaseJob, run_phases
from apportion.sim.network import get_topology, leaf_spine
from benchmarks.experiment import claimed
from benchmarks.papers.claims import Figure
from benchmarks.reporting import add_out, kept

if TYPE_CHECKING:
    from apportion.sim.network import Topology

TOPOLOGIES: dict[str, Topology] = {
    "leaves of two, uplinks of 50 Gb/s": get_topology("cassini"),
    "leaves of four, uplinks of 100 Gb/s": leaf_spine(
        "leaves of four",
        servers=24,
        gpus_per_server=1,
        servers_per_leaf=4,
        server_gbps=50.0,
        oversubscription=2.0,
    ),
}
WAYS = ("no shifts", "rotations")


def draw(
    rng: np.random.Generator,
) -> tuple[dict[str, list[int]], dict[str, ap.CommunicationProfile]]:
    """Gangs anywhere on 24 GPUs, and their profiles: they send 15 to 50 % of the time."""
    gpus = rng.permutation(24).tolist()
    gangs: dict[str, list[int]] = {}
    while len(gpus) > 4:
        size = int(rng.integers(2, 6))
        gangs[f"job {len(gangs)}"], gpus = gpus[:size], gpus[size:]
    profiles = {}
    for job in gangs:
        period = float(rng.choice([0.24, 0.48]))
        on = period * float(rng.uniform(0.15, 0.5))
        profiles[job] = ap.CommunicationProfile(job, period, [(0.0, on, 50.0)])
    return gangs, profiles


def measure(
    topology: Topology, rng: np.random.Generator, limit_s: float
) -> tuple[bool, bool, list[float], list[float], float]:
    """Loops, proof, scores and mean iterations over periods by way, seconds of the program."""
    gangs, profiles = draw(rng)
    posed = ap.SharedLinks.of_gangs(profiles, gangs, topology, slots=12)
    started = time.process_time()
    found = ap.solve("rotations", posed, time_limit_s=limit_s, fallback="isolated")
    took_s = time.process_time() - started
    assert isinstance(found, LinkShifts)
    longer = []
    for shifts in (0 * found.shifts_s, found.shifts_s):
        jobs = {
            job: PhaseJob(profiles[job], topology.links_of(gangs[job]), shifts[job])
            for job in gangs
        }
        run = run_phases(jobs, topology.capacities, iterations=15)
        means = [run.mean_s(job, after=5) / profiles[job].period_s for job in jobs]
        longer.append(float(np.mean(means)))
    scores = [float(each.mean()) for each in (found.unshifted_scores, found.scores)]
    loops = AffinityGraph(posed.jobs_of).loops > 0
    return loops, found.gap <= 1e-6, scores, longer, took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two placements of each topology")
    add_out(parser)
    given = parser.parse_args()
    with kept(given.out, "cassini_loops"):
        run(given)


def run(given: argparse.Namespace) -> None:
    quick = given.quick
    draws = 2 if quick else 12
    free = 0
    print("| topology | loops | proved | shifts | mean score | iteration / period | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for name, topology in TOPOLOGIES.items():
        rng = np.random.default_rng(0)
        rows = [measure(topology, rng, 1.0 if quick else 4.0) for _ in range(draws)]
        free += sum(not row[0] for row in rows)
        loops, proved = sum(row[0] for row in rows), sum(row[1] for row in rows)
        scores = np.mean([row[2] for row in rows], axis=0)
        longer = np.mean([row[3] for row in rows], axis=0)
        took_s = np.mean([row[4] for row in rows])
        for place, way in enumerate(WAYS):
            about = (
                f"{name} | {loops}/{draws} | {proved}/{draws}" if way == "rotations" else " | | "
            )
            cpu = f"{took_s:.1f}" if way == "rotations" else ""
            print(f"| {about} | {way} | {scores[place]:.3f} | {longer[place]:.3f} | {cpu} |")
    if not quick:
        claimed("cassini", "loops", [Figure("", float(free))])


if __name__ == "__main__":
    main()
