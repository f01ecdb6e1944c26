from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from apportion.cli import main

if TYPE_CHECKING:
    from pathlib import Path

# On one GPU of each type: both jobs get half of each, by symmetry of the normalised throughputs.
TABLE = "job,v100,k80\nresnet,40,10\ntwin,40,10\n"


@pytest.fixture
def table(tmp_path: Path) -> str:
    file = tmp_path / "speeds.csv"
    file.write_text(TABLE)
    return str(file)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["solve", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_prints_the_allocation_by_hand(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", table, "--cluster", "v100=1,k80=1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["job", "v100", "k80", "steps/s"]
    assert lines[2].split() == ["resnet", "0.500", "0.500", "25"]
    assert lines[3].split() == ["twin", "0.500", "0.500", "25"]
    assert [line.split()[0] for line in lines[4:]] == ["policy", "objective", "prices", "gap"]


def test_jobs_table_counts(table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("job,weight\ntwin,1\nresnet,3\n")
    out = tmp_path / "new" / "shares.csv"
    words = ["solve", table, "--cluster", "v100=1", "--jobs-table", str(jobs), "--out", str(out)]
    one_type = TABLE.replace(",k80", "").replace(",10", "")
    (tmp_path / "speeds.csv").write_text(one_type)
    assert main(words) == 0
    shares = pd.read_csv(out, index_col="job")
    assert shares["v100"].to_dict() == pytest.approx({"resnet": 0.75, "twin": 0.25}, abs=1e-6)
    assert shares["steps_per_s"].to_dict() == pytest.approx({"resnet": 30, "twin": 10}, abs=1e-4)
    assert str(out) in capsys.readouterr().out


def test_json_holds_the_certificate(table: str, tmp_path: Path) -> None:
    out = tmp_path / "shares.json"
    assert main(["solve", table, "--cluster", "v100=1,k80=1", "--out", str(out)]) == 0
    content = json.loads(out.read_text())
    assert content["status"] == "optimal"
    assert content["gap"] < 1e-6
    assert set(content["prices"]) == {"v100", "k80"}
    assert sum(content["throughput"].values()) == pytest.approx(50.0)


def test_empty_cells_are_estimated_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "half.csv", tmp_path / "shares.json"
    file.write_text("job,v100,k80\nresnet,40,\ntwin,40,10\nlm,,0\n")
    words = ["solve", str(file), "--cluster", "v100=1,k80=1", "--out", str(out)]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Filled in from the other jobs and the 26 job types" in lines[0]
    assert "Job 'lm' has no measured speed" in lines[1]
    guess = lines[3].split()
    assert guess[:2] == ["resnet", "k80"]
    assert float(guess[3]) < float(guess[2]) < float(guess[5])
    assert lines[4].split()[:2] == ["lm", "v100"]
    content = json.loads(out.read_text())
    assert [(each["job"], each["on"]) for each in content["estimated"]] == [
        ("resnet", "k80"),
        ("lm", "v100"),
    ]
    assert content["shares"]["lm"]["k80"] == pytest.approx(0.0, abs=1e-6)
    file.write_text("job,a,b\nx,4,\ny,2,1\n")
    assert main(["solve", str(file), "--cluster", "a=1,b=1"]) == 0
    assert "Filled in from the other jobs;" in capsys.readouterr().out


def test_many_jobs_are_cut_on_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "many.csv"
    file.write_text("job,v100\n" + "".join(f"{n},1\n" for n in range(60)))
    assert main(["solve", str(file), "--cluster", "v100=3"]) == 0
    assert "... and 20 more jobs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("job,v100\n", "has no rows"),
        ("job\na\n", "holds no table"),
        ("job,v100\na,fast\n", "line 2: v100 is 'fast'; it must be a number"),
        ("job,v100\na,1,2,3\nb,1,2,3,4,5\n", "csv"),
        ("job,v100\na,1\na,2\n", "'a'"),
        ("job,v100\na,-1\n", "-1"),
    ],
)
def test_tables_that_make_no_sense(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(content)
    assert message in refused(capsys, str(file), "--cluster", "v100=1")


@pytest.mark.thorough
def test_files_that_cannot_be_read_or_written(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workers = ["--cluster", "v100=1,k80=1"]
    assert "No such file" in refused(capsys, str(tmp_path / "none.csv"), *workers)
    assert "directory" in refused(capsys, str(tmp_path), *workers)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    assert "UTF-8" in refused(capsys, str(binary), *workers)
    assert "Cannot write" in refused(capsys, table, *workers, "--out", f"{table}/x.csv")
    assert "No such file" in refused(capsys, table, *workers, "--jobs-table", "none.csv")


def test_names_that_do_not_match(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    workers = ["--cluster", "v100=1,k80=1"]
    assert "Did you mean 'fifo'" in refused(capsys, table, *workers, "--policy", "fif")
    assert "'k80'. Did you mean 'k8'" in refused(capsys, table, "--cluster", "v100=1,k8=1")
    assert "write type=GPUs" in refused(capsys, table, "--cluster", "v100")


def test_solving_waits_for_no_simulator(tmp_path: Path) -> None:
    file = tmp_path / "speeds.csv"
    file.write_text("job,v100,k80\na,40,10\nb,12,4\n")
    unused = ["joblib", "matplotlib", "rich", "scipy.stats", "osqp"]
    unused += ["apportion.experiments", "apportion.sim.simulation", "apportion.sim.links"]
    unused += ["apportion.sim.about", "scipy.optimize"]
    program = (
        "import sys; from apportion.cli import main\n"
        f"main(['solve', {str(file)!r}, '--workers', 'v100=1,k80=1'])\n"
        f"print([name for name in {unused!r} if name in sys.modules])\n"
        "print(len(sys.modules) < 2000)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-2:] == ["[]", "True"]
