"""The measurement of Ada-SRSF's introduction, 295 s alone and 675 s with three others, modelled.

``python -m benchmarks.ada_srsf.measurement``: four equal jobs, each with one GPU on each of four
nodes of four GPUs and 10 Gb Ethernet, against one such job alone. The paper (Wang et al.,
"Communication Contention Aware Scheduling of Multiple Deep Learning Training Jobs", section 1) does
not name the model; here are the four of its Table III, with its law of contention (Equation 5).
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.mechanism.gates import GATES, HOLD, START
from apportion.sim.links import ETHERNET_10G, LinkEngine, SharedCost, in_phases
from apportion.sim.links.iteration import Phase
from apportion.sim.network.models.trained import TABLE_III
from benchmarks.experiment import claimed
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.gates import Flow, Gate, LinksView
    from apportion.sim.links import Iteration
    from apportion.sim.network.models.trained import TableIII

PAPER = 675 / 295
NODES, JOBS = 4, 4
ITERATIONS, QUICK_ITERATIONS = 400, 20
JITTER = 0.2
NO_PENALTY = SharedCost(penalty_s_per_byte=0.0)


class InTurn:
    """Lets one transfer at a time have the links, that of the job that has had them least often."""

    name = "in_turn"

    def __init__(self) -> None:
        self._times: Counter[int] = Counter()

    def decide(self, now_s: float, flow: Flow, links: LinksView) -> float:
        """Let the job start whose turn it is."""
        if links.flows or any(
            self._times[other.job] < self._times[flow.job] for other in links.waiting
        ):
            return HOLD
        self._times[flow.job] += 1
        return START


def main() -> None:
    """Print by how much four jobs slow each other down, for each model and way to share."""
    what = argparse.ArgumentParser(description=__doc__)
    what.add_argument("--quick", action="store_true", help=f"{QUICK_ITERATIONS} iterations")
    what.add_argument("--out", type=Path, metavar="DIR", help="write csv files and pictures")
    options = what.parse_args()
    times = QUICK_ITERATIONS if options.quick else ITERATIONS
    print(f"Four jobs on four nodes, on {machine()}")
    print(
        f"Time of four at once over one alone; measured in the paper: 675 s / 295 s = {PAPER:.2f}"
    )
    table = pd.DataFrame([_model(name, row, times) for name, row in TABLE_III.items()])
    show(table)
    figures = [
        Figure(str(name), float(value))
        for name, value in zip(table["model"], table["in step"], strict=True)
    ]
    claimed("ada_srsf", "slowdown", figures)
    write_csv(table, options.out, "ada_srsf_measurement", bars=True)


def _model(name: str, row: TableIII, times: int) -> dict[str, object]:
    """Return what each way to share the links makes of four jobs of a model."""
    steady = [_iteration(row, np.ones(times))] * JOBS
    rng = np.random.default_rng(0)
    factors = np.maximum(rng.normal(1.0, JITTER, (JOBS, times)), 0.0)
    shaky = [_iteration(row, of_job) for of_job in factors]
    alone_s, alone_shaky_s = _mean_s(steady[:1]), float(np.mean([_mean_s([one]) for one in shaky]))
    ways = {
        "in step": _mean_s(steady) / alone_s,
        "compute +-20 %": _mean_s(shaky) / alone_shaky_s,
        "in step, eta = 0": _mean_s(steady, law=NO_PENALTY) / alone_s,
        "one at a time": _mean_s(steady, InTurn()) / alone_s,
        "one at a time, +-20 %": _mean_s(shaky, InTurn()) / alone_shaky_s,
    }
    return {"model": name, "alone, s per iteration": alone_s / times, **ways}


def _iteration(row: TableIII, factors: Sequence[float] | np.ndarray) -> Iteration:
    """Return all iterations of a job as one, the compute of each by its own factor."""
    compute_s, size = sum(row.passes_s()), row.megabytes * 1e6
    return in_phases(
        phase for factor in factors for phase in (Phase(compute_s * factor), Phase(size=size))
    )


def _mean_s(
    jobs: list[Iteration], gate: Gate | str = "always", law: SharedCost = ETHERNET_10G
) -> float:
    """Return the mean completion time of jobs that begin together, each on all nodes."""
    engine = LinkEngine(NODES * JOBS, NODES, law, GATES.of(gate))
    for number, job in enumerate(jobs):
        gpus = [JOBS * node + number for node in range(NODES)]
        engine.add(number, job, 1, gpus, list(range(NODES)), (number, 0), 0.0)
    _, finished = engine.run(0.0, np.inf, to_completion=False)
    return float(np.mean([when_s for _, when_s in finished]))


if __name__ == "__main__":
    main()
