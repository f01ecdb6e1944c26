from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from apportion.cli import main
from apportion.errors import SolveError
from apportion.experiments import simulations
from apportion.sim import Run, simulate

CLOCKS = ["policy_seconds", "wall_seconds"]
SMALL = ["--generate", "jobs=8,scale_factors=single", "--cluster", "v100=4,k80=8"]


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["compare", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_end_to_end_in_a_pipe(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "apportion", "compare", *SMALL, "--policies"]
    words += ["fifo,makespan", "--jobs", "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("generated-0: 8 jobs on v100=4,k80=8, 2 policies in ")
    assert lines[2].startswith("policy")
    assert [line.split()[0] for line in lines[4:6]] == ["fifo", "makespan"]
    assert any(line.startswith("Note: ") for line in lines)
    assert "out/compare/report.html" in lines[-2]
    assert max(map(len, lines)) <= 100
    made = sorted(file.name for file in (tmp_path / "out" / "compare").iterdir())
    assert made == [
        "jobs.csv",
        "report.html",
        "run.json",
        "run.toml",
        "schedule.csv.gz",
        "start_costs.csv",
        "summary.csv",
    ]


@pytest.mark.thorough
def test_the_recorded_command_repeats_the_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL, "--policies", "fifo", "--seed", "7", "--jobs", "1", "--out", "first"]
    assert main(["compare", *words]) == 0
    assert ", 1 policy in " in capsys.readouterr().out
    first = json.loads(Path("first/run.json").read_text())
    command = shlex.split(first["command"])
    assert command[:2] == ["apportion", "compare"]
    assert main([*command[1:], "--jobs", "1", "--out", "second"]) == 0
    second = json.loads(Path("second/run.json").read_text())
    for record in (first, second):
        for clock in CLOCKS:
            record["summary"][0].pop(clock)
    assert first == second


@pytest.mark.thorough
def test_own_jobs_from_csv(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(
        "job,job_type,scale_factor,total_steps\nlong,a,1,7200\nshort,a,1,3600\n"
    )
    (tmp_path / "speeds.csv").write_text("job_type,scale_factor,v100\na,1,1\n")
    words = ["compare", "--workload", "mine.csv(throughputs=speeds.csv)", "--jobs", "1"]
    words += ["--cluster", "v100=1", "--policies", "shortest_job_first, fifo"]
    assert main(words) == 0
    summary = pd.read_csv("out/compare/summary.csv")
    # The first starts 30 s late, and the second that and its own.
    assert summary["mean_jct_s"].tolist() == pytest.approx([7245.0, 9045.0])
    printed = capsys.readouterr().out
    assert "a start or move costs 30 s" in printed
    lines = printed[printed.index("where a start costs so many times") :].splitlines()
    assert lines[1].split() == ["policy", "x", "0", "x", "1", "x", "5"]
    assert lines[3].split() == ["shortest_job_first", "2.00", "2.01", "2.06"]
    assert lines[4].split() == ["fifo", "2.50", "2.51", "2.56"]
    assert main([*words, "--mechanism", "(preemption_overhead_seconds=0)"]) == 0
    summary = pd.read_csv("out/compare/summary.csv")
    assert summary["mean_jct_s"].tolist() == pytest.approx([7200.0, 9000.0])
    assert "so many times" not in capsys.readouterr().out
    words[2] = "mine.csv(throughputs=speeds.csv, limit=1)"
    assert main(words) == 0
    assert pd.read_csv("out/compare/summary.csv")["jobs"].tolist() == [1, 1]


@pytest.mark.thorough
def test_a_log_measured_on_other_accelerators(capsys: pytest.CaptureFixture[str]) -> None:
    Path("log.csv").write_text(
        "job_id,submission_time,duration,num_gpu\nx,0,3600,1\ny,0,3600,1\nz,0,60,2\n"
    )
    Path("speeds.csv").write_text("job_type,scale_factor,a100,h100\na,1,1,2\n")
    words = ["--workload", "log.csv(throughputs=speeds.csv)", "--cluster", "h100=1"]
    words += ["--policies", "fifo", "--jobs", "1"]
    assert "a100, h100" in refused(capsys, *words)
    words[1] = "log.csv(throughputs=speeds.csv, reference=a100)"
    assert "scale factor 2" in refused(capsys, *words)
    words[1] = "log.csv(throughputs=speeds.csv, reference=a100, missing=drop)"
    assert main(["compare", *words]) == 0
    # An hour on an a100, its start included, is half an hour on an h100; the second job waits.
    summary = pd.read_csv("out/compare/summary.csv")
    assert summary["mean_jct_s"].tolist() == pytest.approx([2700.0])
    command = json.loads(Path("out/compare/run.json").read_text())["command"]
    assert "reference=a100, missing=drop" in command
    assert main([*shlex.split(command)[1:], "--out", "again"]) == 0
    assert Path("again/jobs.csv").read_bytes() == Path("out/compare/jobs.csv").read_bytes()


def test_states_are_for_helios(capsys: pytest.CaptureFixture[str]) -> None:
    Path("log.csv").write_text("job,job_type,scale_factor,total_steps\nx,a,1,3600\n")
    words = ["--workload", "log.csv(states='COMPLETED, FAILED')", "--policies", "fifo"]
    assert "not 'helios'" in refused(capsys, *words)
    Path("own.toml").write_text("[workload]\nstates = 'COMPLETED'\n")
    assert "states is for a workload from a file" in refused(capsys, "--config", "own.toml")


def test_a_failing_policy_is_named_and_the_others_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(policy: Any, *args: Any, **options: Any) -> Run:
        if policy.label == "makespan":
            raise SolveError("no solver")
        return simulate(policy, *args, **options)

    monkeypatch.setattr(simulations, "simulate", failing)
    assert main(["compare", *SMALL, "--policies", "makespan,fifo", "--jobs", "1"]) == 1
    captured = capsys.readouterr()
    assert [line.split()[:2] for line in captured.out.splitlines()[4:6]][1] == ["makespan", "-"]
    assert captured.err.count("\n") == 1
    assert "1 of 2 policies failed. 'makespan': SolveError: no solver" in captured.err
    assert Path("out/compare/report.html").exists()


def test_ctrl_c_keeps_what_is_finished(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def counting(policy: Any, *args: Any, **options: Any) -> Run:
        if policy.label == "makespan" and len(done) == 1:
            done.append("interrupted")
            raise KeyboardInterrupt
        done.append(policy.label)
        return simulate(policy, *args, **options)

    monkeypatch.setattr(simulations, "simulate", counting)
    words = ["compare", *SMALL, "--policies", "fifo,makespan", "--jobs", "1"]
    words += ["--start-costs", "1"]
    assert main(words) == 130
    assert "out/compare" in capsys.readouterr().err
    assert main(words) == 0
    assert done == ["fifo", "interrupted", "makespan"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policies", "fifo,fif"], "'fif'. Did you mean 'fifo'?"),
        (["--policies", "fifo,fifo"], "'fifo' is in the list twice"),
        (["--policies", ","], "no policy to run"),
        (["--cluster", "v100=x"], "write type=GPUs"),
        (["--cluster", "v1000=8"], "Did you mean 'v100'?"),
        (["--cluster", "v100=0"], "no GPUs"),
        (["--workload", "none.csv"], "none.csv"),
        (["--workload", "."], "directory"),
        (["--workload", "words.csv"], "words.csv"),
        (["--workload", "words.csv(format=phily)"], "Did you mean 'philly'?"),
        (
            ["--workload", "words.csv", "--generate", "jobs_per_hour=3"],
            "--generate 'jobs_per_hour=...' is for generated",
        ),
        (["--workload", "(throughputs=words.csv)"], "throughputs is for a workload from a file"),
        (["--out", "words.csv"], "Cannot write"),
        (["--mechanism", "(round_seconds=0)"], "round_seconds is 0"),
        (["--mechanism", "(placement=first-fit)", "--jobs", "1"], "Did you mean 'first_fit'?"),
        (["--generate", "jobs=0"], "--generate, jobs: '0' must be a whole number >= 1"),
    ],
)
def test_what_cannot_be_compared(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "words.csv").write_text("these,are\nonly,words\n")
    policies = [] if "--policies" in words else ["--policies", "fifo"]
    assert message in refused(capsys, *words, *policies)
    assert not (tmp_path / "out" / "compare" / "summary.csv").exists()
    assert not (tmp_path / "out" / "compare" / ".partial").exists()
