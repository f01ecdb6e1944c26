"""How near `apportion.compatibility` comes to long searches, and how long it takes.

``python -m benchmarks.cassini.solvers [--jobs 4,5,6,8] [--instances 50] [--kicks 5000]`` compares
it with a plain iterated local search over 72 slots, one chain of so many kicks. All edges lie on
slots, so that the optimum does too. Loads are .7 to 1.15 of the link.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

import apportion as ap
from benchmarks.reporting import add_out, kept

Floats = NDArray[np.float64]

CAPACITY_GBPS = 50.0
SLOTS = 72


def instance(seed: int, jobs: int) -> list[Floats]:
    """Demand of each job in every slot of its period; every other instance has several periods."""
    rng = np.random.default_rng([seed, jobs, seed % 2])
    demands = []
    for _ in range(jobs):
        period = int(rng.choice([24, 36, 72])) if seed % 2 else SLOTS
        phases = int(rng.integers(1, 4))
        cuts = np.sort(rng.choice(period, 2 * phases, replace=False))
        demand = np.zeros(period)
        for begin, end in cuts.reshape(-1, 2):
            demand[begin:end] = rng.integers(10, 51)
        demands.append(demand)
    load = sum(demand.mean() for demand in demands) / CAPACITY_GBPS
    scale = rng.uniform(0.7, 1.15) / load
    return [np.minimum(CAPACITY_GBPS, demand * scale) for demand in demands]


def profiles(demands: list[Floats]) -> list[ap.CommunicationProfile]:
    return [
        ap.CommunicationProfile.in_turn(str(job), [(1.0, float(each)) for each in demand])
        for job, demand in enumerate(demands)
    ]


def long_search(demands: list[Floats], kicks: int, seed: int = 1) -> float:
    """Best score of iterated local search over slots."""
    rng = np.random.default_rng(seed)
    slots = int(np.lcm.reduce([demand.size for demand in demands]))
    turned = [
        np.stack([np.roll(np.tile(demand, slots // demand.size), at) for at in range(demand.size)])
        for demand in demands
    ]

    def descend(rotations: list[int]) -> float:
        load = sum(each[at] for each, at in zip(turned, rotations, strict=True))
        reached = float(np.maximum(0, load - CAPACITY_GBPS).sum())
        while True:
            before = reached
            for job in range(1, len(turned)):
                load = load - turned[job][rotations[job]]
                excess = np.maximum(0, load + turned[job] - CAPACITY_GBPS).sum(axis=1)
                rotations[job] = int(excess.argmin())
                reached = float(excess[rotations[job]])
                load = load + turned[job][rotations[job]]
            if reached >= before - 1e-9:
                return reached

    rotations = [0] * len(turned)
    best = here = descend(rotations)
    mean = sum(float(demand.mean()) for demand in demands)
    least = max(0.0, mean - CAPACITY_GBPS) * slots
    for _ in range(kicks):
        if best <= least + 1e-7:
            break
        trial = list(rotations)
        for job in rng.integers(1, len(turned), 2):
            trial[job] = int(rng.integers(demands[job].size))
        excess = descend(trial)
        if excess <= 1.02 * here:
            rotations, here = trial, excess
        best = min(best, excess)
    return 1 - best / (slots * CAPACITY_GBPS)


def compared(jobs: int, instances: int, kicks: int) -> dict[str, float]:
    """Loss of score against the long search, over instances, and seconds."""
    losses, taken, exact = [], [], 0
    for seed in range(instances):
        demands = instance(seed, jobs)
        on_link = profiles(demands)
        start = time.process_time()
        found = ap.compatibility(on_link, CAPACITY_GBPS)
        taken.append(time.process_time() - start)
        exact += found.proof == "exact"
        losses.append(long_search(demands, kicks) - found.score)
    return {
        "jobs": jobs,
        "largest_loss": max(losses),
        "mean_loss": float(np.mean(losses)),
        "exact": exact,
        "mean_cpu_s": float(np.mean(taken)),
        "most_cpu_s": max(taken),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default="2,3,4,5,6,8")
    parser.add_argument("--instances", type=int, default=50)
    parser.add_argument("--kicks", type=int, default=5000)
    parser.add_argument("--quick", action="store_true", help="5 instances, 200 kicks")
    add_out(parser)
    given = parser.parse_args()
    with kept(given.out, "cassini_solvers"):
        run(given)


def run(args: argparse.Namespace) -> None:
    instances, kicks = (5, 200) if args.quick else (args.instances, args.kicks)
    heads = ("jobs", "largest loss", "mean loss", "solved exactly", "mean CPU s", "most CPU s")
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for jobs in map(int, args.jobs.split(",")):
        row = compared(jobs, instances, kicks)
        print(
            f"| {jobs} | {row['largest_loss']:.4f} | {row['mean_loss']:.5f} | {row['exact']} "
            f"| {row['mean_cpu_s']:.3f} | {row['most_cpu_s']:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
