"""Placement and rotation in one program: how long it takes, and how near to the optimum it comes.

``python -m benchmarks.cassini.program [--quick]``. Gangs of 2 to 6 GPUs hold 90 % of the GPUs,
one in a server, leaves of eight servers with an uplink of 160 Gb/s; each may come to four places
within 32 GPUs. They send 20 to 50 % of 0.24 or 0.48 s.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import apportion as ap
from apportion.sim.network import leaf_spine
from apportion.sim.shifts import GangPlacement
from benchmarks.reporting import add_out, kept

PLACES, BLOCK = 4, 32


def draw(gpus: int, seed: int) -> ap.PlacedGangs:
    """Gangs scattered over blocks of servers, with places of their own to choose from."""
    rng = np.random.default_rng(seed)
    where = np.concatenate([first + rng.permutation(BLOCK) for first in range(0, gpus, BLOCK)])
    profiles, used = dict[str, ap.CommunicationProfile](), 0
    gangs: dict[str, list[list[int]]] = {}
    while used < 0.9 * gpus - 6:
        job, size = f"job {len(gangs)}", int(rng.integers(2, 7))
        period_s = float(rng.choice([0.24, 0.48]))
        sends_s = float(rng.uniform(0.2, 0.5)) * period_s
        profiles[job] = ap.CommunicationProfile(job, period_s, [(0.0, sends_s, 50.0)])
        own = where[used : used + size]
        first = int(own[0]) // BLOCK * BLOCK
        drawn = [first + rng.permutation(BLOCK)[:size] for _ in range(PLACES - 1)]
        gangs[job] = [own.tolist(), *(each.tolist() for each in drawn)]
        used += size
    topology = leaf_spine(
        "leaves of eight",
        servers=gpus,
        gpus_per_server=1,
        servers_per_leaf=8,
        server_gbps=50.0,
        oversubscription=2.5,
    )
    return ap.PlacedGangs(profiles, gangs, topology)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="64 GPUs, 2 s")
    parser.add_argument("--seconds", type=float, default=20.0, help="for the proof")
    add_out(parser)
    given = parser.parse_args()
    with kept(given.out, "cassini_program"):
        run(given)


def run(given: argparse.Namespace) -> None:
    sizes = (64,) if given.quick else (64, 128, 256, 512, 1024, 2048)
    seconds = 2.0 if given.quick else given.seconds
    print(
        "| GPUs | gangs | first places, turned | found: iteration over alone | gap | proved by "
        "| CPU s |\n|---|---|---|---|---|---|---|"
    )
    for gpus in sizes:
        posed = draw(gpus, 0)
        fixed = {job: places[0] for job, places in posed.candidates.items()}
        began = time.process_time()
        one = ap.PlacedGangs(posed.profiles, fixed, posed.topology)
        turned = ap.solve("placement_and_rotation", one, time_limit_s=0.5)
        middle = time.process_time()
        found = ap.solve("placement_and_rotation", posed, time_limit_s=seconds)
        took = time.process_time() - middle
        assert isinstance(found, GangPlacement)
        assert isinstance(turned, GangPlacement)
        print(
            f"| {gpus} | {len(fixed)} | {turned.slowdowns.mean():.3f} ({middle - began:.1f} s) "
            f"| {found.slowdowns.mean():.3f} | {found.gap:.1e} | {found.stats['proved_by'] or '-'} "
            f"| {took:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
