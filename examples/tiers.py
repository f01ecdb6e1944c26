"""Network tiers as options: share time over tiers, then decide one round in order."""

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

allocation = ap.solve("network_sensitive", steps_per_s, workers=cluster, jobs=jobs)
print(allocation, end="\n\n")

waited_s = pd.Series([13.0, 2.0, 25.0, 0.0, 1.0], index=jobs.index) * 3600
waiting = jobs.assign(waited_s=waited_s)
one_round = ap.solve("dally_round", steps_per_s, workers=cluster, jobs=waiting)
print("One round, the jobs first that lost most to the network:")
print(one_round.choice.to_string())
