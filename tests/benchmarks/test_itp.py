from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from tests.in_process import run_benchmark

ROOT = Path(__file__).parents[2]


def test_without_the_logs_it_says_which_files_are_missing(tmp_path: Path) -> None:
    shown = run_benchmark("logs.itp", "--quick", "--data", str(tmp_path / "gavel"), folder=ROOT)
    assert "skipped: the ITP traces are absent" in shown.out
    assert "cluster02.csv.gz" in shown.out


@pytest.mark.thorough
def test_nobody_waits_where_all_fit_and_a_log_without_starts_has_no_record(
    public_data: Path, tmp_path: Path
) -> None:
    options = ("--quick", "--data", str(public_data / "gavel"), "--out", str(tmp_path))
    shown = run_benchmark("logs.itp", *options, folder=ROOT).out
    table = pd.read_csv(tmp_path / "itp.csv").set_index("decider")
    assert list(table.index) == ["fcfs", "easy", "conservative", "fifo"]
    log = pd.read_csv(public_data / "microsoft_itp" / "cluster10.csv.gz")
    first = log.sort_values("submission_time", kind="stable").head(60)
    # Sixteen GPUs hold the first 60 jobs: each ends when it was submitted and has run.
    mean_h = first["duration"].mean() / 3600
    assert table.loc["fcfs", "mean JCT h"] == pytest.approx(mean_h, rel=1e-9)
    assert (table.loc[["fcfs", "easy", "conservative"], "mean wait h"] == 0).all()
    assert "as_recorded: none" in shown
