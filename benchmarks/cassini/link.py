"""Jobs on one link: scores without and with shifts, and the pictures of the documentation.

``python -m benchmarks.cassini.link [FOLDER] [--quick]`` prints the tables, and writes PNGs to the
folder. Models are at derived seconds in the first table; the others tell what published samples per
second make of them.
"""

from __future__ import annotations

import argparse

import numpy as np

import apportion as ap
from apportion.mechanism.time_shifts import AffinityGraph, iteration_s, rank_placements
from apportion.report.link_plots import affinity_figure, compatibility_figure
from apportion.sim.network import (
    COMMUNICATING_MODELS,
    PUBLISHED_SPEEDS,
    SwitchLevel,
    TreeTopology,
    communication_profile,
    get_topology,
    jobs_on_links,
)
from benchmarks.reporting import add_out, kept

CAPACITY_GBPS = 50.0

LINKS = {
    "two of VGG16": ["VGG16", "VGG16"],
    "VGG19 and WideResNet101": ["VGG19", "WideResNet101"],
    "two of ResNet50": ["ResNet50", "ResNet50"],
    "VGG16 and RoBERTa": ["VGG16", "RoBERTa"],
    "two of DLRM": ["DLRM", "DLRM"],
    "DLRM and ResNet50": ["DLRM", "ResNet50"],
    "GPT-3 and BERT": ["GPT-3", "BERT"],
}


def half_duty(name: str, period_s: float = 0.2, duty: float = 0.5) -> ap.CommunicationProfile:
    return ap.CommunicationProfile(name, period_s, [((1 - duty) * period_s, duty * period_s, 50.0)])


def unequal() -> list[ap.CommunicationProfile]:
    """Three jobs whose periods are as 2, 3 and 4; together they send as long as the divisor."""
    return [
        ap.CommunicationProfile("0.24 s", 0.24, [(0.0, 0.05, 50.0)]),
        ap.CommunicationProfile("0.36 s", 0.36, [(0.0, 0.04, 50.0)]),
        ap.CommunicationProfile("0.48 s", 0.48, [(0.0, 0.03, 30.0)]),
    ]


def rows() -> list[tuple[str, ap.Compatibility]]:
    """Compatibility of some links."""
    found = [
        ("two at half duty", ap.compatibility([half_duty("a"), half_duty("b")], CAPACITY_GBPS)),
        ("periods as 2:3:4", ap.compatibility(unequal(), CAPACITY_GBPS)),
    ]
    for name, models in LINKS.items():
        profiles = [communication_profile(model, gpus=4) for model in models]
        found.append((name, ap.compatibility(profiles, CAPACITY_GBPS)))
    return found


def by_speed(models: list[str]) -> list[ap.Compatibility]:
    """Compatibility of models on 4 GPUs with derived seconds, and with published speeds."""
    ways = (None, "published")
    return [
        ap.compatibility(
            [communication_profile(model, gpus=4, compute_s=way) for model in models], CAPACITY_GBPS
        )
        for way in ways
    ]


def told(samples_per_s: float) -> str:
    """Write three digits and more."""
    return f"{samples_per_s:,.0f}" if samples_per_s > 100 else f"{samples_per_s:.3g}"


def print_published() -> None:
    """Print what published samples per second make of models, and of links that two share."""
    print(
        "\n| model | samples/s | GPU | its batch | period, ms | published | duty | published "
        "| score of two | published | assumed |\n" + "|---" * 11 + "|"
    )
    for model in COMMUNICATING_MODELS:
        speed, both = PUBLISHED_SPEEDS[model], by_speed([model] * 2)
        own = [each.profiles[0] for each in both]
        cells = [f"{1000 * each.period_s:,.0f}" for each in own]
        cells += [f"{each.duty:.2f}" for each in own] + [f"{each.score:.3f}" for each in both]
        batch = f"{speed.batch:,}" if speed.batch else ""
        cells = [told(speed.samples_per_s), speed.gpu, batch, *cells, speed.assumed]
        print(f"| {model} | " + " | ".join(cells) + " |")
    print("\n| link | unshifted | score | published: unshifted | score |\n" + "|---" * 5 + "|")
    for name, models in LINKS.items():
        both = by_speed(models)
        cells = [f"{each:.3f}" for one in both for each in (one.unshifted_score, one.score)]
        print(f"| {name} | " + " | ".join(cells) + " |")


def placement() -> tuple[list[dict[str, list[int]]], dict[str, ap.CommunicationProfile]]:
    """Two ways to put three jobs on six servers of two GPUs, and the profiles of the jobs."""
    gangs = [
        {"XLM": [0, 1, 2], "ResNet50": [6, 7, 8], "DLRM": [3, 4, 5, 10]},
        {"XLM": [0, 1, 2], "ResNet50": [6, 7, 8], "DLRM": [9, 10, 11, 4]},
    ]
    return gangs, {
        job: communication_profile(job, gpus=len(gpus)) for job, gpus in gangs[0].items()
    }


def share_with_loops(name: str, *, packed: bool, draws: int = 400) -> float:
    """Part of random placements of gangs of 2 to 5 servers whose affinity graph has a loop.

    The gangs fill 20 servers or more of 24, side by side in a random order if packed.
    """
    rng = np.random.default_rng(0)
    topology = get_topology("cassini") if name == "leaves" else one_switch()
    loops = 0
    for _ in range(draws):
        servers = np.arange(24) if packed else rng.permutation(24)
        first = 0
        gangs: dict[int, list[int]] = {}
        while first < 20:
            size = int(rng.integers(2, 6))
            gangs[len(gangs)] = servers[first : first + size].tolist()
            first += size
        loops += AffinityGraph(jobs_on_links(topology, gangs)).loops > 0
    return loops / draws


def one_switch() -> TreeTopology:
    """Twelve servers of two GPUs under one switch."""
    return TreeTopology("one switch", (SwitchLevel("server", 2, 50.0),), 12)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="count loops in fewer placements")
    add_out(parser)
    given = parser.parse_args()
    with kept(given.out, "cassini_link"):
        run(given)


def run(args: argparse.Namespace) -> None:
    folder, draws = args.out, 40 if args.quick else 400
    print(
        "| link | unshifted | score | Jensen | iteration by the law | |\n|---|---|---|---|---|---|"
    )
    figures = {}
    for name, found in rows():
        longer = iteration_s(1, found.score)
        proof = found.proof if found.commensurate else f"{found.proof}; incommensurate"
        print(
            f"| {name} | {found.unshifted_score:.3f} | {found.score:.3f} | {found.bound:.3f} "
            f"| {longer:.3f} | {proof} |"
        )
        figures[name] = compatibility_figure(found)
    print_published()
    gangs, profiles = placement()
    topology = get_topology("cassini_two_gpus")
    ranked = rank_placements(
        [jobs_on_links(topology, each) for each in gangs], profiles, topology.capacities
    )
    for each in ranked:
        print(f"DLRM as placed {each.number}: score {each.score:.3f}, loops {each.graph.loops}")
        figures[f"placement {each.number}"] = affinity_figure(each.graph, dict(each.shifts_s))
    for name, words in (("leaves", "24 servers, leaves of two"), ("switch", "12 of two GPUs")):
        shares = [share_with_loops(name, packed=packed, draws=draws) for packed in (True, False)]
        print(f"loops, {words}: side by side {shares[0]:.1%}, anywhere {shares[1]:.1%}")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            figure.savefig(folder / f"{name.replace(' ', '_').replace(':', '_')}.png", dpi=110)


if __name__ == "__main__":
    main()
