"""Workloads of a few rounds, drawn at random."""

from __future__ import annotations

import numpy as np
import pandas as pd

import apportion as ap

MODELS = ("VGG11", "ResNet50", "BERT-large", "AlexNet")
"""What they train: models that every network and rule knows."""


def drawn_workload(
    seed: int, cluster: ap.Cluster, *, jobs: int = 8, most_gpus: int = 4
) -> ap.Workload:
    """Draw jobs of half an hour's arrivals that want more GPUs than there are."""
    rng, names = np.random.default_rng(seed), sorted(cluster.gpus)
    models = rng.choice(MODELS, jobs)
    gangs = np.minimum(rng.choice([1, 1, 2, 3, 4, 6], jobs), most_gpus)
    index = pd.MultiIndex.from_arrays([models, gangs], names=["job_type", "scale_factor"]).unique()
    speed = rng.integers(2, 40, (len(index), len(names))) / 4
    for row in np.flatnonzero(rng.random(len(index)) < 0.2) if len(names) > 1 else ():
        speed[row, rng.integers(len(names))] = 0.0
    throughputs = pd.DataFrame(speed, index=index, columns=names)
    best = throughputs.max(axis=1).loc[list(zip(models, gangs, strict=True))].to_numpy()
    table = pd.DataFrame(
        {
            "arrival_s": np.sort(rng.uniform(0, 1800, jobs)),
            "job_type": models,
            "scale_factor": gangs,
            "total_steps": best * rng.uniform(400, 3600, jobs),
            "weight": rng.choice([1.0, 2.0], jobs),
            "entity": rng.choice(["ann", "bob"], jobs),
            "deadline_s": rng.uniform(2000, 20000, jobs),
        },
        index=[f"job {number}" for number in rng.permutation(jobs)],
    )
    return ap.Workload(f"drawn {seed}", table, throughputs)
