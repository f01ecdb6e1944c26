"""Compare policies on a table of your own jobs, and look at one job more closely."""

from __future__ import annotations

import pandas as pd

import apportion as ap

throughputs = pd.DataFrame(
    {"a100": [30.0, 55.0, 9.0], "t4": [10.0, 17.0, 4.5]},
    index=pd.MultiIndex.from_tuples([("bert", 1), ("bert", 2), ("gan", 1)]),
)
jobs = pd.DataFrame(
    {
        "job_type": ["bert", "bert", "gan", "gan", "bert", "gan"],
        "scale_factor": [1, 2, 1, 1, 2, 1],
        "total_steps": [500_000, 900_000, 90_000, 30_000, 200_000, 60_000],
        "arrival_s": [0, 0, 600, 1800, 3600, 3600],
    },
    index=["ana-1", "ben-1", "ana-2", "cyd-1", "ben-2", "cyd-2"],
)
workload = ap.Workload("my team", jobs, throughputs)
policies = ["max_min_fairness", "shortest_job_first", "fifo"]
comparison = ap.compare(policies, workload, {"a100": 2, "t4": 2}, n_jobs=1)
print(comparison)

hours = comparison.jobs().pivot(index="job", columns="policy", values="jct_s") / 3600
print("\nHours from arrival to completion:")
print(hours[policies].to_string(float_format="{:.2f}".format))
