"""Seconds that the placement of CASSINI takes for a gang, by the size of the cluster.

``python -m benchmarks.cassini.decisions [--quick] [--gpus 64,256,1024,2048]``. Gangs of 2 to 8 GPUs
fill nine tenths of machines of one GPU, eight in a rack, then come and go: ten candidates for
each, models of the paper.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import apportion as ap
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import Gang
from apportion.sim.network import get_network
from apportion.sim.network.cassini import CassiniNetwork
from apportion.sim.network.model import pace_of
from benchmarks.reporting import add_out, kept

MODELS = ("VGG11", "VGG16", "ResNet50", "BERT", "RoBERTa", "CamemBERT")
DECISIONS = 20


def decisions(gpus: int, seed: int = 0) -> tuple[int, list[float]]:
    """Gangs that run, and CPU seconds of the decisions when they come and go."""
    cluster = ap.Cluster({"a100": gpus}, gpus_per_machine=1, machines_per_rack=8)
    pace = pace_of(get_network(CassiniNetwork(), cluster=cluster))
    placer = Placer(cluster, "cassini", seed, pace=pace)
    rng = np.random.default_rng(seed)
    running: list[int] = []
    free = placer.pools[0].free_devices
    taken: list[float] = []
    number = 0
    while len(taken) < DECISIONS:
        full = len(free) <= 0.1 * gpus
        while full and len(free) <= 0.1 * gpus:
            gone = running.pop(int(rng.integers(len(running))))
            placer.release([gone])
            free = placer.pools[0].free_devices
        started = time.process_time()
        gang = Gang(number, int(rng.integers(2, 9)), model=str(rng.choice(MODELS)))
        if placer.give(gang) is not None:
            running.append(number)
        if full or taken:
            taken.append(time.process_time() - started)
        number += 1
        free = placer.pools[0].free_devices
    return len(running), taken


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gpus", default="64,256,1024,2048")
    parser.add_argument("--quick", action="store_true", help="64 and 256 GPUs")
    add_out(parser)
    given = parser.parse_args()
    with kept(given.out, "cassini_decisions"):
        run(given)


def run(args: argparse.Namespace) -> None:
    print("| GPUs | gangs | median CPU s a decision | most |\n|---|---|---|---|")
    for gpus in map(int, ("64,256" if args.quick else args.gpus).split(",")):
        gangs, taken = decisions(gpus)
        print(f"| {gpus:,} | {gangs} | {np.median(taken):.3f} | {max(taken):.3f} |", flush=True)


if __name__ == "__main__":
    main()
