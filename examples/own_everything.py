"""Jobs, policy, mechanism and network of one's own in one comparison.

The policy keeps a cap on power, which is lower by day, in every round; the watts of a job are a
column of the jobs table. Nothing is registered: parts are given as values, to worker processes
(``n_jobs=2``, ``backend="ray"``) as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd

import apportion as ap


@dataclass(frozen=True)
class PowerByHour(ap.Policy):
    """The worst off job has as much as can be, and what runs never draws more than the cap."""

    name, columns = "power_by_hour", ("power_w", "now_s")
    day_w: float = 1500.0
    night_w: float = 3000.0

    def objective(self, p: ap.Problem) -> cp.Maximize:
        return cp.Maximize(cp.min(p.throughput / p.equal_share_throughput))

    def constraints(self, p: ap.Problem) -> list[cp.Constraint]:
        watts = p.column("power_w") @ cp.multiply(p.count, p.time)
        return [(watts <= self.cap_w(p.now_s)).set_label("power")]

    def cap_w(self, now_s: float) -> float:
        return self.day_w if 8 <= now_s / 3600 % 24 < 20 else self.night_w

    def next_change_s(self, now_s: float) -> float:
        return (now_s // 3600 + 1) * 3600  # looks each hour, and is solved anew


class TenMinutes:
    """Rounds of ten minutes."""

    name = "ten_minutes"

    def parts(self, decider: Any, about: Any) -> Any:
        return ap.Rounds(seconds=600.0).parts(decider, about)


class SlowLinks:
    """A tenth more time for each machine beside the first."""

    name = "slow_links"

    def overhead(self, job_type: str, shape: tuple[tuple[int, ...], ...]) -> float:
        return 0.1 * (sum(map(len, shape)) - 1)


throughputs = pd.DataFrame(
    {"a100": [30.0, 55.0, 100.0, 9.0], "t4": [10.0, 17.0, 30.0, 4.5]},
    index=pd.MultiIndex.from_tuples([("lidar", 1), ("lidar", 2), ("lidar", 4), ("speech", 1)]),
)
jobs = pd.DataFrame(
    {
        "job_type": ["lidar", "lidar", "lidar", "speech"] * 3,
        "scale_factor": [1, 2, 4, 1] * 3,
        "total_steps": [400_000, 700_000, 900_000, 90_000] * 3,
        "arrival_s": 3600.0 * np.arange(12),
        "power_w": [400.0, 800.0, 1500.0, 250.0] * 3,
    }
)
workload = ap.Workload("a day", jobs, throughputs)
racks = ap.Cluster.of_racks({"a100": 1, "t4": 1}, machines_per_rack=4, gpus_per_machine=2)

compared = ap.compare(
    [PowerByHour(), "max_min_fairness"],
    workload,
    racks,
    mechanism=TenMinutes(),
    network=SlowLinks(),
    n_jobs=1,
)
print(compared)

print("\nMost watts at once, by day and by night:")
for policy, run in compared.runs.items():
    stays = run.schedule.assign(power_w=run.schedule["job"].map(jobs["power_w"]))
    most = {True: 0.0, False: 0.0}
    for now_s in [*stays["start_s"], *np.arange(0, stays["end_s"].max(), 3600)]:
        there = stays[(stays["start_s"] <= now_s) & (now_s < stays["end_s"])]
        by_day = 8 <= now_s / 3600 % 24 < 20
        most[by_day] = max(most[by_day], there["power_w"].sum())
    print(f"{policy:<18}{most[True]:8.0f}{most[False]:8.0f}")
