"""The paper's gains row by row: reached with which duty, or not, because of what.

``python -m benchmarks.cassini.verdicts [--quick] [--seeds 5] [--topologies ...]``. Gangs of 2 to 6
of 24 servers hold 90 % of them, put anywhere; all have one period and send for one part of it, the
duty; "leaves of eight" is a topology, too. The host
starts them at random or together. CASSINI places and turns them by `placement_and_rotation`, each
at any of its places in ten draws. Iterations are those of the engine of phases.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import apportion as ap
from apportion.sim.network import PhaseNetwork, jobs_on_links
from apportion.sim.phases.steady import SteadyIterations
from apportion.sim.shifts import GangPlacement
from apportion.sim.shifts.meeting import connected, crowded, meeting_of
from apportion.statistics import mean_interval
from benchmarks.cassini.deciders import CLAIMS, TOPOLOGIES, topology_of

if TYPE_CHECKING:
    from collections.abc import Mapping

DUTIES = (0.2, 0.25, 0.3, 1 / 3, 0.36, 0.4, 0.45, 0.5, 0.6)
PLACES, PERIOD_S = 10, 0.24
LEAST = 1e-6
"""Part of the host's marks: fewer are none."""


class Played(NamedTuple):
    """Iterations over those alone of all gangs, and what they wanted above the links, Gb/s."""

    slowdown: np.ndarray
    marks: float


def played(
    topology: Any, gangs: Mapping[Any, Any], profiles: dict[str, Any], starts_s: Any, starts: int
) -> Played:
    """Let gangs run where they are; without starts at random ones, or together for 0."""
    steady = SteadyIterations(PhaseNetwork(starts=starts))
    jobs_of, gbps = jobs_on_links(topology, gangs), topology.capacities
    slowdown, marks = dict.fromkeys(gangs, 1.0), 0.0
    tight = crowded(jobs_of, profiles, gbps)
    for jobs, links in connected(tight):
        given = {job: starts_s.get(job) for job in jobs}
        meeting, order = meeting_of(jobs, links, tight, profiles, given, gbps)
        found = steady.of(meeting)
        slowdown |= dict(zip(order, found.slowdown.tolist(), strict=True))
        marks += float(found.marks_gbps.sum())
    return Played(np.array([*slowdown.values()]), marks)


def draw(seed: int) -> dict[str, list[list[int]]]:
    """Gangs and their places: the host's first."""
    rng = np.random.default_rng(seed)
    sizes: list[int] = []
    while sum(sizes) < 21:
        sizes.append(int(rng.integers(2, min(7, 25 - sum(sizes)))))
    orders = [rng.permutation(24) for _ in range(PLACES)]
    ends = np.cumsum(sizes)
    return {
        f"job {place}": [sorted(order[end - size : end].tolist()) for order in orders]
        for place, (size, end) in enumerate(zip(sizes, ends.tolist(), strict=True))
    }


def three_ways(topology: Any, duty: float, seed: int) -> dict[str, Played]:
    """Host with random starts and together, and CASSINI."""
    gangs = draw(seed)
    one = ap.CommunicationProfile("one", PERIOD_S, [(0.0, duty * PERIOD_S, 50.0)])
    profiles = {job: one.named(job) for job in gangs}
    host = {job: places[0] for job, places in gangs.items()}
    posed = ap.PlacedGangs(profiles, gangs, topology, slots=24)
    found = ap.solve("placement_and_rotation", posed, time_limit_s=0.5)
    assert isinstance(found, GangPlacement)
    shifts = {job: float(each) for job, each in found.shifts_s.items()}
    return {
        "random": played(topology, host, profiles, {}, 4),
        "together": played(topology, host, profiles, {}, 0),
        "cassini": played(topology, found.gangs.to_dict(), profiles, shifts, 4),
    }


def gains(ways: list[dict[str, Played]], start: str) -> dict[str, Any]:
    """Gains in mean and P99, by seed, and Gb/s marked by the host and by CASSINI."""
    pairs = [(each[start], each["cassini"]) for each in ways]
    return {
        "mean": [float(host.slowdown.mean() / own.slowdown.mean()) for host, own in pairs],
        "P99": [
            float(np.quantile(host.slowdown, 0.99) / np.quantile(own.slowdown, 0.99))
            for host, own in pairs
        ],
        "marked": (sum(host.marks for host, _ in pairs), sum(own.marks for _, own in pairs)),
    }


def gain(found: dict[str, Any], claim: str) -> float:
    """Return a gain over all seeds."""
    if claim == "marks":
        host, own = found["marked"]
        return float(host / own) if own > LEAST * host else np.inf if host else 1.0
    return float(np.mean(found[claim]))


def verdict(claim: str, asked: float, known: dict[str, dict[float, dict[str, Any]]]) -> str:
    """Say with which duties a gain is reached, or how much is."""
    means = {
        (start, duty): gain(found, claim)
        for start, by_duty in known.items()
        for duty, found in by_duty.items()
    }
    reached = [
        f"{start}: " + ", ".join(f"{duty:.2f}" for duty in by_duty if means[start, duty] >= asked)
        for start, by_duty in known.items()
        if any(means[start, duty] >= asked for duty in by_duty)
    ]
    if reached:
        return "reached with starts and duties " + "; ".join(reached)
    (start, duty), most = max(means.items(), key=lambda each: each[1])
    return f"not: at most {most:.2f} (starts {start}, duty {duty:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one topology, two duties and seeds")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--topologies", nargs="*", default=TOPOLOGIES)
    given = parser.parse_args()
    duties = DUTIES[2:4] if given.quick else DUTIES
    topologies = given.topologies[: 1 if given.quick else None]
    seeds = range(2 if given.quick else given.seeds)
    heads = ("topology", "starts", "duty", "mean", "P99", "Gb/s marked")
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    verdicts = []
    for name in topologies:
        known: dict[str, dict[float, dict[str, Any]]] = {"random": {}, "together": {}}
        for duty in duties:
            ways = [three_ways(topology_of(name), duty, seed) for seed in seeds]
            for start, by_duty in known.items():
                found = by_duty[duty] = gains(ways, start)
                cells = []
                for claim in ("mean", "P99"):
                    at = mean_interval(found[claim])
                    cells.append(f"{at.estimate:.2f} [{at.low:.2f}, {at.high:.2f}]")
                cells.append(" -> ".join(f"{each / len(ways):.2f}" for each in found["marked"]))
                print(f"| {name} | {start} | {duty:.2f} | " + " | ".join(cells) + " |", flush=True)
        verdicts += [
            f"| {name} | {claim} {asked:g} | {verdict(claim, asked, known)} |"
            for claim, asked in CLAIMS
        ]
    print("\n| topology | the paper's gain | here |\n|---|---|---|\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
