"""Deciders, topologies, and what is done about links: iterations, completion times, tails, marks.

``python -m benchmarks.cassini.deciders [--quick] [--seeds 5] [--jobs 40]``. The workloads of
`benchmarks.cassini.hosts` on 24 servers; iterations as the engine of phases has them. Ratios are to
the same decider and workload without shifts, with 95 % intervals over paired seeds.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import apportion as ap
from apportion.sim.network import PhaseNetwork, get_topology
from apportion.statistics import mean_interval
from benchmarks.cassini.hosts import CLUSTER, harmonic_profiles, measured_profiles, workload

DECIDERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("max_min_fairness", "rounds", {"round_seconds": 600}),
    ("finish_time_fairness", "rounds", {"round_seconds": 600}),
    ("themis", "leases", {"lease_seconds": 600}),
    ("dally", "leases", {"lease_seconds": 600}),
    ("tiresias", "leases", {"lease_seconds": 600}),
)
TOPOLOGIES = ("cassini", "cassini_leaves_of_four", "leaves of four, pooled")
WAYS = {
    "none": ("consolidated", False),
    "phases": ("consolidated", True),
    "law": ("cassini", True),
    "program": ("cassini_program", True),
}
"""Placement, and whether jobs are shifted: none, shifts alone, shifts and the mean score of links,
shifts and the program."""


def topology_of(name: str) -> Any:
    """Return a topology; of pooled uplinks the tree alone."""
    known: Any = get_topology("cassini_leaves_of_four")
    return known.tree if name.endswith("pooled") else get_topology(name)


def figures(
    decider: tuple[str, str, dict[str, Any]],
    jobs: ap.Workload,
    way: tuple[str, bool],
    network: dict[str, Any],
) -> list[float]:
    """Iteration over alone, mean and P99 of completion times (hours), marks an iteration."""
    policy, mechanism, settings = decider
    placement, shifted = way
    run = ap.simulate(
        policy,
        jobs,
        CLUSTER,
        mechanism=mechanism,
        placement=placement,
        network=PhaseNetwork(shifted=shifted, **network),
        **settings,
    )
    hours = run.jobs["jct_s"] / 3600
    marks = run.tables["iteration_times"]["marks_gigabits"].to_numpy(dtype=float)[-1]
    slowdown = float(run.tables["links"]["slowdown"].mean())
    return [slowdown, float(hours.mean()), float(hours.quantile(0.99)), float(marks)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="8 jobs, two seeds, one decider")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=40)
    given = parser.parse_args()
    seeds, jobs = (2, 8) if given.quick else (given.seeds, given.jobs)
    deciders = DECIDERS[2:3] if given.quick else DECIDERS
    print(
        "| profiles | topology | decider | links | iteration / alone | mean JCT, h | P99, h "
        "| Gb marked an iteration | iteration: ratio | JCT: ratio |\n" + "|---" * 10 + "|"
    )
    for kind, profiles in (("models", measured_profiles()), ("harmonic", harmonic_profiles())):
        loads = [workload(profiles, jobs, seed) for seed in range(seeds)]
        for topology in TOPOLOGIES:
            network = {"profiles": profiles, "topology": topology_of(topology)}
            for decider in deciders:
                before: np.ndarray | None = None
                for name, way in WAYS.items():
                    rows = np.array([figures(decider, load, way, network) for load in loads])
                    before = rows if before is None else before
                    ratios = [mean_interval(rows[:, at] / before[:, at]) for at in (0, 1)]
                    means = " | ".join(f"{each:.3f}" for each in rows.mean(axis=0))
                    told = " | ".join(
                        f"{each.estimate:.3f} [{each.low:.3f}, {each.high:.3f}]" for each in ratios
                    )
                    print(
                        f"| {kind} | {topology} | {decider[0]} | {name} | {means} | {told} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
