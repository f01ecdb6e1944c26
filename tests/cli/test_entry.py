from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from apportion import __version__
from apportion.cli import entry, main
from apportion.errors import SolveError

if TYPE_CHECKING:
    from pathlib import Path

APPORTION = [sys.executable, "-m", "apportion"]


def error_of(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = main(list(words))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("apportion: error: ")
    return status, captured.err


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys, contextlib\n"
        "from apportion.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['compare', '--help'])\n"
        "heavy = {'numpy', 'pandas', 'cvxpy', 'scipy', 'matplotlib', 'joblib', 'rich'}\n"
        "sys.exit(' '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
    assert "--policies" in done.stdout


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"apportion {__version__}\n"


def test_without_words_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 0
    assert "workload" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compere"], "Unknown command 'compere'. Did you mean 'compare'?"),
        (["workload", "descibe"], "Did you mean 'describe'?"),
        (["workload"], "required: COMMAND"),
        (["compare", "--polices", "fifo"], "'--polices'. Did you mean '--policies'?"),
        (["compare", "--polic", "fifo"], "Unknown option '--polic'"),
        (["compare", "words"], "Unexpected argument 'words'"),
        (["compare", "--seed", "one"], "--seed: 'one' must be a whole number >= 0"),
        (["compare", "--jobs", "0"], "--jobs: '0' must be a whole number >= 1"),
        (
            ["compare", "--mechanism", "(round_seconds=x)"],
            "--mechanism, round_seconds: 'x' must be a finite number",
        ),
        (["compare", "--mechanism", "round"], "Did you mean 'rounds'?"),
        (["compare", "--generate", "durations=gavl"], "Did you mean 'gavel'?"),
        (["compare", "--out"], "--out needs a value"),
        (["solve"], "required: FILE, --cluster"),
        (
            ["compare", "--lease-second", "9"],
            "of --mechanism: --mechanism 'leases(lease_seconds=9)'",
        ),
        (["compare", "--jobs-per-hour=9"], "of --generate: --generate 'jobs_per_hour=9'"),
        (["compare", "--columns", "a=b,c=d"], """--workload "FILE(columns='a=b,c=d')"."""),
        (["sweep", "--trace-format", "x"], "of --workload: --workload 'FILE(format=x)'"),
        (["advise", "a.csv", "--limit", "3"], "limit is a setting of FILE: 'FILE(limit=3)'"),
        (["solve", "x.csv", "--cluster", "v100=1", "--out", "x.txt"], "end in .csv or .json"),
    ],
)
def test_words_that_make_no_sense(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text = error_of(capsys, *words)
    assert status == 2
    assert message in text


def test_a_failure_is_one_line_and_status_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(args: object) -> None:
        raise SolveError("every solver\nfailed")

    monkeypatch.setattr(entry, "_run", fails)
    status, text = error_of(capsys, "policies")
    assert status == 1
    assert text.startswith("apportion: error: every solver failed")
    assert text.count("\n") == 1


def test_ctrl_c_is_one_line_and_status_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(entry, "_run", interrupted)
    assert main(["policies"]) == 130
    assert capsys.readouterr().err == "apportion: interrupted.\n"
    assert main(["compare", "--out", "here"]) == 130
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "kept in here" in text
    assert "same command" in text


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="pipes as in a Unix shell")
def test_a_reader_that_leaves_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*APPORTION, "policies"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.thorough
def test_verbose_shows_where_an_error_came_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["solve", str(tmp_path / "none.csv"), "--cluster", "v100=1"]
    status, brief = error_of(capsys, *words)
    assert status == 2
    full = subprocess.run([*APPORTION, *words, "-v"], capture_output=True, text=True, check=False)
    assert full.returncode == 2
    assert "Traceback" not in brief
    assert "Traceback" in full.stderr
    assert full.stderr.splitlines()[-1] == brief.strip()


@pytest.mark.thorough
def test_what_stands_in_a_call_of_python_is_not_written_as_an_option(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "jobs.csv").write_text("job_type,total_steps,scale_factor\nlidar,10,2\n")
    (tmp_path / "speeds.csv").write_text("job_type,scale_factor,a100\nlidar,2,2\n")
    file, speeds = (tmp_path / name for name in ("jobs.csv", "speeds.csv"))
    words = ["--workload", f"{file}(throughputs={speeds})", "--out", str(tmp_path)]
    _, said = error_of(capsys, "compare", *words, "--policies", "dally", "--racks", "1")
    assert "get_network('table1', cluster=cluster, profiles=...)" in said
    assert "network='none'" in said
