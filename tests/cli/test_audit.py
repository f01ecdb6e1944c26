"""``apportion audit`` says what `audit` and `audit_run` find, and refuses what is no audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

import apportion as ap
from apportion.cli import main

if TYPE_CHECKING:
    from pathlib import Path

RUN = ["--generate", "jobs=12,jobs_per_hour=8", "--cluster", "v100=4,k80=4", "--policy", "fcfs"]


def test_an_allocation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    speeds, jobs = tmp_path / "speeds.csv", tmp_path / "jobs.csv"
    speeds.write_text("job,v100,k80\na,9,2\nb,5,4\nc,3,1\n")
    jobs.write_text("job,user\na,ann\nb,bob\nc,bob\n")
    out = tmp_path / "found"
    words = ["audit", str(speeds), "--cluster", "v100=1,k80=1", "--jobs-table", str(jobs)]
    assert main([*words, "--by", "user", "--lies", "0.5,2", "--out", str(out)]) == 0
    told = pd.read_csv(speeds, index_col="job")
    found = ap.audit("max_min_fairness", told, workers="v100=1,k80=1", lies=(0.5, 2.0))
    said = capsys.readouterr().out
    assert said.startswith(repr(found))
    assert "By user" in said
    pd.testing.assert_frame_equal(pd.read_csv(out / "envy.csv"), found.envy)
    pd.testing.assert_frame_equal(pd.read_csv(out / "lies.csv"), found.lies)
    groups = pd.read_csv(out / "groups.csv", index_col="user")
    assert groups["jobs"].to_dict() == {"ann": 1, "bob": 2}


def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *RUN, "--out", str(tmp_path)]) == 0
    cluster = ap.Cluster.of("v100=4,k80=4")
    drawn = ap.generate_workload(jobs=12, jobs_per_hour=8, seed=0, scale_factors="gavel")
    load = drawn.fitting(cluster)
    found = ap.audit_run(ap.simulate("fcfs", load, cluster), load)
    assert capsys.readouterr().out.startswith(repr(found))
    written = pd.read_csv(tmp_path / "sharing.csv", index_col="job").sort_index()
    told = found.sharing.sort_index()
    pd.testing.assert_frame_equal(written, told.rename_axis("job"), rtol=1e-12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["FILE"], "give --cluster v100=1,k80=1"),
        (["FILE", "--cluster", "v100=1", "--racks", "2"], "--racks does nothing to the audit"),
        (["FILE", "--cluster", "v100=1", "--by", "user"], "give --jobs-table FILE"),
        (["FILE", "--cluster", "v100=1", "--lies", "-1"], "-1"),
        ([*RUN, "--lies", "2"], "--lies does nothing to the audit of a run"),
        ([*RUN, "--by", "colour"], "colour"),
        ([*RUN, "--mechanism", "exact"], "exact"),
    ],
)
def test_what_is_no_audit(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "speeds.csv"
    file.write_text("job,v100\na,9\nb,5\n")
    assert main(["audit", *(str(file) if word == "FILE" else word for word in words)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
