"""The paper's gains row by row: reached with which duty, or not, because of what.

``python -m benchmarks.cassini.verdicts [--quick] [--draws 30] [--duties ...] [--topologies ...]``.
Gangs of 2 to 6 of 24 servers hold 90 % of them, put anywhere; all have one period and send for one
part of it, the duty. The host starts them at random or together. CASSINI has ten placements of all
gangs, as in the paper, each with the shifts of the policy `rotations` (solved for 2 s at most), as
Algorithm 1 has none where links and jobs form loops. It takes that with the least summed slowdown
by the law of the score. Iterations are those of the engine of phases.
Means and 99th percentiles are over the iterations of all jobs of all draws, as the paper's are over
those of a trace: of the six jobs of one draw the 99th percentile would be the slowest. Intervals of
95 % are by drawing the draws again.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import apportion as ap
from apportion.sim.links import LinkShifts, PhaseJob, run_phases
from benchmarks.cassini.deciders import TOPOLOGIES, topology_of
from benchmarks.experiment import claimed
from benchmarks.papers.claims import Figure
from benchmarks.reporting import add_out, kept

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CLAIMS = (("mean", 1.6), ("mean", 1.2), ("P99", 1.8), ("P99", 1.6), ("marks", 27.0))
"""Gains of the paper: iterations, their 99th percentile, marks."""

JUDGED = {
    "mean-data-anywhere": ("mean", 0.45, ("leaves of eight",)),
    "p99-data-anywhere": ("P99", 1 / 3, ("cassini_leaves_of_four", "leaves of eight")),
}
"""Figure, duty and topologies of a claim, where the host starts all together."""

DUTIES = (0.2, 0.25, 0.3, 1 / 3, 0.36, 0.4, 0.45, 0.5, 0.6)
PLACES, PERIOD_S, SECONDS = 10, 0.24, 2.0
BEFORE, COUNTED, STARTS = 24, 20, 4
"""Iterations before the start is over, and that count then; random starts of each draw."""

RESAMPLED = 200

LEAST = 1e-6
"""Part of the host's marks: fewer are none. Gains that lack no more are reached."""


class Played(NamedTuple):
    """All iterations over those alone, and what was wanted above the links, Gb/s."""

    slowdown: np.ndarray
    marks: float


def played(topology: Any, gangs: Mapping[Any, Any], profiles: Any, starts: list[Any]) -> Played:
    """Let gangs run where they are, once from each of the starts."""
    slowdown, marks = [], 0.0
    for starts_s in starts:
        jobs = {
            job: PhaseJob(profiles[job], topology.links_of(where), starts_s[job])
            for job, where in gangs.items()
        }
        run = run_phases(jobs, topology.capacities, iterations=BEFORE + COUNTED)
        slowdown += [run.iterations_s(job, after=BEFORE)[:COUNTED] / PERIOD_S for job in jobs]
        marks += sum(run.marks_gigabits.values()) / run.end_s / len(starts)
    return Played(np.concatenate(slowdown), marks)


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


def best_of_wholes(
    profiles: Any, gangs: dict[str, list[list[int]]], topology: Any
) -> tuple[dict[str, list[int]], dict[Any, Any]]:
    """Return the best of the placements of all gangs, and the shifts of the jobs there."""
    best, least = (dict[str, list[int]](), dict[Any, Any]()), np.inf
    for number in range(PLACES):
        whole = {job: places[number] for job, places in gangs.items()}
        posed = ap.SharedLinks.of_gangs(profiles, whole, topology, slots=24)
        found = ap.solve("rotations", posed, time_limit_s=SECONDS, fallback="isolated")
        assert isinstance(found, LinkShifts)
        worst = dict.fromkeys(whole, 1.0)
        for link, score in found.scores.items():
            worst |= {job: min(worst[job], score) for job in posed.jobs_of[link]}
        if (lost := sum(1 - score for score in worst.values())) < least - LEAST:
            best, least = (whole, found.shifts_s.to_dict()), lost
        if least <= LEAST:
            break
    return best


def three_ways(topology: Any, duty: float, seed: int) -> dict[str, Played]:
    """Host with random starts and together, and CASSINI."""
    gangs = draw(seed)
    one = ap.CommunicationProfile("one", PERIOD_S, [(0.0, duty * PERIOD_S, 50.0)])
    profiles = {job: one.named(job) for job in gangs}
    host = {job: places[0] for job, places in gangs.items()}
    where, shifts_s = best_of_wholes(profiles, gangs, topology)
    rng = np.random.default_rng([1, seed])
    random = [
        dict(zip(gangs, PERIOD_S * rng.random(len(gangs)), strict=True)) for _ in range(STARTS)
    ]
    return {
        "random": played(topology, host, profiles, random),
        "together": played(topology, host, profiles, [dict.fromkeys(gangs, 0.0)]),
        "cassini": played(topology, where, profiles, [shifts_s]),
    }


def figures(ways: Sequence[dict[str, Played]], way: str) -> dict[str, float]:
    """Mean and P99 over all iterations of all draws, and mean marks."""
    slowdown = np.concatenate([each[way].slowdown for each in ways])
    return {
        "mean": float(slowdown.mean()),
        "P99": float(np.quantile(slowdown, 0.99)),
        "marks": float(np.mean([each[way].marks for each in ways])),
    }


def gains(ways: Sequence[dict[str, Played]], start: str) -> dict[str, float]:
    """Return what the host has over what CASSINI has."""
    host, own = figures(ways, start), figures(ways, "cassini")
    if own["marks"] <= LEAST * host["marks"]:
        own["marks"] = 0.0
    return {
        claim: host[claim] / own[claim] if own[claim] else np.inf if host[claim] else 1.0
        for claim in host
    }


def cells(ways: Sequence[dict[str, Played]], start: str) -> tuple[list[str], dict[str, Figure]]:
    """Write what the host has and CASSINI, and the gains with their intervals; and give these."""
    host, own, gained = figures(ways, start), figures(ways, "cassini"), gains(ways, start)
    rng = np.random.default_rng(0)
    again = [
        gains([ways[at] for at in rng.integers(len(ways), size=len(ways))], start)
        for _ in range(RESAMPLED)
    ]
    told = [f"{host[claim]:.2f} -> {own[claim]:.2f}" for claim in host]
    as_figures = {}
    for claim in ("mean", "P99"):
        low, high = np.quantile([each[claim] for each in again], (0.025, 0.975))
        told.append(f"{gained[claim]:.2f} [{low:.2f}, {high:.2f}]")
        as_figures[claim] = Figure(
            "", gained[claim], min(low, gained[claim]), max(high, gained[claim])
        )
    return told, as_figures


def verdict(claim: str, asked: float, known: dict[tuple[str, float], dict[str, float]]) -> str:
    """Say with which duties a gain is reached, or how much is."""
    reached = {
        start: ", ".join(
            f"{duty:.2f}"
            for (other, duty), gained in known.items()
            if other == start and gained[claim] >= asked - LEAST
        )
        for start in ("random", "together")
    }
    if any(reached.values()):
        return "reached with starts and duties " + "; ".join(
            f"{start}: {duties}" for start, duties in reached.items() if duties
        )
    (start, duty), most = max(known.items(), key=lambda each: each[1][claim])
    return f"not: at most {most[claim]:.2f} (starts {start}, duty {duty:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one topology, two duties and draws")
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--duties", type=float, nargs="*", default=DUTIES)
    parser.add_argument("--topologies", nargs="*", default=(*TOPOLOGIES, "leaves of eight"))
    add_out(parser)
    given = parser.parse_args()
    with kept(given.out, "cassini_verdicts"):
        run(given)


def run(given: argparse.Namespace) -> None:
    duties = DUTIES[2:4] if given.quick else given.duties
    topologies = given.topologies[: 1 if given.quick else None]
    draws = range(2 if given.quick else given.draws)
    heads = ("topology", "starts", "duty", "mean", "P99", "Gb/s marked", "gain: mean", "P99")
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    verdicts, found = [], dict[tuple[str, float, str], dict[str, Figure]]()
    for name in topologies:
        known: dict[tuple[str, float], dict[str, float]] = {}
        for duty in duties:
            ways = [three_ways(topology_of(name), duty, seed) for seed in draws]
            for start in ("random", "together"):
                known[start, duty] = gains(ways, start)
                told, found[name, duty, start] = cells(ways, start)
                print("| " + " | ".join([name, start, f"{duty:.2f}", *told]) + " |", flush=True)
        verdicts += [
            f"| {name} | {claim} {asked:g} | {verdict(claim, asked, known)} |"
            for claim, asked in CLAIMS
        ]
    print("\n| topology | the paper's gain | here |\n|---|---|---|\n" + "\n".join(verdicts))
    for claim, (figure, duty, names) in JUDGED.items():
        cases = [(each, found.get((each, duty, "together"))) for each in names]
        if not given.quick and all(at for _, at in cases):
            claimed("cassini", claim, [at[figure]._replace(case=each) for each, at in cases if at])


if __name__ == "__main__":
    main()
