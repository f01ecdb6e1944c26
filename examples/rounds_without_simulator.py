"""Decide round by round without the simulator, and keep the books of who had what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

import apportion as ap

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

ROUND_S = 360.0
cluster = ap.Cluster({"v100": 4}, gpus_per_machine=2)
steps_per_s = pd.DataFrame({"v100": [10.0, 18.0, 3.0]}, index=["small", "wide", "slow"])
jobs = pd.DataFrame({"scale_factor": [1, 4, 2], "elapsed_s": 0.0}, index=steps_per_s.index)

running: Mapping[Hashable, tuple[str, tuple[int, ...]]] = {}
received = pd.DataFrame(0.0, index=steps_per_s.index, columns=steps_per_s.columns)
owed = received.copy()
for number in range(4):
    now = ap.solve_round(
        "max_min_fairness",
        steps_per_s,
        cluster,
        jobs=jobs,
        running=running,
        received=received,
        owed=owed,
        round_seconds=ROUND_S,
    )
    print(f"Round {number}", now.table().to_string(), sep="\n", end="\n\n")
    assert now.X is not None
    owed += now.X * ROUND_S  # what is meant for each, less what it has had
    for job, (accelerator, _) in now.running.items():
        owed.loc[[job], accelerator] -= ROUND_S
        received.loc[[job], accelerator] += ROUND_S
    jobs["elapsed_s"] += ROUND_S
    running = now.running
