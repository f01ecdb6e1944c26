from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import apportion as ap

CLUSTER = ap.Cluster({"v100": 8}, gpus_per_machine=4, machines_per_rack=1)
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "rounds": ("max_min_fairness", {}),
    "exact": ("max_min_fairness", {"mechanism": "exact"}),
    "leases of a policy": ("max_min_fairness", {"mechanism": "leases", "network": "none"}),
    "leases": ("themis", {"network": "none"}),
    "queue": ("easy", {}),
    "iterations": ("ada_srsf", {}),
    "short rounds": ("fifo", {"round_seconds": 60.0}),
    "a value": ("fifo", {"mechanism": ap.Rounds(seconds=720.0)}),
    "free": ("fifo", {"preemption_overhead_seconds": 0.0}),
    "elastic": ("pollux", {}),
}


@pytest.mark.parametrize("way", list(WAYS))
def test_a_run_and_a_comparison_charge_starts_alike(way: str) -> None:
    policy, settings = WAYS[way]
    if way == "elastic":
        workload: Any = ap.generate_elastic_workload(jobs=2, hours=0.1, seed=1)
        cluster = ap.Cluster({"t4": 8}, gpus_per_machine=4)
    elif way == "iterations":
        workload, cluster = ap.generate_contended_workload(scale=0.01).head(12), CLUSTER
    else:
        workload, cluster = ap.generate_workload(jobs=8, jobs_per_hour=30.0, seed=2), CLUSTER
    run = ap.simulate(policy, workload, cluster, **settings)
    compared = ap.compare([policy], workload, cluster, n_jobs=1, **settings)
    assert run.summary()["mean_jct_s"] == compared.summary()["mean_jct_s"].item()
    charged = way in ("rounds", "leases", "leases of a policy", "queue", "iterations")
    assert ("starts cost what was measured" in repr(run)) == charged
    assert ("a start or move costs" in str(compared)) == charged


def test_what_a_start_costs_by_default_is_that_of_its_model() -> None:
    jobs = {"arrival_s": [0.0], "scale_factor": [1], "total_steps": [720.0], "job_type": ["bert"]}
    keys = pd.MultiIndex.from_tuples([("bert", 1)], names=["job_type", "scale_factor"])
    speeds = pd.DataFrame({"v100": [1.0]}, index=keys)
    workload = ap.Workload("one", pd.DataFrame(jobs), speeds)
    for policy in ("fcfs", "max_min_fairness"):
        assert ap.simulate(policy, workload, "v100=1").jobs["jct_s"].item() == 720.0 + 103.0
        free = ap.simulate(policy, workload, "v100=1", preemption_overhead_seconds=0.0)
        assert free.jobs["jct_s"].item() == 720.0
