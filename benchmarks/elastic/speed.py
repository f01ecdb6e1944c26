"""CPU seconds of a decision about elastic jobs, from 64 to 2,048 GPUs.

``python -m benchmarks.elastic.speed`` lets generated jobs, all there at the beginning, be scheduled
for some intervals, and takes the CPU time of each decision in the scheduler: goodputs of all jobs
under all options, problem, solution and proof. It prints median and 95th percentile, and beside
them what Sia's paper has (SOSP 2023, section 5; another machine, other jobs).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.sim.elastic.choice import PolicyChoice
from apportion.statistics import to_markdown
from benchmarks.reporting import machine, write_csv

JOBS = {64: 70, 256: 120, 1024: 240, 2048: 240}
POLICIES = ("pollux", "sia", "deepboot")
PAPER = {("sia", 64): "96 / 426 ms", ("pollux", 64): "2.2 / 4.8 s", ("sia", 2048): "about 1 s"}


class _EnoughError(Exception):
    """As many decisions as were asked for."""


def decisions_s(policy: str, cluster: dict[str, int], jobs: int, count: int) -> list[float]:
    """Return the CPU seconds of the first decisions about so many jobs that arrive at once.

    The very first, which fits models of applications, is left out.
    """
    made = ap.generate_elastic_workload(jobs, hours=1e-3, seed=0)
    seconds: list[float] = []
    choose = PolicyChoice.choose

    def timed(choice: PolicyChoice, asked: Any) -> Any:
        started = time.process_time()
        option = choose(choice, asked)
        if asked.jobs.size == jobs:
            seconds.append(time.process_time() - started)
        if len(seconds) > count:
            raise _EnoughError
        return option

    PolicyChoice.choose = timed  # type: ignore[method-assign,assignment]
    try:
        ap.simulate(policy, made, cluster)
    except _EnoughError:
        pass
    finally:
        PolicyChoice.choose = choose  # type: ignore[method-assign]
    return seconds[1:]


def main() -> None:
    """Run and print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--quick", action="store_true", help="16 GPUs, 8 jobs, 3 decisions")
    options.add_argument("--gpus", type=int, nargs="+", default=list(JOBS), choices=list(JOBS))
    options.add_argument("--types", type=int, default=1, choices=(1, 3), help="of GPUs")
    options.add_argument("--decisions", type=int, default=20)
    options.add_argument("--out", type=Path, metavar="DIR")
    args = options.parse_args()
    sizes = {16: 8} if args.quick else {size: JOBS[size] for size in args.gpus}
    rows = []
    for size, jobs in sizes.items():
        for policy in POLICIES:
            names = ["t4", "rtx", "a100"][: args.types]
            cluster = {name: size // args.types // 4 * 4 for name in names}
            cluster["t4"] += size - sum(cluster.values())
            found = decisions_s(policy, cluster, jobs, 3 if args.quick else args.decisions)
            row: dict[str, Any] = {"policy": policy, "GPUs": size, "types": args.types}
            row |= {"jobs": jobs, "decisions": len(found), "median s": float(np.median(found))}
            row |= {"p95 s": float(np.percentile(found, 95)), "most s": max(found)}
            row["paper, median / p95"] = PAPER.get((policy, size), "-")
            rows.append(row)
            print(f"{policy}, {size} GPUs: median {row['median s']:.3g} s", flush=True)
    table = pd.DataFrame(rows)
    print(f"\n{to_markdown(table)}")
    write_csv(table, args.out, f"elastic_speed_{args.types}", bars=True)
    print(machine())


if __name__ == "__main__":
    main()
