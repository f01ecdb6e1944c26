"""Machines of several sizes: the GPUs of a machine by accelerator type, for every mechanism."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import apportion as ap
from apportion.cluster import Cluster
from apportion.errors import InputError

MIXED = {"v100": 4, "p100": 8}


def lone_gang(kind: str) -> ap.Workload:
    """One job of eight GPUs that runs on one type only."""
    jobs = pd.DataFrame(
        {
            "arrival_s": [0.0],
            "job_type": ["ResNet50"],
            "scale_factor": [8],
            "total_steps": [3600.0],
        },
        index=["one"],
    )
    index = pd.MultiIndex.from_tuples([("ResNet50", 8)], names=["job_type", "scale_factor"])
    return ap.Workload("lone", jobs, pd.DataFrame({kind: [1.0]}, index=index))


def test_machines_are_those_of_the_type() -> None:
    cluster = Cluster({"v100": 10, "p100": 20, "k80": 5}, gpus_per_machine=MIXED)
    assert cluster.machines("v100").tolist() == [4, 4, 2]
    assert cluster.machines("p100").tolist() == [8, 8, 4]
    assert cluster.machines("k80").tolist() == [4, 1]  # what is left out has machines of four
    assert cluster == Cluster({"v100": 10, "p100": 20, "k80": 5}, gpus_per_machine="p100=8")


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"h100": 8}, "h100"),
        ({"p100": 0}, "gpus_per_machine of 'p100' is 0"),
        ({"p100": 2.5}, "gpus_per_machine of 'p100' is 2.5"),
        ("p100:8", "p100:8"),
    ],
)
def test_what_cannot_be_is_refused(sizes: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Cluster({"v100": 8, "p100": 8}, gpus_per_machine=sizes)  # type: ignore[arg-type]


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "rounds": ("max_min_fairness", {"mechanism": "rounds", "network": "static"}),
    "leases": ("dally", {"network": "static"}),
    "queue": ("easy", {"network": "static"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_gang_is_split_on_small_machines_only(way: str) -> None:
    policy, how = WAYS[way]
    jct = {}
    for kind in MIXED:
        cluster = Cluster({"v100": 16, "p100": 16}, MIXED, machines_per_rack=2)
        run = ap.simulate(policy, lone_gang(kind), cluster, **how)
        jct[kind] = float(run.jobs["jct_s"].iloc[0])
    assert jct["p100"] < jct["v100"] - 1.0


def test_one_round_counts_machines_by_type() -> None:
    cluster = Cluster({"v100": 8, "p100": 16}, gpus_per_machine=MIXED)
    decided = ap.solve_round(
        "max_min_fairness",
        pd.DataFrame({"v100": [0.0, 0.0], "p100": [1.0, 1.0]}, index=["a", "b"]),
        cluster,
        jobs=pd.DataFrame({"scale_factor": [8, 8]}, index=["a", "b"]),
    )
    assert sorted(gang.machines for gang in decided.plan.assignments) == [(0,), (1,)]
