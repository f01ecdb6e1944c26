from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.oracles.inference.beside_requests import Cosimulation
from tests.sim.elastic.by_hand import TIMES, application

import apportion as ap
from apportion.mechanism.inference import ProtectTimes

COLD = {"a": 6.0, "b": 4.0}
PAUSE = {
    "stop_resume": lambda old, new: 30.0,
    "afe": lambda old, new: 30.0 if old in (0, new) else 3.0 + max(new - old, 0) * 27 // new,
}


@dataclass(frozen=True)
class InOrder(ap.Policy):
    """As many GPUs as a job may have, the jobs of more weight first, whatever a move costs."""

    name, integral = "in_order", True
    columns = ("weight",)

    def objective(self, p: Any) -> cp.Maximize:
        worth = p.gpus * (p.speed > 0) * p.weight[:, None]
        return cp.Maximize(cp.sum(cp.multiply(worth, p.X)))


def speed(gpus: int, nodes: int) -> float:
    local = -(-64 // gpus)  # what fills the last GPU counts as well
    return gpus * local / 64 / float(TIMES.step_s(gpus, nodes, local))


@pytest.mark.parametrize(
    "seed",
    [1, 4, 6, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 2, 3, 5, *range(7, 40)))],
)
def test_generated_runs_are_those_of_the_dictionaries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = [0, 0, 1, 1] if seed % 2 else [0, 0, 0, 0, 1, 1, 1, 1]
    horizon = 6000 if seed % 5 == 4 else 400  # then the cluster is empty of jobs in between
    arrivals = np.sort(rng.integers(0, horizon, 4)).astype(float).tolist()
    table = pd.DataFrame(
        {
            "arrival_s": arrivals,
            "application": "net",
            "gpus": 1,
            "batch": 64,
            "weight": [4, 3, 2, 1],
        }
    )
    jobs = ap.ElasticWorkload("drawn", table, {"net": application()})
    count = int(rng.integers(20, 120))
    requests = pd.DataFrame(
        {
            "arrival_s": np.sort(rng.integers(0, 800 + horizon, count)).astype(float),
            "service": rng.choice(["a", "b"], count),
            "duration_s": rng.integers(1, 30, count).astype(float),
        }
    )
    restart = ["stop_resume", "afe"][seed // 2 % 2]
    yield_s = [0.0, 3.0, 7.5][seed % 3]
    serving = ap.Serving(
        requests, cold_start_s=COLD, protect=ProtectTimes(20.0, 15.0, 60.0), yield_seconds=yield_s
    )
    cluster = ap.Cluster({"v100": len(nodes)}, gpus_per_machine=nodes.count(0))
    run = ap.simulate(InOrder(), jobs, cluster, serving=serving, gang_restart=restart)
    told = list(requests.itertuples(index=False, name=None))
    oracle = Cosimulation(
        *(nodes, [(a, 1000.0) for a in arrivals], told),
        cold=COLD,
        protect=[20.0, 35.0, 50.0, 60.0],
        speed=speed,
        pause=PAUSE[restart],
        yield_s=yield_s,
    )
    oracle.run()
    assert run.jobs["completion_s"].tolist() == pytest.approx([j["end"] for j in oracle.jobs])
    found = run.tables["requests"]
    served = sorted(oracle.gpus.served)
    assert found["gpu"].tolist() == [each[1] for each in served]
    assert found["start_s"].tolist() == pytest.approx([each[2] for each in served])
    assert found["finish_s"].tolist() == pytest.approx([each[4] for each in served])
    reclaims = run.tables["reclaims"]
    assert list(zip(reclaims["gpu"], reclaims["job"], strict=True)) == [
        (gpu, job) for _, gpu, job in oracle.reclaims
    ]
    starts = np.array([job["n"] for job in oracle.jobs])
    assert (run.jobs["restarts"].to_numpy() == starts - 1).all()
