"""What users, entities and partitions had, recomputed by plain pandas."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed, sampled
from tests.sim.test_deadlines import RUNS, due, loaded

import apportion as ap
from apportion.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def owned(kind: str, seed: int) -> tuple[Any, ap.Cluster]:
    """Draw jobs of users, entities and partitions; users have weights, some jobs deadlines."""
    workload, cluster = loaded(kind, seed)
    rng, jobs = np.random.default_rng(seed), len(workload.jobs)
    user = rng.choice(["ann", "bob", "eve"], jobs)
    facts = {
        "user": user,
        "entity": rng.choice(["red", "blue"], jobs),
        "partition": rng.integers(0, 3, jobs),
        "weight_of_user": pd.Series({"ann": 1.0, "bob": 2.0, "eve": 0.5})[user].to_numpy(),
    }
    whole = replace(workload, jobs=workload.jobs.assign(**facts))
    return due(whole, np.where(rng.random(jobs) < 0.5, 3000.0, np.nan)), cluster


def expected(jobs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Work a table out group by group, from the definitions."""
    rows = {}
    for name in sorted(set(jobs[column])):
        own = jobs[jobs[column] == name]
        jct_s = own["completion_s"] - own["arrival_s"]
        with_one = own["deadline_s"].notna()
        rows[name] = {
            "jobs": len(own),
            "gpu_seconds": own["gpu_seconds"].sum(),
            "share": own["gpu_seconds"].sum() / jobs["gpu_seconds"].sum(),
            "queueing_s": own["queueing_s"].mean(),
            "mean_jct_s": jct_s.mean(),
            "p95_jct_s": np.percentile(jct_s, 95),
            "ftf_mean": (jct_s / own["isolated_s"]).mean(),
            "ftf_max": (jct_s / own["isolated_s"]).max(),
            "deadlines_met": (jct_s <= own["deadline_s"])[with_one].mean(),
        }
    table = pd.DataFrame(rows).T.rename_axis(column)
    if jobs["deadline_s"].isna().all():
        table = table.drop(columns="deadlines_met")
    table["jain_index"] = jain(table["share"])
    if column == "user":
        table["weight"] = jobs.groupby("user")["weight_of_user"].max()
        table["weighted_jain_index"] = jain(table["share"] / table["weight"])
    return table


def jain(x: pd.Series) -> float:
    return float(sum(x) ** 2 / (len(x) * sum(each * each for each in x)))


@pytest.mark.parametrize(("kind", "decider", "mechanism"), sampled(RUNS, 3))
@pytest.mark.parametrize("seed", each_seed(1, 6))
def test_what_groups_had(kind: str, decider: str, mechanism: str, seed: int) -> None:
    workload, cluster = owned(kind, seed)
    run = ap.simulate(decider, workload, cluster, mechanism=mechanism)
    for column in ("user", "entity", "partition"):
        found = run.by(column)
        assert found["share"].sum() == pytest.approx(1.0)
        assert found["jobs"].sum() == len(workload.jobs)
        pd.testing.assert_frame_equal(
            found, expected(run.jobs, column), check_dtype=False, check_index_type=False
        )


def made(held: dict[str, float], **more: Any) -> pd.DataFrame:
    """Make the jobs table of a run in which each user has a job."""
    ones = pd.DataFrame(1.0, list(held), ["queueing_s", "jct_s", "ftf"])
    return ones.assign(user=list(held), gpu_seconds=list(held.values()), **more)


def run_of(jobs: pd.DataFrame) -> ap.Run:
    return ap.Run("p", "w", ap.Cluster({"a": 1}), jobs, jobs, {}, 0.0, 0.0, 0)


def test_the_index_by_hand() -> None:
    one = run_of(made({"ann": 6.0, "bob": 0.0, "eve": 0.0})).by("user")
    assert one["jain_index"].tolist() == pytest.approx([1 / 3] * 3)
    even = run_of(made({"ann": 2.0, "bob": 2.0})).by("user")
    assert even["jain_index"].tolist() == pytest.approx([1.0] * 2)
    assert "weighted_jain_index" not in even
    by_weight = run_of(made({"ann": 2.0, "bob": 6.0}, weight_of_user=[1.0, 3.0])).by("user")
    assert by_weight["jain_index"].iloc[0] == pytest.approx(8**2 / (2 * 40))
    assert by_weight["weighted_jain_index"].tolist() == pytest.approx([1.0] * 2)


@pytest.mark.thorough
def test_command_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload, cluster = owned("types", 1)
    workload.save(tmp_path / "jobs.csv")
    words = ["compare", "--workload", str(tmp_path / "jobs.csv"), "--cluster", str(cluster)]
    words += ["--policies", "fifo,max_min_fairness", "--jobs", "1", "--out", str(tmp_path / "out")]
    assert main([*words, "--by", "usr"]) == 2
    assert "Did you mean 'user'?" in capsys.readouterr().err
    assert main([*words, "--by", "user"]) == 0
    lines = capsys.readouterr().out.splitlines()
    # In 80 columns the table continues in a second block.
    head = next(
        place for place, line in enumerate(lines) if line.startswith("policy") and "jobs" in line
    )
    shown = [line.split() for line in lines[head + 2 : head + 8]]
    compared = ap.compare(["fifo", "max_min_fairness"], workload, cluster, n_jobs=1)
    table = compared.by("user")
    assert [row[:3] for row in shown] == [
        [policy, user, str(jobs)]
        for policy, user, jobs in table[["policy", "user", "jobs"]].itertuples(index=False)
    ]
    for label, run in compared.runs.items():
        own = table[table["policy"] == label].drop(columns="policy").set_index("user")
        pd.testing.assert_frame_equal(own, run.by("user"))
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<h2>Groups of jobs</h2>" in page
    assert re.findall("<summary>(By .*?)</summary>", page) == [
        *("By entity", "By user", "By job type")
    ]
