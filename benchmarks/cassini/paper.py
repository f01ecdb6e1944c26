"""CASSINI's figures on one link, phase by phase: scores and gains, and the paper's five snapshots.

``python -m benchmarks.cassini.paper [--quick]``. Iterations come from `run_phases`, as seconds
over those of a job that is alone; the law is ``2 - score``.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np

import apportion as ap
from apportion.mechanism.time_shifts import score_of
from apportion.sim.links import PhaseJob, PhaseRun, crux_priorities, run_phases
from apportion.sim.network import communication_profile
from benchmarks.cassini.poisson import computing_s
from benchmarks.experiment import claimed
from benchmarks.papers.claims import Figure
from benchmarks.reporting import add_out, kept

if TYPE_CHECKING:
    from collections.abc import Sequence

GBPS = 50.0
SNAPSHOTS = (
    (("WideResNet101", "VGG16"), 0.28),
    (("VGG19", "VGG16", "ResNet50"), 0.31),
    (("VGG19", "VGG16"), 0.25),
    (("RoBERTa", "RoBERTa"), 0.57),
    (("BERT", "VGG19", "WideResNet101"), 0.42),
)
"""Models that the paper puts on a link, and a period with which they score as there."""

LOW = 0.7
"""Score below which the paper's snapshot gains little."""


def on_one_link(
    profiles: Sequence[ap.CommunicationProfile], shifts: Sequence[float], *, crux: bool = False
) -> PhaseRun:
    """Let jobs share a link, fairly or by Crux's priorities, as if all had as many GPUs."""
    jobs = {
        place: PhaseJob(profile, ("link",), shift)
        for place, (profile, shift) in enumerate(zip(profiles, shifts, strict=True))
    }
    if crux:
        work = {job: computing_s(each.profile) for job, each in jobs.items()}
        first = crux_priorities(jobs, work, {"link": GBPS})
        jobs = {
            job: PhaseJob(each.profile, each.links, each.start_s, priority=first[job])
            for job, each in jobs.items()
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
    """Score, iterations together, at random and shifted, marks of the last two, and Crux's."""
    found = ap.compatibility(profiles, GBPS)
    rng = np.random.default_rng(seed)
    starts = [[float(rng.uniform(0, each.period_s)) for each in profiles] for _ in range(5)]
    by_chance = [on_one_link(profiles, each) for each in starts]
    by_crux = [on_one_link(profiles, each, crux=True) for each in starts]
    together = on_one_link(profiles, [0.0] * len(profiles))
    shifted = on_one_link(profiles, found.shifts_s)
    return [
        found.score,
        longer(together, profiles),
        float(np.mean([longer(each, profiles) for each in by_chance])),
        longer(shifted, profiles),
        float(np.mean([sum(each.marks_gigabits.values()) / each.end_s for each in by_chance])),
        sum(shifted.marks_gigabits.values()) / shifted.end_s,
        float(np.mean([longer(each, profiles) for each in by_crux])),
    ]


def half(name: str, duty: float, period_s: float = 0.2) -> ap.CommunicationProfile:
    return ap.CommunicationProfile(name, period_s, [(0.0, duty * period_s, GBPS)])


def speed_ups(draws: int) -> dict[str, list[Figure]]:
    """Speed-up by the best score: 2 to 4 jobs of one period that send once at the full rate."""
    rng = np.random.default_rng(0)
    rows = []
    for seed in range(draws):
        duties = rng.uniform(0.2, 0.6, int(rng.integers(2, 5)))
        profiles = [half(str(place), float(duty)) for place, duty in enumerate(duties)]
        rows.append(gain(profiles, seed))
    print(
        "\n| best score | cases | together / shifted | random / shifted | law / simulated "
        "| random / Crux |\n|---|---|---|---|---|---|"
    )
    table, gains = np.array(rows), dict[str, float]()
    for low, high in ((-1, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.01)):
        part = table[(table[:, 0] >= low) & (table[:, 0] < high)]
        if len(part):
            score, together, chance, shifted = part[:, :4].T
            figures = [np.mean(together / shifted), np.mean(chance / shifted)]
            figures.append(np.mean((2 - score) / shifted))
            figures.append(np.mean(chance / part[:, 6]))
            gains[f"{low} to {high}"] = float(figures[0])
            shown = " | ".join(f"{each:.2f}" for each in figures)
            print(f"| {low} to {min(high, 1)} | {len(part)} | {shown} |")
    both = gain([half("a", 0.5), half("b", 0.5)], 0)
    print(f"\ntwo jobs at half duty: {both[1] / both[3]:.2f}, the most that two jobs gain")
    near = [Figure(bin_, gains[bin_]) for bin_ in ("0.4 to 0.6", "0.6 to 0.8") if bin_ in gains]
    return {"score": near, "two-jobs": [Figure("half duty", both[1] / both[3])]}


def of_period(model: str, period_s: float) -> ap.CommunicationProfile:
    """Return the profile of a model on four GPUs with a batch that makes an iteration so long."""
    sends = communication_profile(model, gpus=4)
    computes = period_s - sum(phase.duration_s for phase in sends.phases)
    return communication_profile(model, gpus=4, compute_s=computes)


def snapshots() -> dict[str, list[Figure]]:
    """Print a row for each snapshot, and return its gains."""
    gained: dict[str, list[Figure]] = {"snapshots": [], "snapshot-low": []}
    print(
        "\n| snapshot | score | random | shifted | speed-up | marks, Gb/s: random, shifted "
        "| Crux | speed-up |\n|---|---|---|---|---|---|---|---|"
    )
    for models, period_s in SNAPSHOTS:
        row = gain([of_period(model, period_s) for model in models], 0)
        figures = [row[0], row[2], row[3], row[2] / row[3]]
        gained["snapshots" if row[0] > LOW else "snapshot-low"].append(
            Figure(f"{row[0]:.2f}, {len(models)} jobs", row[2] / row[3])
        )
        shown = " | ".join(f"{each:.2f}" for each in figures)
        crux = f"{row[6]:.2f} | {row[2] / row[6]:.2f}"
        print(f"| {', '.join(models)} | {shown} | {row[4]:.1f}, {row[5]:.1f} | {crux} |")
    return gained


DEGREES = (5, 10, 20, 45, 90)
"""Precisions of angles; the paper's is the first."""


def precision(draws: int) -> dict[str, list[Figure]]:
    """Print what the best shift of drawn pairs of one period loses on so many angles."""
    rng = np.random.default_rng(0)
    lost: dict[int, list[float]] = {each: [] for each in DEGREES}
    for _ in range(draws):
        pair = [drawn(name, rng) for name in "ab"]
        best = ap.compatibility(pair, GBPS).score
        for degrees, losses in lost.items():
            shifts = np.arange(0, 360, degrees) / 360
            losses.append(best - max(score_of(pair, GBPS, [0.0, float(each)]) for each in shifts))
    print("\n| degrees | score lost: mean | most |\n|---|---|---|")
    for degrees, losses in lost.items():
        print(f"| {degrees} | {np.mean(losses):.4f} | {max(losses):.4f} |")
    return {"precision": [Figure("", max(lost[DEGREES[0]]))]}


def drawn(name: str, rng: np.random.Generator) -> ap.CommunicationProfile:
    """Draw a profile of a second with one to three phases of 10 to 50 Gb/s."""
    cuts = np.sort(rng.uniform(0, 1, 2 * int(rng.integers(1, 4)))).tolist()
    spans = zip(cuts[::2], cuts[1::2], strict=True)
    phases = [(start, end - start, float(rng.uniform(10, GBPS))) for start, end in spans]
    return ap.CommunicationProfile(name, 1.0, phases)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few draws")
    add_out(parser)
    given = parser.parse_args()
    with kept(given.out, "cassini_paper"):
        run(given)


def run(given: argparse.Namespace) -> None:
    quick = given.quick
    found = speed_ups(12 if quick else 150) | snapshots() | precision(3 if quick else 100)
    for name, figures in found.items() if not quick else ():
        claimed("cassini", name, figures)


if __name__ == "__main__":
    main()
