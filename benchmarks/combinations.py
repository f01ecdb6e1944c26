"""Parts of the simulator combined: every row is a run, and its schedule is checked.

``python -m benchmarks.combinations`` draws jobs for racks with speeds on two accelerator types and
runs them in five ways; ``--only NAME`` runs one of them:

* ``policies_over_types_and_tiers``: policies over options (type, tier), carried out by leases;
* ``offers_on_two_types``: schedulers that offer GPUs, on racks of two types;
* ``networks_in_rounds``: every network model under a policy in rounds;
* ``space_sharing_on_racks``: pairs of jobs that share GPUs, slowed by each other and a network;
* ``placements``: every placement in rounds and under leases.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.cluster import TIERS
from apportion.mechanism import PLACEMENTS
from apportion.mechanisms.configurations import ON_LINKS
from apportion.pairs import PairThroughputs
from apportion.sim.network import BY_SHAPE
from benchmarks.reporting import machine, progress, show, write_csv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apportion.sim import Workload

    Case = tuple[str, dict[str, Any]]

CLUSTER = ap.Cluster.of_racks({"v100": 2, "k80": 2}, machines_per_rack=2, gpus_per_machine=4)
LARGEST_GANG = 8
JOBS, QUICK_JOBS = 50, 12
SEED = 0
K80_SPEED = (0.2, 0.6)
"""Least and most speed of a model on a K80 over that on a V100."""
BESIDE = 0.7
"""Speed of a job beside another on the same GPUs, over that alone."""
POLICIES = ("max_min_fairness", "max_total_throughput", "finish_time_fairness", "fifo")
SHARED = "max_min_fairness_space_sharing"


def main() -> None:
    """Run the combinations, print a table of each and write it."""
    options = _options()
    print(f"Combinations on {CLUSTER}, {machine()}")
    workload = draw(QUICK_JOBS if options.quick else JOBS)
    for name in [options.only] if options.only else COMBINATIONS:
        rows = []
        for case, arguments in COMBINATIONS[name]():
            progress(f"{name}: {case}")
            rows.append({"run": case, **_figures(workload, **arguments)})
        progress("")
        print(f"\n{name.replace('_', ' ')}:")
        show(pd.DataFrame(rows), digits=4)
        write_csv(pd.DataFrame(rows), options.out, f"combinations_{name}")
    print(
        "\nHours; % of the GPU-hours held on V100s and, under leases, in one machine, one rack and "
        "over racks.\nEvery schedule was checked by `apportion.check_schedule`."
    )


def draw(jobs: int) -> Workload:
    """Draw a batch of jobs with speeds on two types, and beside gangs of their size."""
    drawn = ap.generate_rack_workload(jobs=jobs, seed=SEED, max_scale_factor=LARGEST_GANG)
    speed = drawn.throughputs["gpu"]
    ratio = np.random.default_rng(SEED).uniform(*K80_SPEED, len(speed))
    speeds = pd.DataFrame({"v100": speed, "k80": speed * ratio})
    gpus = speeds.index.get_level_values("scale_factor").to_numpy()
    alone = speeds.to_numpy()
    beside = np.where((gpus[:, None] == gpus)[:, :, None], BESIDE * alone[:, None, :], 0.0)
    keys = pd.MultiIndex.from_tuples(speeds.index.tolist(), names=speeds.index.names)
    pairs = PairThroughputs(beside, alone, keys, ("v100", "k80"))
    return replace(drawn, throughputs=speeds, pairs=pairs)


def _policies_over_types_and_tiers() -> Iterator[Case]:
    for policy in POLICIES:
        yield policy, {"policy": policy, "mechanism": "leases"}


def _offers_on_two_types() -> Iterator[Case]:
    for scheduler in ap.scheduler_table("leases")["name"]:
        yield scheduler, {"policy": scheduler}


def _networks_in_rounds() -> Iterator[Case]:
    for network in (*BY_SHAPE, "contention"):
        yield network, {"policy": POLICIES[0], "mechanism": "rounds", "network": network}


def _space_sharing_on_racks() -> Iterator[Case]:
    for network in ("none", "table1"):
        for policy in (POLICIES[0], SHARED):
            arguments = {"policy": policy, "mechanism": "rounds", "network": network}
            yield f"{policy}, {network}", arguments


def _placements() -> Iterator[Case]:
    for placement in sorted({*PLACEMENTS} - {*ON_LINKS}):
        for policy, mechanism in ((POLICIES[0], "rounds"), ("dally", "leases")):
            arguments = {"policy": policy, "mechanism": mechanism, "placement": placement}
            yield f"{placement}, {mechanism}", {**arguments, "network": "table1"}


COMBINATIONS: dict[str, Callable[[], Iterator[Case]]] = {
    "policies_over_types_and_tiers": _policies_over_types_and_tiers,
    "offers_on_two_types": _offers_on_two_types,
    "networks_in_rounds": _networks_in_rounds,
    "space_sharing_on_racks": _space_sharing_on_racks,
    "placements": _placements,
}


def _figures(workload: Workload, **arguments: Any) -> dict[str, float]:
    """Run, check the schedule, and say how long jobs took and where they were."""
    run = ap.simulate(
        workload=workload, cluster=CLUSTER, seed=SEED, preemption_overhead_seconds=0.0, **arguments
    )
    ap.check_schedule(run, workload, CLUSTER, sharing=arguments["policy"] == SHARED)
    jobs = run.jobs
    figures: dict[str, float] = {
        "mean JCT": float(jobs["jct_s"].mean()) / 3600,
        "p95 JCT": float(jobs["jct_s"].quantile(0.95)) / 3600,
    }
    figures["makespan"] = (jobs["completion_s"].max() - jobs["arrival_s"].min()) / 3600
    held = {name: (jobs[f"{name}_s"] * jobs["scale_factor"]).sum() for name in CLUSTER.gpus}
    figures["V100 %"] = 100 * held["v100"] / sum(held.values())
    for tier in TIERS:
        part = run.rounds[f"{tier}_gpus"].sum() if f"{tier}_gpus" in run.rounds else np.nan
        figures[f"{tier} %"] = 100 * part / sum(held.values())
    return figures


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.combinations")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_JOBS} jobs")
    parser.add_argument("--only", choices=list(COMBINATIONS), help="one of the combinations")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write csv files")
    return parser.parse_args()


if __name__ == "__main__":
    main()
