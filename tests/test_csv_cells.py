from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion as ap
from apportion.whole_files import guarded, restored, to_csv

if TYPE_CHECKING:
    from pathlib import Path

FORMULAS = ["=HYPERLINK(1)", "+1", "-a", "@x", "\tx", "'=1", "''-", "'plain", "plain", "5", "é"]
texts = st.text(st.sampled_from("'=+-@\t\ra1 ,"), max_size=6)


@given(st.lists(texts, min_size=1))
def test_every_text_comes_back(cells: list[str]) -> None:
    written = pd.Series([guarded(cell) for cell in cells], dtype=str)
    assert restored(written).tolist() == cells
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in written)


def test_cells_labels_and_names_are_guarded_and_numbers_are_not() -> None:
    table = pd.DataFrame({"=a": [-1.5, 2.0], "b": ["=1", "x"]}, index=["+job", "y"])
    lines = to_csv(table).splitlines()
    assert lines == [",'=a,b", "'+job,-1.5,'=1", "y,2.0,x"]
    assert to_csv(table, index=False).splitlines() == ["'=a,b", "-1.5,'=1", "2.0,x"]


def test_workloads_are_saved_and_read_with_such_names(tmp_path: Path) -> None:
    jobs = pd.DataFrame(
        {"job_type": FORMULAS, "total_steps": 10.0, "entity": FORMULAS}, index=FORMULAS
    )
    keys = pd.MultiIndex.from_product([FORMULAS, [1]], names=["job_type", "scale_factor"])
    workload = ap.Workload("w", jobs, pd.DataFrame({"v": 1.0}, index=keys))
    saved, _ = workload.save(tmp_path / "w.csv")
    assert not any(line.startswith(("=", "+", "-", "@")) for line in saved.read_text().splitlines())
    again = ap.read_workload(saved)
    assert again.jobs.index.tolist() == FORMULAS
    assert again.jobs["entity"].tolist() == FORMULAS


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "@SUM(A1)"])
def test_tables_of_comparisons_are_guarded(tmp_path: Path, name: str) -> None:
    workload = ap.generate_workload(jobs=1)
    jobs = workload.jobs.set_axis([name], axis=0).assign(entity=name)
    several = ap.compare(
        ["fifo"], ap.Workload(name, jobs, workload.throughputs), {"v100": 1}, n_jobs=1
    )
    several.to_csv(tmp_path)
    table = pd.read_csv(io.StringIO((tmp_path / "jobs.csv").read_text()))
    assert table["job"].tolist() == [f"'{name}"]
