"""``apportion floor`` says what `floor` finds, and how far tables are, as comparisons say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

import apportion as ap
from apportion.cli import main

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "v100=2,k80=2"
JOBS = "job,arrival_s,job_type,scale_factor,total_steps,weight\n" + "".join(
    f"j{number},{60 * number},ResNet-18 (batch size 32),{1 + number % 2},"
    f"{9000 * (1 + number)},{weight}\n"
    for number, weight in enumerate((1, 5, 1, 2))
)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, list[str]]:
    assert main(["floor", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    return {
        name: next(x for x in lines if x.startswith(name))[len(name) :].split() for name in NAMES
    }


NAMES = ("mean JCT, h", "weighted mean JCT, h", "makespan, h", "worst FTF")


@pytest.mark.thorough
def test_floors_and_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS)
    workload = ap.read_workload(path)
    found = ap.compare(["fcfs", "max_min_fairness"], workload, CLUSTER, n_jobs=1)
    found.jobs().to_csv(tmp_path / "ran.csv", index=False)
    words = ["--workload", str(path), "--cluster", CLUSTER]
    said = told(capsys, *words, "--jobs-table", str(tmp_path / "ran.csv"))
    bound, above = ap.floor(workload, CLUSTER), found.above_floor()
    least = (bound.mean_jct_s / 3600, bound.weighted_mean_jct_s / 3600, bound.makespan_s / 3600)
    for name, figure in zip(NAMES, (*least, bound.ftf_max), strict=True):
        assert said[name][0] == f"{figure:.4g}"
    for name, column in zip(
        (NAMES[0], *NAMES[2:]), ("mean_jct", "makespan", "ftf_max"), strict=True
    ):
        assert said[name][1::2] == [f"{100 * each:+.1f}" for each in above[column]]
    assert said[NAMES[1]][0] != said[NAMES[0]][0]
    jct_s = found.runs["fcfs"].jobs["jct_s"]
    weight = workload.jobs["weight"]
    mean_s = (jct_s * weight).sum() / weight.sum()
    assert said[NAMES[1]][1] == f"{100 * (mean_s / bound.weighted_mean_jct_s - 1):+.1f}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.iloc[1:], "lacks job"),
        (lambda table: pd.concat([table, table]), "has twice job"),
        (lambda table: table.assign(job="x"), "lacks job"),
        (lambda table: table.assign(completion_s=0), "before it arrives"),
        (lambda table: table.assign(completion_s="soon"), "completion_s"),
        (lambda table: table.drop(columns="completion_s"), "completion_s"),
    ],
)
def test_tables_that_are_of_other_jobs_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: object, message: str
) -> None:
    path, ran = tmp_path / "jobs.csv", tmp_path / "ran.csv"
    path.write_text(JOBS)
    table = pd.DataFrame({"job": [f"j{number}" for number in range(4)], "completion_s": 1e6})
    change(table).to_csv(ran, index=False)  # type: ignore[operator]
    words = ["--workload", str(path), "--cluster", CLUSTER, "--jobs-table", str(ran)]
    assert main(["floor", *words]) != 0
    assert message in capsys.readouterr().err
