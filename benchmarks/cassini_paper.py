"""CASSINI's figures, phase by phase on links: what shifts and placements gain.

``python -m benchmarks.cassini_paper [--quick]``. Iterations come from `run_phases`, as seconds
over those of a job that is alone; the law is ``2 - score``.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np

import apportion as ap
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import Gang
from apportion.sim.network import (
    communication_profile,
    get_network,
    get_topology,
    jobs_on_links,
)
from apportion.sim.network.cassini import CassiniNetwork
from apportion.sim.network.pace import pace_of
from apportion.sim.phases import PhaseJob, PhaseRun, joint_shifts, run_phases

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Profiles = Mapping[str, ap.CommunicationProfile]

GBPS = 50.0
SNAPSHOTS = (
    (("WideResNet101", "VGG16"), 0.28),
    (("VGG19", "VGG16", "ResNet50"), 0.31),
    (("VGG19", "VGG16"), 0.25),
    (("RoBERTa", "RoBERTa"), 0.57),
    (("BERT", "VGG19", "WideResNet101"), 0.42),
)
"""Models that the paper puts on a link, and a period with which they score as there."""


def on_one_link(profiles: Sequence[ap.CommunicationProfile], shifts: Sequence[float]) -> PhaseRun:
    jobs = {
        place: PhaseJob(profile, ("link",), shift)
        for place, (profile, shift) in enumerate(zip(profiles, shifts, strict=True))
    }
    return run_phases(jobs, {"link": GBPS}, iterations=20)


def longer(run: PhaseRun, profiles: Sequence[ap.CommunicationProfile]) -> float:
    """Mean iteration over the period, without the first ten."""
    means = [
        run.mean_s(job, after=10) / profile.period_s
        for job, profile in zip(run.starts_s, profiles, strict=True)
    ]
    return float(np.mean(means))


def gain(profiles: list[ap.CommunicationProfile], seed: int) -> list[float]:
    """Score, iterations that start together, at random and shifted, and marks of the last two."""
    found = ap.compatibility(profiles, GBPS)
    rng = np.random.default_rng(seed)
    starts = [[float(rng.uniform(0, each.period_s)) for each in profiles] for _ in range(5)]
    by_chance = [on_one_link(profiles, each) for each in starts]
    together = on_one_link(profiles, [0.0] * len(profiles))
    shifted = on_one_link(profiles, found.shifts_s)
    return [
        found.score,
        longer(together, profiles),
        float(np.mean([longer(each, profiles) for each in by_chance])),
        longer(shifted, profiles),
        float(np.mean([each.excess_gigabits["link"] / each.end_s for each in by_chance])),
        shifted.excess_gigabits["link"] / shifted.end_s,
    ]


def half(name: str, duty: float, period_s: float = 0.2) -> ap.CommunicationProfile:
    return ap.CommunicationProfile(name, period_s, [(0.0, duty * period_s, GBPS)])


def speed_ups(draws: int) -> None:
    """Speed-up by the best score: 2 to 4 jobs of one period that send once at the full rate."""
    rng = np.random.default_rng(0)
    rows = []
    for seed in range(draws):
        duties = rng.uniform(0.2, 0.6, int(rng.integers(2, 5)))
        profiles = [half(str(place), float(duty)) for place, duty in enumerate(duties)]
        rows.append(gain(profiles, seed))
    print("\n| best score | cases | together / shifted | random / shifted | law / simulated |")
    print("|---|---|---|---|---|")
    table = np.array(rows)
    for low, high in ((-1, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.01)):
        part = table[(table[:, 0] >= low) & (table[:, 0] < high)]
        if len(part):
            score, together, chance, shifted = part[:, :4].T
            figures = [np.mean(together / shifted), np.mean(chance / shifted)]
            figures.append(np.mean((2 - score) / shifted))
            shown = " | ".join(f"{each:.2f}" for each in figures)
            print(f"| {low} to {min(high, 1)} | {len(part)} | {shown} |")
    both = gain([half("a", 0.5), half("b", 0.5)], 0)
    print(f"\ntwo jobs at half duty: {both[1] / both[3]:.2f}, the most that two jobs gain")


def of_period(model: str, period_s: float) -> ap.CommunicationProfile:
    """Return the profile of a model on four GPUs with a batch that makes an iteration so long."""
    sends = communication_profile(model, gpus=4)
    computes = period_s - sum(phase.duration_s for phase in sends.phases)
    return communication_profile(model, gpus=4, compute_s=computes)


def snapshots() -> None:
    print("\n| snapshot | score | random | shifted | speed-up | marks, Gb/s: random, shifted |")
    print("|---|---|---|---|---|---|")
    for models, period_s in SNAPSHOTS:
        row = gain([of_period(model, period_s) for model in models], 0)
        figures = [row[0], row[2], row[3], row[2] / row[3]]
        shown = " | ".join(f"{each:.2f}" for each in figures)
        print(f"| {', '.join(models)} | {shown} | {row[4]:.1f}, {row[5]:.1f} |")


def scenarios() -> None:
    """The dynamic scenario, by who shares a link with whom, and that of servers of two GPUs."""
    ways: dict[str, tuple[dict[str, tuple[str, ...]], float | dict[str, float], Profiles]] = {}
    profiles = {
        name: communication_profile(name.rstrip("'"), gpus=4)
        for name in ("VGG16", "RoBERTa", "DLRM", "DLRM'", "ResNet50")
    }
    for who, pairs in (
        ("dynamic: DLRM beside DLRM", [("DLRM", "DLRM'"), ("VGG16", "ResNet50")]),
        ("dynamic: DLRM beside ResNet50", [("DLRM", "ResNet50"), ("VGG16", "DLRM'")]),
        ("dynamic: DLRM beside RoBERTa", [("DLRM", "ResNet50"), ("RoBERTa", "DLRM'")]),
    ):
        ways[who] = ({f"link {k}": pair for k, pair in enumerate(pairs)}, GBPS, profiles)
    servers = get_topology("cassini_two_gpus")
    for beside, gpus in (("XLM", [3, 4, 5, 10]), ("ResNet50", [9, 10, 11, 4])):
        gangs = {"XLM": [0, 1, 2], "ResNet50": [6, 7, 8], "DLRM": gpus}
        trained = {job: communication_profile(job, gpus=len(g)) for job, g in gangs.items()}
        links = jobs_on_links(servers, gangs)
        ways[f"two GPUs: DLRM beside {beside}"] = (links, dict(servers.capacities), trained)
    print("\n| scenario | score | iteration | DLRM | marks of DLRM, Gb/s |")
    print("|---|---|---|---|---|")
    for name, (links, capacity, known) in ways.items():
        report_scenario(name, links, capacity, known)


def report_scenario(
    name: str,
    links: dict[str, tuple[str, ...]],
    capacity: float | dict[str, float],
    profiles: Profiles,
) -> None:
    """Print what jobs do that start at random, five times; few periods here are commensurate."""
    gbps = capacity if isinstance(capacity, dict) else dict.fromkeys(links, capacity)
    scores = [
        ap.compatibility([profiles[job] for job in jobs], gbps[link]).score
        for link, jobs in links.items()
        if len(jobs) > 1
    ]
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(5):
        jobs = {
            job: PhaseJob(
                profile,
                tuple(link for link, on in links.items() if job in on),
                float(rng.uniform(0, profile.period_s)),
            )
            for job, profile in profiles.items()
        }
        run = run_phases(jobs, gbps, iterations=40)
        took = {job: run.mean_s(job, after=10) / profiles[job].period_s for job in jobs}
        rows.append(
            (
                float(np.mean(list(took.values()))),
                took["DLRM"],
                run.marks_gigabits["DLRM"] / run.end_s,
            )
        )
    mean, dlrm, marks = np.array(rows).mean(axis=0)
    print(f"| {name} | {np.mean(scores):.2f} | {mean:.2f} | {dlrm:.2f} | {marks:.2f} |")


def poisson(epochs: int) -> None:
    """Gangs come and go on 24 servers of which 80 to 100 % are busy; iterations of each epoch."""
    duties, periods = (0.45, 0.3, 0.2, 0.5, 0.35, 0.25), (0.24, 0.48) * 3
    known = {
        f"model {k}": half(f"model {k}", duty, period)
        for k, (duty, period) in enumerate(zip(duties, periods, strict=True))
    }
    cluster = ap.Cluster({"a100": 24}, gpus_per_machine=1, machines_per_rack=2)
    network = get_network(CassiniNetwork(profiles=known), cluster=cluster)
    ways = {
        "random": ("random", False),
        "host": ("consolidated", False),
        "host and shifts": ("consolidated", True),
        "CASSINI": ("cassini", True),
    }
    print("\n| Poisson, 80 to 100 % | mean | P99 | marks, Gb/s a job | gain: mean, P99 |")
    print("|---|---|---|---|---|")
    first: tuple[float, float] | None = None
    for name, (placement, shifted) in ways.items():
        placer = Placer(cluster, placement, 0, pace=pace_of(network))
        took, marks = come_and_go(placer, known, epochs, shifted=shifted)
        mean, tail = float(np.mean(took)), float(np.quantile(took, 0.99))
        if name == "host":
            first = mean, tail
        gains = f"{first[0] / mean:.2f}, {first[1] / tail:.2f}" if first else ""
        print(f"| {name} | {mean:.3f} | {tail:.3f} | {np.mean(marks):.2f} | {gains} |")
    if first:
        print(f"| ideal: nobody else there | 1.000 | 1.000 | 0 | {first[0]:.2f}, {first[1]:.2f} |")


def come_and_go(
    placer: Placer, known: Profiles, epochs: int, *, shifted: bool
) -> tuple[list[float], list[float]]:
    """Iterations over periods, and marks of a job, over all epochs; the same gangs for everyone."""
    rng, topology = np.random.default_rng(3), get_topology("cassini")
    running: dict[int, str] = {}
    took: list[float] = []
    marks: list[float] = []
    number = 0
    for _ in range(epochs):
        for job in [each for each in running if rng.random() < 0.3]:
            placer.release([job])
            del running[job]
        while (free := sum(map(len, [placer.pools[0].free_devices]))) > 4:
            gpus = int(rng.integers(2, 6))
            model = str(rng.choice(list(known)))
            if gpus <= free and placer.give(Gang(number, gpus, model=model)) is not None:
                running[number] = model
            number += 1
        links = {job: topology.links_of(placer.held[job][1]) for job in running}
        profiles = {job: known[model] for job, model in running.items()}
        starts = {job: float(rng.uniform(0, each.period_s)) for job, each in profiles.items()}
        if shifted:
            gangs = {job: placer.held[job][1] for job in running}
            on = jobs_on_links(topology, gangs)
            found = joint_shifts(on, profiles, topology.capacities, slots=12, time_limit_s=2)
            starts = {job: found.shifts_s.get(job, 0.0) for job in running}
        jobs = {job: PhaseJob(profiles[job], links[job], starts[job]) for job in running}
        run = run_phases(jobs, topology.capacities, iterations=20)
        for job in running:
            took += (run.iterations_s(job) / profiles[job].period_s).tolist()
            marks.append(run.marks_gigabits[job] / run.end_s)
    return took, marks


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few draws")
    quick = parser.parse_args().quick
    speed_ups(12 if quick else 150)
    snapshots()
    scenarios()
    poisson(3 if quick else 30)


if __name__ == "__main__":
    main()
