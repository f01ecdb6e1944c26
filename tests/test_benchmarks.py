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


@pytest.mark.parametrize("benchmark", ["policy_runtime", "gavel_physical"])
def test_benchmarks_explain_themselves(benchmark: str) -> None:
    assert "--quick" in run(benchmark, "--help")
