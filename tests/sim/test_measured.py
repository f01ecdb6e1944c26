"""Figures of the jobs in the middle: beside pandas and the schedule, and what stays as it was."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap
from apportion.sim import measuring

CLUSTER = "v100=4,k80=4"
MECHANISMS = [
    ("max_min_fairness", {"mechanism": "rounds"}),
    ("max_min_fairness", {"mechanism": "exact"}),
    ("fcfs", {}),
    ("max_min_fairness", {"mechanism": "leases", "lease_seconds": 3600.0}),
]


def some_jobs(jobs: int = 40, seed: int = 3, **what: Any) -> ap.Workload:
    return ap.generate_workload(jobs=jobs, jobs_per_hour=2.0, seed=seed, **what)


@pytest.mark.parametrize(("policy", "settings"), sampled(MECHANISMS, 2))
def test_figures_are_those_of_the_jobs_in_the_middle(policy: str, settings: Any) -> None:
    whole = some_jobs(deadlines="gavel")
    cluster = ap.Cluster.of_racks({"v100": 1, "k80": 1}, machines_per_rack=1, gpus_per_machine=4)
    run = ap.simulate(policy, measuring(whole, 0.25, 0.75), cluster, **settings)
    plain = ap.simulate(policy, whole, cluster, **settings)
    pd.testing.assert_frame_equal(run.jobs.drop(columns="measured"), plain.jobs)
    middle = plain.jobs.iloc[10:30]
    pd.testing.assert_frame_equal(run.measured.drop(columns="measured"), middle)
    figures = run.summary()
    assert figures["jobs"] == 40
    assert figures["mean_jct_s"] == pytest.approx(middle["jct_s"].mean())
    assert figures["p95_jct_s"] == pytest.approx(np.percentile(middle["jct_s"], 95))
    assert figures["queueing_s"] == pytest.approx(middle["queueing_s"].mean())
    assert figures["ftf_max"] == middle["ftf"].max()
    assert figures["preemptions"] == middle["preemptions"].sum()
    assert figures["deadlines_met"] == pytest.approx(middle["met_deadline"].mean())
    assert figures["makespan_s"] == plain.summary()["makespan_s"]


def test_busy_is_what_the_schedule_holds_between_the_arrivals() -> None:
    run = ap.simulate("fcfs", measuring(some_jobs(), 0.2, 0.6), CLUSTER)
    first_s, last_s = run.measured["arrival_s"].iloc[[0, -1]]
    stays = run.schedule
    held_s = np.clip(stays["end_s"], first_s, last_s) - np.clip(stays["start_s"], first_s, last_s)
    busy_s = (held_s * stays["devices"].map(len)).sum()
    assert run.summary()["utilization"] == pytest.approx(busy_s / (8 * (last_s - first_s)))


@pytest.mark.thorough
def test_groups_marks_and_differences_are_of_the_middle() -> None:
    jobs = some_jobs(80)
    jobs = replace(jobs, jobs=jobs.jobs.assign(user=np.tile(["ann", "bob"], 40)))
    compared = ap.compare(["fifo", "fcfs"], measuring(jobs, 0.5, 1.0), CLUSTER, n_jobs=1)
    groups = compared.by("user")
    assert groups["jobs"].tolist() == [20] * 4
    means = {name: run.jobs["jct_s"].iloc[40:].mean() for name, run in compared.runs.items()}
    apart = compared.differences("fcfs").set_index("figure").loc["mean_jct_s", "difference"]
    assert apart == pytest.approx(means["fifo"] - means["fcfs"])
    assert compared.floor.mean_jct_s <= compared["fifo"].jobs["jct_s"].mean()
    assert any("40 of the 80 jobs" in note for note in compared.notes)
    assert compared.notes[-1].startswith("over all jobs, ")


@pytest.mark.thorough
def test_elastic_runs_and_files_keep_who_is_measured(tmp_path: Any) -> None:
    elastic = measuring(ap.generate_elastic_workload(6, hours=1.0, seed=0), 0.5, 1.0)
    run = ap.simulate("pollux", elastic, "t4=8")
    assert run.summary()["mean_jct_s"] == pytest.approx(run.jobs["jct_s"].iloc[3:].mean())
    jobs = measuring(some_jobs(10), 0.2, 0.5)
    jobs.save(tmp_path / "jobs.csv")
    read = ap.read_workload(tmp_path / "jobs.csv")
    assert read.jobs["measured"].tolist() == jobs.jobs["measured"].tolist()
