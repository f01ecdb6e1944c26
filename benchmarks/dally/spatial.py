"""One round of gangs placed by an integer program, beside its linear bound and first fit.

``python -m benchmarks.dally.spatial`` draws jobs with the network overheads of Dally's table I,
gangs of many sizes and delay timers that have run out for some. It places one round on an empty
cluster by `apportion.place_round`, and by first fit in order of priority. Values are those of
``network_sensitive``, whose optimum over shares of time bounds them both.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.cluster import TIERS
from apportion.sim.network import TABLE1_PERCENT
from benchmarks.reporting import machine, progress, show, write_csv

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = ((20, 16), (60, 32), (120, 64))
SEEDS, QUICK_SEEDS = 5, 1
GPUS_PER_MACHINE = MACHINES_PER_RACK = 8
GANGS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48)
MACHINE_TIMER_S, RACK_TIMER_S = 12 * 3600.0, 24 * 3600.0
LIMIT_S = 60.0


def main() -> None:
    """Place rounds of every size, print the table and write it."""
    options = _options()
    print(f"One round on {machine()}")
    sizes = SIZES[:1] if options.quick else SIZES
    rows = []
    for jobs, machines in sizes:
        for seed in range(QUICK_SEEDS if options.quick else SEEDS):
            progress(f"{jobs} jobs, {machines} machines, seed {seed}")
            rows.append(_row(jobs, machines, seed))
    progress("")
    runs = pd.DataFrame(rows)
    by_size = runs.groupby(["jobs", "machines"], sort=False)
    means = by_size.mean(numeric_only=True).drop(columns=["seed", "proved"])
    means["optimal"] = by_size["proved"].sum()
    means = means.reset_index()
    show(means, digits=4)
    print(
        f"\nMeans of {runs['seed'].nunique()} seeds; CPU seconds. wanted: GPUs of all gangs over "
        f"those of the cluster.\noptimal: rounds proved within {LIMIT_S:g} s. bound: optimum over "
        "shares of time over the value of the\nround, 1 or more. first fit: its value over that of "
        "the round, 1 or less; jobs in order of priority,\neach at the tightest tier that is open "
        "to it and free."
    )
    write_csv(runs, options.out, "dally_spatial_runs")
    write_csv(means, options.out, "dally_spatial")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dally.spatial")
    parser.add_argument("--quick", action="store_true", help="the smallest size, one seed")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write csv files")
    return parser.parse_args()


def _row(jobs: int, machines: int, seed: int) -> dict[str, Any]:
    """Place one round in both ways and bound it."""
    cluster = ap.Cluster.of_racks(machines // MACHINES_PER_RACK)
    speed, table = _problem(cluster, jobs, seed)
    shares, bound_s = _timed(
        lambda: ap.solve("network_sensitive", speed, workers=cluster, jobs=table)
    )
    urgency = 1 / table["network_priority"].clip(lower=1e-3)
    value = speed.droplevel(0, axis=1).mul(urgency / speed.max(axis=1), axis=0)
    gang, free = table["scale_factor"], cluster.racks("gpu")
    placed, round_s = _timed(
        lambda: ap.place_round(value, gang, [rack.tolist() for rack in free], time_limit_s=LIMIT_S)
    )
    first, first_s = _timed(
        lambda: _first_fit(value, gang, table["network_priority"], np.array(free))
    )
    return {
        "jobs": jobs,
        "machines": machines,
        "seed": seed,
        "wanted": gang.sum() / cluster.total_gpus,
        "shares s": bound_s,
        "round s": round_s,
        "first fit s": first_s,
        "bound": shares.objective / placed.objective,
        "first fit": first / placed.objective,
        "gap": placed.gap,
        "proved": placed.status == "optimal",
    }


def _problem(cluster: ap.Cluster, jobs: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw jobs: steps/s on the tiers that are open to them, gangs and priorities."""
    rng = np.random.default_rng(seed)
    overhead = np.array(list(TABLE1_PERCENT.values()))[rng.integers(0, len(TABLE1_PERCENT), jobs)]
    gang = rng.choice(GANGS, jobs)
    speed = pd.DataFrame(
        rng.uniform(1, 20, (jobs, 1)) / (1 + overhead / 100 * (gang[:, None] > 1)),
        columns=pd.MultiIndex.from_product([["gpu"], TIERS]),
    )
    priority = np.where(rng.random(jobs) < 0.1, 0.05, rng.uniform(0.05, 1.0, jobs))
    table = pd.DataFrame({"scale_factor": gang, "network_priority": priority})
    may = ap.eligible(
        speed,
        workers=cluster,
        jobs=table,
        waited_s=pd.Series(rng.uniform(0, 36 * 3600, jobs)),
        machine_timer_s=MACHINE_TIMER_S,
        rack_timer_s=RACK_TIMER_S,
    )
    return may.tensor.values.droplevel("row"), table


def _first_fit(
    value: pd.DataFrame, gang: pd.Series, priority: pd.Series, free: np.ndarray[Any, Any]
) -> float:
    """Serve jobs in order of priority, each at the tightest tier that is open to it and free.

    `free` holds the GPUs of each machine, shape (racks, machines).
    """
    free, total = free.copy(), 0.0
    worth, sizes = value.to_numpy(), gang.to_numpy()
    for job in np.argsort(priority.to_numpy(), kind="stable"):
        size = sizes[job]
        machines = (free[rack, one : one + 1] for rack, one in np.ndindex(free.shape))
        for tier, groups in enumerate((machines, iter(free), iter([free.reshape(-1)]))):
            room = next((group for group in groups if group.sum() >= size), None)
            if worth[job, tier] > 0 and room is not None:
                before = np.cumsum(room) - room
                room -= np.clip(size - before, 0, room)
                total += float(worth[job, tier])
                break
    return total


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call gives and its CPU seconds."""
    started = time.process_time()
    result = call()
    return result, time.process_time() - started


if __name__ == "__main__":
    main()
