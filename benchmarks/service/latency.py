"""How long a decision service takes for an answer, by the number of jobs.

``python -m benchmarks.service.latency`` tells a service in this process, with its store on disk, of
so many jobs, and takes the median of answers to messages of each kind. Each decision comes after a
job that is new.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from apportion.service import DecisionService
from benchmarks.experiment import parser
from benchmarks.reporting import machine, show, write_csv
from benchmarks.service.load import TYPES, drawn

SIZES, TIMES = (100, 1_000, 10_000), 9


def main() -> None:
    """Print a row for each number of jobs."""
    asked = parser("service.latency", "Answers of the decision service.", "a hundred jobs")
    asked.add_argument("--policy", default="max_min_fairness")
    options = asked.parse_args()
    print(f"{options.policy}: milliseconds until an answer, on {machine()}")
    rows = [row_of(options.policy, jobs) for jobs in (SIZES[:1] if options.quick else SIZES)]
    table = pd.DataFrame(rows).round(2)
    show(table)
    write_csv(table, options.out, "service_latency")


def row_of(policy: str, jobs: int) -> dict[str, Any]:
    """Return what answers take with so many jobs, ms."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "decisions.db"
        with DecisionService(policy, dict(TYPES), store) as service:
            row: dict[str, Any] = {"jobs": jobs}
            there = {f"j{k}": drawn(rng) for k in range(jobs)}
            row["add all"] = took_ms(service, {"op": "add", "jobs": there})
            row["first decision"] = took_ms(service, {"op": "decide", "jobs": ["j0"]})
            asks: dict[str, dict[str, Any]] = {
                "decide about one": {"op": "decide", "jobs": ["j0"]},
                "decide about all": {"op": "decide"},
                "explain": {"op": "explain", "job": "j0"},
                "devices": {"op": "decide", "devices": True},
            }
            took: dict[str, list[float]] = {"add one": [], **{name: [] for name in asks}}
            for name, message in asks.items():
                for turn in range(TIMES):
                    new = {"op": "add", "jobs": {f"{name}{turn}": drawn(rng)}}
                    took["add one"].append(took_ms(service, new))
                    took[name].append(took_ms(service, message))
            row |= {name: float(np.median(each)) for name, each in took.items()}
        begun_s = time.perf_counter()
        DecisionService(policy, dict(TYPES), store).close()
        return {**row, "start again": 1000 * (time.perf_counter() - begun_s)}


def took_ms(service: DecisionService, message: dict[str, Any]) -> float:
    """Return how long the answer to a message takes."""
    begun_s = time.perf_counter()
    answer = service.answer(message)
    if not answer["ok"]:
        raise RuntimeError(answer["error"])
    return 1000 * (time.perf_counter() - begun_s)


if __name__ == "__main__":
    main()
