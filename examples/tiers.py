"""Network tiers as options: share time over tiers, then place one round on machines."""

from __future__ import annotations

import pandas as pd

import apportion as ap

cluster = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=8, accelerator="a100")
jobs = pd.DataFrame(
    {"scale_factor": [5, 5, 3, 8, 12], "network_priority": [0.9, 0.3, 0.5, 0.0, 0.6]},
    index=["vgg", "resnet", "bert", "gan", "gpt"],
)
options = pd.MultiIndex.from_product([["a100"], ["machine", "rack", "network"]])
steps_per_s = pd.DataFrame(
    [[9.0, 8.5, 8.4], [8.0, 4.0, 0.3], [7.0, 6.0, 1.0], [6.0, 5.8, 3.0], [0.0, 4.0, 2.0]],
    index=jobs.index,
    columns=options,
)

timers = {"machine_timer_s": 12 * 3600.0, "rack_timer_s": 24 * 3600.0}
waited_s = pd.Series([13.0, 2.0, 25.0, 0.0, 1.0], index=jobs.index) * 3600
now = ap.eligible(steps_per_s, workers=cluster, jobs=jobs, waited_s=waited_s, **timers)
print("Steps/s on the tiers that the delay timers leave open:")
print(now.tensor.values.droplevel("row")["a100"].to_string(), end="\n\n")

allocation = ap.solve("network_sensitive", now.tensor, workers=cluster, jobs=jobs)
print(allocation, end="\n\n")

free = [rack.tolist() for rack in cluster.racks("a100")]
placed = ap.place_round(allocation.X.droplevel(0, axis=1), jobs["scale_factor"], free)
print(f"One round: {placed.status}, {placed.objective:.3g} of at most {placed.bound:.3g}")
print(placed.tier.fillna("waits").to_string(), end="\n\n")
print(placed.gpus.to_string())
