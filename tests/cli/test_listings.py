from __future__ import annotations

import json
from pathlib import Path

import pytest

from apportion.cli import main
from apportion.mechanism.deciders import scheduler_table
from apportion.policies import policy_table

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def test_policies_are_listed_within_a_hundred_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines[1:] if line[:1].strip()]
    assert set(policy_table()["name"]) | set(scheduler_table()["name"]) <= set(names)
    assert max(map(len, lines)) <= 100


def test_policies_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    kinds = {"policies": {"problem"}, "schedulers": {"mechanism", "rule"}}
    assert set(listed) == set(kinds)
    for kind, what in kinds.items():
        entries = listed[kind]
        assert [set(entry) for entry in entries] == [{"name", "source", *what}] * len(entries)
    assert "fifo" in {entry["name"] for entry in listed["policies"]}
    assert {"ada_srsf", "dally", "afs"} <= {entry["name"] for entry in listed["schedulers"]}


def test_a_generated_workload_can_be_described(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "made.csv"
    words = ["workload", "generate", str(file), "--generate-jobs", "25", "--seed", "4"]
    assert main(words) == 0
    first = file.read_bytes()
    assert main(words) == 0
    assert file.read_bytes() == first
    capsys.readouterr()
    assert main(["workload", "describe", str(file), "--cluster", "v100=8,k80=8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["jobs", "25", "jobs"]
    assert any(line.startswith("offered load of the cluster") for line in lines)
    assert lines[-1].startswith("Note: ")


def test_a_real_trace(capsys: pytest.CaptureFixture[str]) -> None:
    trace = DATA / "gavel" / "traces" / "physical_cluster" / "max_min_fairness.trace"
    if not trace.exists():
        pytest.skip("the public traces are not beside the project (../shared/data)")
    assert main(["workload", "describe", str(trace)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["jobs", "96", "jobs"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["describe", "none.trace"], "none.trace"),
        (["describe", "."], "directory"),
        (["generate", "made.txt"], ".csv"),
        (["generate", "made.csv", "--scale-factors", "gavle"], "Did you mean 'gavel'"),
    ],
)
def test_what_cannot_be_read_or_written(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["workload", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert message in captured.err
