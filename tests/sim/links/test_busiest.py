"""Who shares links when most do, against a look at every moment."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed, sampled

import apportion as ap
from apportion.experiments.run_records import record_of, run_of
from apportion.sim.links.busiest import COLUMNS, busiest_links
from apportion.sim.network import NETWORKS, SwitchLevel, Topology, TreeTopology
from apportion.sim.network.cassini import CassiniNetwork

MODELS = ("ResNet50", "BERT")
CLUSTER = ap.Cluster({"a100": 12}, gpus_per_machine=1, machines_per_rack=2)


def workload(seed: int, jobs: int = 8) -> ap.Workload:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "arrival_s": np.sort(rng.uniform(0, 300, jobs)).round(),
            "job_type": rng.choice(MODELS, jobs),
            "scale_factor": rng.integers(1, 5, jobs),
            "total_steps": rng.integers(100, 900, jobs).astype(float),
        },
        index=[f"job {k}" for k in range(jobs)],
    )
    rows = pd.MultiIndex.from_product([MODELS, range(1, 5)], names=["job_type", "scale_factor"])
    return ap.Workload("w", table, pd.DataFrame({"a100": 1.0}, index=rows))


def run_of_links(seed: int, network: Any = "cassini", **how: Any) -> tuple[ap.Run, ap.Workload]:
    jobs = workload(seed)
    mechanism = ap.Leases(seconds=60, placement="random", network=network, **how)
    return ap.simulate("max_min_fairness", jobs, CLUSTER, mechanism=mechanism, seed=seed), jobs


def shared_at(schedule: pd.DataFrame, time_s: float) -> dict[str, set[str]]:
    """Jobs by link: a gang over several machines uses its machines, and over racks, its racks."""
    users: dict[str, set[str]] = {}
    there = schedule[(schedule["start_s"] <= time_s) & (time_s < schedule["end_s"])]
    for job, devices in zip(there["job"], there["devices"], strict=True):
        links = {f"a100 rack {gpu // 2}, machine {gpu % 2}" for gpu in devices}
        racks = {f"a100 rack {gpu // 2}" for gpu in devices}
        if len(links) > 1:
            for link in links | (racks if len(racks) > 1 else set()):
                users.setdefault(link, set()).add(job)
    return {link: jobs for link, jobs in users.items() if len(jobs) > 1}


@pytest.mark.parametrize("seed", each_seed(2, 4))
def test_the_moment_is_the_busiest(seed: int) -> None:
    run, jobs = run_of_links(seed)
    table = run.tables["busiest_links"]
    assert tuple(table.columns) == COLUMNS
    edges = np.unique(run.schedule[["start_s", "end_s"]].to_numpy())
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    most = max(sum(map(len, shared_at(run.schedule, each).values())) for each in middles)
    assert len(table) == most > 0
    found = table.groupby("link")["job"].agg(set).to_dict()
    assert found == shared_at(run.schedule, float(table["time_s"].iloc[0]) + 1e-6)
    network = CassiniNetwork()
    for row in table.to_dict("records"):
        job = jobs.jobs.loc[row["job"]]
        profile = network.profile(job["job_type"], job["scale_factor"])
        assert (row["job_type"], row["gpus"]) == (job["job_type"], job["scale_factor"])
        assert row["period_s"] == profile.period_s
        assert row["phases"] == tuple(map(tuple, profile.phases))
        assert row["gbps"] == 50  # of a machine, and of two machines, of which a rack has half


def test_runs_without_links_have_no_table() -> None:
    run, jobs = run_of_links(0, network="table1_model")
    assert "busiest_links" not in run.tables
    assert busiest_links(run, jobs, "none") == {}
    alone = replace(jobs, jobs=jobs.jobs.iloc[:1])
    run = ap.simulate("max_min_fairness", alone, CLUSTER, mechanism=ap.Leases(network="cassini"))
    assert len(run.tables["busiest_links"]) == 0
    exact = ap.simulate("max_min_fairness", jobs, CLUSTER, mechanism="exact")
    assert "busiest_links" not in exact.tables


def test_the_table_is_kept_with_a_run() -> None:
    run, _ = run_of_links(1)
    back = run_of(record_of(run, {}), run.policy, run.workload, run.cluster, {})
    pd.testing.assert_frame_equal(back.tables["busiest_links"], run.tables["busiest_links"])


ON_LINKS = {
    name: model for name, make in NETWORKS.items() if isinstance(model := make({}), CassiniNetwork)
}


def drawn_topology(rng: np.random.Generator) -> Topology:
    """A tree of two or three levels, with rails or without, of twelve GPUs or more."""
    rails = int(rng.integers(1, 3))
    levels = [SwitchLevel("server", 1, float(rng.uniform(50, 99)), rails)]
    levels.append(SwitchLevel("leaf", 2, float(rng.uniform(50, 99))))
    if rng.random() < 0.5:
        levels.append(SwitchLevel("pod", 3, float(rng.uniform(50, 99))))
    return TreeTopology("tree", tuple(levels), 6 if len(levels) == 2 else 2)


@pytest.mark.parametrize("name", sampled(ON_LINKS, 2))
@pytest.mark.parametrize("seed", each_seed(1, 24))
def test_links_of_a_topology_are_told_however_it_is_given(name: str, seed: int) -> None:
    """In the network's value or beside its name: its own links, with their Gb/s and their users."""
    topology, jobs = drawn_topology(np.random.default_rng([seed, 11])), workload(seed, jobs=5)
    given: list[dict[str, Any]] = [
        {"network": name, "topology": topology},
        {"network": replace(ON_LINKS[name], topology=topology)},
    ]
    for mechanism in (ap.Rounds(seconds=60),) if seed % 2 else (ap.Leases(seconds=60),):
        ways = [replace(mechanism, placement="random", **how) for how in given]
        runs = [
            ap.simulate("max_min_fairness", jobs, CLUSTER, mechanism=way, seed=seed) for way in ways
        ]
        tables = [run.tables["busiest_links"] for run in runs]
        pd.testing.assert_frame_equal(tables[0], tables[1])
        schedule = runs[-1].schedule
        capacities = {f"a100 {link}": gbps for link, gbps in topology.capacities.items()}
        for row in tables[0].to_dict("records"):
            assert row["gbps"] == capacities[row["link"]]
            there = schedule[
                (schedule["job"] == row["job"])
                & (schedule["start_s"] <= row["time_s"])
                & (row["time_s"] < schedule["end_s"])
            ]
            (devices,) = there["devices"]
            assert row["link"] in [f"a100 {link}" for link in topology.links_of(devices)]
