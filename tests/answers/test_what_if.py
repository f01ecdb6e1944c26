from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.answers.clusters_page import changed_clusters, read_changes
from apportion.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

SPEC = {"jobs": 10, "jobs_per_hour": 8.0, "speed": {"a100": 2.3}}


@pytest.mark.thorough
def test_a_sweep_over_clusters_is_the_sweeps_of_each() -> None:
    several = ap.sweep(["fifo"], SPEC, ["v100=2,a100=1", "v100=4"], seeds=[0, 1], n_jobs=1)
    table = several.table()
    assert list(table.columns[:5]) == ["policy", "workload", "cluster", "load", "seed"]
    for cluster in ("v100=2,a100=1", "v100=4"):
        speed = {} if "a100" in cluster else {"speed": None}
        alone = ap.sweep(["fifo"], {**SPEC, **speed}, cluster, seeds=[0, 1], n_jobs=1).table()
        own = table[table["cluster"] == cluster].drop(columns="cluster").reset_index(drop=True)
        clocks = ["policy_seconds", "wall_seconds"]
        pd.testing.assert_frame_equal(own.drop(columns=clocks), alone.drop(columns=clocks))
    assert "v100=4" in str(several)
    assert several.differences("fifo").empty
    assert [each["gpus"] for each in several.record()["clusters"]] == [
        {"v100": 2, "a100": 1},
        {"v100": 4},
    ]


def test_jobs_that_one_cluster_cannot_hold_are_left_out_on_all(tmp_path: Path) -> None:
    log = ap.generate_workload(jobs=12, seed=2)
    sizes = np.where(np.arange(12) % 3 == 0, 4, 1)
    index = pd.MultiIndex.from_product([["x"], [1, 4]], names=["job_type", "scale_factor"])
    jobs = log.jobs.assign(scale_factor=sizes, job_type="x", total_steps=1000.0)
    mixed = ap.Workload("mixed", jobs, pd.DataFrame({"v100": 1.0}, index=index))
    mixed.save(tmp_path / "mixed.csv")
    given = {"path": tmp_path / "mixed.csv", "too_large": "drop"}
    swept = ap.sweep(["fifo"], given, ["v100=2", "v100=8"], n_jobs=1)
    assert swept.table()["jobs"].tolist() == [8, 8]
    assert any("left out on all clusters: v100=2" in note for note in swept.notes)


@pytest.mark.parametrize(
    ("clusters", "wrong"),
    [([], "list of clusters is empty"), (["v100=4", {"v100": 4}], "'v100=4' twice")],
)
def test_clusters_that_are_none_are_refused(clusters: list[object], wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        ap.sweep(["fifo"], SPEC, clusters)  # type: ignore[arg-type]


@pytest.mark.thorough
def test_what_if_is_paired_by_hand(tmp_path: Path) -> None:
    found = ap.what_if(
        *(["fifo"], SPEC, "v100=2"),
        add={"a100": 2},
        rates=[2],
        seeds=range(3),
        out=tmp_path,
        n_jobs=1,
        preemption_overhead_seconds=0.0,
    )
    table = found.table().set_index(["change", "rate"])
    assert list(table.index) == [("today", 1), ("today", 2), ("+2 a100", 1), ("+2 a100", 2)]
    means = {
        cluster: [
            ap.simulate(
                "fifo",
                ap.generate_workload(jobs=10, jobs_per_hour=8.0, seed=seed).on(cluster, speed),
                cluster,
                preemption_overhead_seconds=0.0,
            )
            .jobs["jct_s"]
            .mean()
            for seed in range(3)
        ]
        for cluster, speed in (("v100=2", None), ("v100=2,a100=2", {"a100": 2.3}))
    }
    logs = np.diff(np.log(list(means.values())), axis=0)[0]
    row = table.iloc[2]
    assert row["mean_jct_s_ratio"] == pytest.approx(np.exp(logs.mean()))
    reach = 4.302652729911275 * logs.std(ddof=1) / np.sqrt(3)  # Student's, 2 degrees of freedom
    assert row["mean_jct_s_high"] == pytest.approx(np.exp(logs.mean() + reach))
    owned = table["owned_usd_per_hour"]
    assert owned.iloc[2] > owned.iloc[0] > 0
    assert (table["used_usd_per_hour"] <= table["owned_usd_per_hour"]).all()
    assert set(found.floors) == {"today", "+2 a100"}
    assert found.floors["today"].mean_jct_s <= min(means["v100=2"])
    again = ap.what_if(
        *(["fifo"], SPEC, "v100=2"),
        add="a100=2",
        rates=[2],
        seeds=range(3),
        out=tmp_path,
        n_jobs=1,
        preemption_overhead_seconds=0.0,
    )
    assert again.sweep.resumed == 12
    assert str(again) == str(found)


@pytest.mark.thorough
def test_gpus_that_nobody_needs_make_no_difference_at_all() -> None:
    found = ap.what_if(["fcfs"], {"jobs": 10}, "v100=20", add="v100=8", seeds=range(2), n_jobs=1)
    assert "no difference at all" in found.sentences()[0]


def test_nothing_changed_is_refused() -> None:
    with pytest.raises(InputError, match="Nothing is changed"):
        ap.what_if(["fcfs"], SPEC, "v100=20")


@pytest.mark.parametrize("text", ["a100=8,16,h100=4", {"a100": [8, 16], "h100": 4}])
def test_changes_stand_apart(text: object) -> None:
    assert read_changes("add", text) == {"a100": [8, 16], "h100": [4]}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", ["8", "a100", "a100=x", "a100=0", "=8", "a100=8,,4", 3, {"a": "8"}, ""]
)
def test_changes_that_are_none_are_refused(wrong: object) -> None:
    with pytest.raises(InputError, match="add"):
        read_changes("add", wrong)  # type: ignore[arg-type]


def test_clusters_are_changed_one_by_one() -> None:
    today = ap.Cluster({"v100": 8, "k80": 4}, prices_per_gpu_hour={"k80": 0.5})
    found = changed_clusters(today, "a100=8", "k80=2,4")
    assert {name: dict(each.gpus) for name, each in found.items()} == {
        "today": {"v100": 8, "k80": 4},
        "+8 a100": {"v100": 8, "k80": 4, "a100": 8},
        "-2 k80": {"v100": 8, "k80": 2},
        "-4 k80": {"v100": 8},
    }
    assert found["-2 k80"].prices_per_gpu_hour["k80"] == 0.5
    with pytest.raises(InputError, match=r"takes 5 k80 away.*has 4"):
        changed_clusters(today, None, "k80=5")
    with pytest.raises(InputError, match=r"'v10'.*v100"):
        changed_clusters(today, None, "v10=5")
