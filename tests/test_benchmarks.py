from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]


def run(benchmark: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{benchmark}", "--quick", *options],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_policy_runtime_agrees_with_plain_cvxpy(tmp_path: Path) -> None:
    shown = run("policy_runtime", "--out", str(tmp_path))
    table = pd.read_csv(tmp_path / "policy_runtime.csv")
    assert set(table["policy"]) == {"max_min_fairness", "makespan", "finish_time_fairness", "fifo"}
    assert set(table["workload"]) == {"single", "mixed"}
    # The second opinion: the textbook form, by solvers with looser default tolerances.
    assert (table["differ"] < 1e-3).all()
    assert (table["gap"] < 1e-6).all()
    assert (table["apportion"] > 0).all()
    assert "Gain below" in shown


def test_one_round_lies_between_first_fit_and_its_bound(tmp_path: Path) -> None:
    run("dally_spatial", "--out", str(tmp_path))
    runs = pd.read_csv(tmp_path / "dally_spatial_runs.csv")
    assert runs["proved"].all()
    assert (runs["bound"] >= 1 - 1e-6).all()
    assert (runs["first fit"] <= 1 + 1e-6).all()


def test_gavel_physical_says_that_the_data_are_absent(tmp_path: Path) -> None:
    shown = run("gavel_physical", "--data", str(tmp_path / "nowhere"), "--out", str(tmp_path))
    assert "skipped: data absent" in shown
    ways = pd.read_csv(tmp_path / "gavel_physical_ways.csv").set_index(["trace", "cluster"])
    static = ways.loc["makespan"].set_index("policy", append=True)["makespan ideal"]
    for cluster, makespan_h in static.xs("makespan", level="policy").items():
        assert makespan_h <= static.xs(cluster).min() * (1 + 1e-6)


def test_gavel_physical_reads_the_public_traces(public_data: Path, tmp_path: Path) -> None:
    shown = run("gavel_physical", "--data", str(public_data / "gavel"), "--out", str(tmp_path))
    assert "skipped" not in shown
    assert len(pd.read_csv(tmp_path / "gavel_physical.csv")) == 8


def test_schedulers_on_racks_are_compared_pair_by_pair(tmp_path: Path) -> None:
    options = ("--generate-jobs", "20", "--schedulers", "dally", "gandiva")
    shown = run("dally_schedulers", "--out", str(tmp_path), *options)
    assert "Gandiva" not in shown.split("Hours, medians")[0]  # nothing is judged in a quick run
    runs = pd.read_csv(tmp_path / "dally_schedulers_runs.csv")
    assert set(runs["scheduler"]) == {"dally", "gandiva"}
    gains = pd.read_csv(tmp_path / "dally_schedulers_gains.csv")
    batch = runs[runs["arrivals"] == "batch"].pivot(
        index="seed", columns="scheduler", values="comm h"
    )
    less = 100 * (1 - batch["dally"] / batch["gandiva"])
    row = gains[(gains["arrivals"] == "batch") & (gains["figure"] == "comm")].iloc[0]
    assert row["median"] == pytest.approx(less.median())
    assert row["least"] == pytest.approx(less.min())


@pytest.mark.parametrize("benchmark", ["policy_runtime", "gavel_physical"])
def test_benchmarks_explain_themselves(benchmark: str) -> None:
    assert "--quick" in run(benchmark, "--help")
