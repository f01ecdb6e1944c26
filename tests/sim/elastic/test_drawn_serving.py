"""What must hold of any run of training beside requests, for settings that are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.sim.elastic.test_beside_requests import workload

import apportion as ap

POLICIES: list[Any] = [
    "deepboot",
    "pollux",
    "optimus",
    ap.Sia(penalty=2.0),
    "sia",
    "lyra",
    "tiresias",
]
FEW, MANY = (1, 2), (0, *range(3, 60))


def drawn_requests(rng: np.random.Generator) -> pd.DataFrame:
    count, length_s = int(rng.integers(1, 200)), float(rng.choice([300, 4000]))
    arrival_s = np.sort(rng.uniform(0, length_s, count))
    if rng.random() < 0.5:
        arrival_s = np.floor(arrival_s)  # several at a time
    duration_s = rng.uniform(0.5, 30, count)
    return pd.DataFrame(
        {
            "arrival_s": arrival_s,
            "service": rng.choice(["a", "b", "c"], count),
            "duration_s": duration_s,
            "slo_s": 3 * duration_s,
        }
    )


def drawn_serving(rng: np.random.Generator, asked: pd.DataFrame, gpus: int) -> ap.Serving:
    count = "pooled" if rng.random() < 0.5 else int(rng.integers(1, gpus + 1))
    apart = count not in ("pooled", gpus) and rng.random() < 0.4
    return ap.Serving(
        asked,
        gpus=count,
        cold_start_s=float(rng.choice([0, 6])),
        protect=float(rng.choice([0, 1, 3])),
        reclaim=str(rng.choice(["least_loss", "random", "whole_server"])),
        lending=not apart,
        yield_seconds=[None, 0.0, 4.0][int(rng.integers(3))],
    )


def drawn_settings(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "gang_restart": str(rng.choice(["stop_resume", "afe", "edl"])),
        "growth": float(rng.choice([1, 2, np.inf])),
        "keep_paused": bool(rng.random() < 0.3),
        "goodputs": str(rng.choice(["told", "fitted"])),
        "network": "contention" if rng.random() < 0.2 else None,
    }


@pytest.mark.parametrize(
    "seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MANY)]
)
def test_states_partition_time_and_nothing_is_lost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gpus = {"v100": int(rng.choice([1, 2, 3, 5, 8]))}
    if rng.random() < 0.3:
        gpus["k80"] = int(rng.integers(1, 5))
    cluster = ap.Cluster(gpus, gpus_per_machine=int(rng.choice([1, 2, 4])))
    arrivals = np.sort(rng.uniform(0, rng.choice([100, 5000]), int(rng.integers(1, 5)))).tolist()
    asked = drawn_requests(rng)
    serving = drawn_serving(rng, asked, cluster.total_gpus)
    policy = POLICIES[int(rng.integers(len(POLICIES)))]
    jobs = workload(arrivals, relative_speed={"k80": 0.4})
    run = ap.simulate(policy, jobs, cluster, serving=serving, **drawn_settings(rng))
    states, served = run.tables["gpu_states"], run.tables["requests"]
    for _, rows in states.groupby("gpu"):
        assert rows["from_s"].iloc[0] == 0
        np.testing.assert_allclose(rows["from_s"].iloc[1:], rows["to_s"].iloc[:-1], atol=1e-6)
    assert states["gpu"].nunique() == cluster.total_gpus
    assert served.index.equals(asked.index)
    assert (served["delay_s"] >= 0).all()
    spent = (states["to_s"] - states["from_s"]).groupby(states["state"]).sum()
    training = spent.reindex(["loaned", "training"]).sum()
    held = run.jobs["gpu_seconds"].sum() + run.tables["reclaims"]["yield_s"].sum()
    assert training == pytest.approx(held)
    assert spent["running"] == pytest.approx((served["finish_s"] - served["start_s"]).sum())
    assert run.jobs["completion_s"].notna().all()
