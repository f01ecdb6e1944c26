"""CPU seconds of a whole decision: one option for each job, proved to be the best.

``python -m benchmarks.whole`` times the decision of a round, from arrays to arrays, with everything
that is done for it: the declaration, its compilation, the relaxation, the proof. Jobs run the
faster the more GPUs they hold, to a power of their own, at another speed on each type.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import cvxpy as cp
import numpy as np
import pandas as pd
from scipy import sparse

from apportion.policies import Instance, Policy, solve_instance
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.policies.problem import Problem


class Fastest(Policy):
    """Maximise the sum of steps/s."""

    name = "fastest"
    source = "a benchmark"
    integral = True

    def objective(self, p: Problem) -> cp.Maximize:
        """Sum the speeds."""
        return cp.Maximize(p.total(cp.sum(cp.multiply(p.speed, p.X), axis=1)))


class LeastRanks(Policy):
    """Give each worker of a gang a GPU, those of the least rank."""

    name = "least_ranks"
    source = "a benchmark"
    integral = True

    def objective(self, p: Problem) -> cp.Minimize:
        """Sum the ranks."""
        rank = np.random.default_rng(0).permutation(p.X.shape[1])[None, :]
        return cp.Minimize(p.total(cp.sum(cp.multiply(rank, p.X), axis=1)))

    def constraints(self, p: Problem) -> list[cp.Constraint]:
        """Leave no worker without one."""
        return [(p.time == 1).set_label("a GPU for each worker")]


def jobs_on(gpus: Sequence[int], capacity: Sequence[int], jobs: int, seed: int) -> Instance:
    """Draw jobs with an option for each type and number of GPUs."""
    rng = np.random.default_rng(seed)
    power, speed = rng.uniform(0.5, 0.95, (jobs, 1)), rng.uniform(1, 3, (jobs, len(capacity)))
    each = np.tile(np.asarray(gpus, dtype=float), len(capacity))
    steps = speed.repeat(len(gpus), axis=1) * each**power
    types = np.repeat(np.arange(len(capacity)), len(gpus))
    return Instance.of_options(steps, each, capacity, option_accelerator=types)


def in_classes(classes: Instance, jobs: int, seed: int) -> Instance:
    """Draw jobs of which many are alike."""
    kind = np.random.default_rng(seed).integers(0, classes.jobs, jobs)
    return classes.subset(kind, np.ones(jobs))


def gang_on(gpus: int, workers: int) -> Instance:
    """One gang whose workers each take a GPU, which is an option and a resource."""
    return Instance.of_options(
        np.ones((1, gpus)),
        np.zeros(gpus),
        [0.0],
        columns={"count": [float(workers)]},
        usage=sparse.csr_array(np.eye(gpus).reshape(1, -1)),
        resource_capacity=np.ones(gpus),
    )


class Case(NamedTuple):
    """A policy, an instance by seed, the gap asked for, and the CPU seconds that are the goal."""

    policy: Policy
    draw: Callable[[int], Instance]
    gap: float
    goal_s: float


FEW, MANY = (1, 2, 4, 8, 12, 16), (1, 2, 4, 8, 16, 32, 64, 96, 128, 256)
THIRTY = (3000, 2000, 1000)
CASES = {
    "70 jobs, 64 GPUs, 3 types": Case(
        Fastest(), lambda seed: jobs_on(FEW, (24, 24, 16), 70, seed), 1e-9, 0.1
    ),
    "240 jobs, 2,048 GPUs, 3 types": Case(
        Fastest(), lambda seed: jobs_on(MANY, (1024, 512, 512), 240, seed), 1e-6, 0.5
    ),
    "640 jobs, 256 GPUs, 1 type": Case(
        Fastest(), lambda seed: jobs_on(range(1, 65), (256,), 640, seed), 1e-9, 0.05
    ),
    "10,000 jobs in 30 classes, 6,000 GPUs": Case(
        Fastest(), lambda seed: in_classes(jobs_on(FEW, THIRTY, 30, seed), 10_000, seed), 1e-9, 0.05
    ),
    "a gang of 8 on 64 GPUs": Case(LeastRanks(), lambda _: gang_on(64, 8), 1e-9, 0.01),
}


def timed(name: str, seeds: int, repeats: int) -> dict[str, object]:
    """Time one case, the median over seeds, each the best of some repeats."""
    case = CASES[name]
    seconds, gaps, ways, options = [], [], set(), 0
    for seed in range(seeds):
        instance = case.draw(seed)
        options, found = instance.options, solve_instance(case.policy, instance, gap=case.gap)
        best = np.inf
        for _ in range(repeats):
            started = time.process_time()
            solve_instance(case.policy, instance, gap=case.gap)
            best = min(best, time.process_time() - started)
        seconds.append(best)
        gaps.append(found.gap)
        ways.add(str(found.stats["proved_by"]))
    return {
        "case": name,
        "options": options,
        "CPU s": statistics.median(seconds),
        "most": max(seconds),
        "goal": case.goal_s,
        "gap": max(gaps),
        "proved by": ", ".join(sorted(ways)),
    }


def main() -> None:
    """Time every case."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.whole", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one draw of each, once")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write a csv file")
    options = parser.parse_args()
    print(f"Whole decisions on {machine()}")
    seeds, repeats = (1, 1) if options.quick else (5, 3)
    table = pd.DataFrame([timed(name, seeds, repeats) for name in CASES])
    show(table)
    if options.out is not None:
        write_csv(table, options.out, "whole")


if __name__ == "__main__":
    main()
