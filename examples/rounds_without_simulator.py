"""Drive the round mechanism yourself: ask for a plan, run it, tell how long the jobs ran."""

from __future__ import annotations

import pandas as pd

import apportion as ap

cluster = ap.Cluster({"v100": 4}, gpus_per_machine=2)
steps_per_s = pd.DataFrame({"v100": [10.0, 18.0, 3.0]}, index=["small", "wide", "slow"])
jobs = pd.DataFrame({"scale_factor": [1, 4, 2]}, index=steps_per_s.index)
allocation = ap.solve("max_min_fairness", steps_per_s, workers=cluster, jobs=jobs)
print(allocation, end="\n\n")

scheduler = ap.RoundScheduler(cluster, round_seconds=360.0)
scheduler.set_target(allocation, jobs["scale_factor"], can_run=steps_per_s)
for _ in range(4):
    plan = scheduler.ask()
    print(f"Round {plan.number}")
    print(plan.table().to_string(), end="\n\n")
    scheduler.tell(plan)

scheduler.remove(["wide"])
print(f"Without 'wide': {scheduler.ask().jobs}")
