"""``apportion compare --config run.json``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

from apportion.cli import main
from apportion.experiments import compare
from apportion.sim import generate_workload

CLOCKS = ("policy_seconds", "wall_seconds")
FIRST = ["--generate", "jobs=4,scale_factors=single", "--cluster", "v100=2,k80=2"]
FIRST += ["--policies", "fifo,isolated", "--seed", "3", "--mechanism", "(round_seconds=1234.56789)"]
JOBS = "job,job_type,scale_factor,total_steps\nlong,a,1,7200\nshort,a,1,3600\n"


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compared(*words: str, out: str = "first") -> dict[str, Any]:
    """Compare, and return what run.json holds, the clocks aside."""
    assert main(["compare", *words, "--jobs", "1", "--out", out]) == 0
    record: dict[str, Any] = json.loads(Path(out, "run.json").read_text())
    for row in record["summary"]:
        for clock in CLOCKS:
            row.pop(clock)
    return record


def again(*words: str) -> dict[str, Any]:
    return compared("--config", "first/run.json", *words, out="second")


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["compare", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    return captured.err


def own_jobs() -> list[str]:
    Path("mine.csv").write_text(JOBS)
    Path("speeds.csv").write_text("job_type,scale_factor,v100\na,1,1\n")
    words = ["--workload", "mine.csv(throughputs=speeds.csv)", "--cluster", "v100=1"]
    return [*words, "--policies", "fifo", "--mechanism", "exact"]


@pytest.mark.thorough
def test_a_comparison_in_rounds_is_repeated_to_the_byte(capsys: pytest.CaptureFixture[str]) -> None:
    first = compared(*FIRST)
    assert first["settings"]["round_seconds"] == 1234.56789
    capsys.readouterr()
    assert again() == first
    table_and_notes = capsys.readouterr().out.split("Report: ")[0]
    assert "run.json" not in table_and_notes
    assert Path("second/jobs.csv").read_bytes() == Path("first/jobs.csv").read_bytes()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    sampled(
        [
            ["--generate", "jobs=4,arrivals=poisson"],
            ["--generate", "jobs=4", "--mechanism", "(lease_seconds=1800)"],
        ],
        2,
    ),
)
def test_a_comparison_on_racks_is_repeated(words: list[str]) -> None:
    racks = ["--racks", "1", "--machines-per-rack", "2", *words]
    first = compared(*racks, "--too-large", "drop", "--policies", "dally,fifo")
    assert again() == first


@pytest.mark.thorough
def test_speeds_of_ones_own_are_kept_and_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = ["--generate", "jobs=4", "--policies", "fifo", "--mechanism", "exact"]
    words = [*jobs, "--cluster", "a100=4,h100=2", "--speed", "a100=2.3,h100=4.1"]
    first = compared(*words)
    speed = {"a100": 2.3, "h100": 4.1}
    assert first["workload"]["origin"]["speed"] == speed
    known = generate_workload(jobs=4, seed=0, jobs_per_hour=2.2, scale_factors="gavel").on(
        "a100=4,h100=2", speed
    )
    plain = compare(["fifo"], known, "a100=4,h100=2", mechanism="exact", n_jobs=1)
    told = pd.read_csv("first/jobs.csv")["jct_s"]
    np.testing.assert_allclose(told, plain.jobs()["jct_s"])
    assert again() == first
    assert main([*shlex.split(first["command"])[1:], "--jobs", "1", "--out", "third"]) == 0
    toml = ["--config", "first/run.toml", "--jobs", "1", "--out", "fourth"]
    assert main(["compare", *toml]) == 0
    for out in ("second", "third", "fourth"):
        assert Path(out, "jobs.csv").read_bytes() == Path("first/jobs.csv").read_bytes()
    assert again("--speed", "a100=1,h100=1")["workload"]["origin"]["speed"]["a100"] == 1.0
    assert main(["sweep", *words, "--jobs", "1", "--out", "swept"]) == 0
    source = json.loads(Path("swept/sweep.json").read_text())["sources"]["generated"]
    assert source["speed"] == speed
    swept = pd.read_csv("swept/runs.csv")["mean_jct_s"]
    np.testing.assert_allclose(swept, told.mean())
    capsys.readouterr()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("a100", "'a100' is no TYPE=X, such as a100=2.3"),
        ("a100=x", "of 'a100', 'x' must be a finite number > 0"),
        ("a100=0", "of 'a100', '0' must be a finite number > 0"),
        ("a100=1,a100=2", "'a100' is given twice"),
        ("h200=2", "Unknown accelerator in speed 'h200'"),
    ],
)
def test_speeds_that_cannot_be_are_named(
    word: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--generate", "jobs=2", "--cluster", "a100=4", "--jobs", "1", "--speed", word]
    assert message in refused(capsys, *words)


def test_speeds_without_a_cluster_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    own_jobs()
    words = ["workload", "describe", "mine.csv(throughputs=speeds.csv)"]
    assert main([*words, "--speed", "a100=2"]) == 2
    assert "give --cluster, too" in capsys.readouterr().err
    assert main([*words, "--speed", "a100=2", "--cluster", "a100=2"]) == 0
    assert "speeds on a100: 2 times those on v100, as given" in capsys.readouterr().out


@pytest.mark.thorough
def test_a_trace_is_read_again_and_a_change_of_it_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = compared(*own_jobs())
    assert again() == first
    Path("mine.csv").write_text(JOBS.replace("3600", "1800"))
    capsys.readouterr()
    again()
    assert "Note: the workload is not the one of first/run.json" in capsys.readouterr().out
    assert again("--workload", "(limit=1)")["workload"]["jobs"] == 1


@pytest.mark.thorough
def test_options_beside_the_file_take_the_place_of_its_own() -> None:
    first = compared(*FIRST)
    changed = again("--seed", "0", "--policies", "isolated", "--generate", "(jobs=3)")
    assert changed["policies"] == ["isolated"]
    assert changed["settings"] == first["settings"] | {"seed": 0}
    assert changed["workload"]["jobs"] == 3
    assert again("--cluster", "v100=3")["cluster"] == first["cluster"] | {
        "gpus": {"v100": 3},
        "prices_per_gpu_hour": {"v100": 2.48},
    }
    assert again("--gpus-per-machine", "1")["cluster"] == first["cluster"] | {"gpus_per_machine": 1}
    assert again("--mechanism", "(placement=random)")["settings"] == first["settings"] | {
        "placement": "random"
    }
    drawn = again("--generate", "jobs=2,arrivals=batch")["workload"]["origin"]
    assert (drawn["jobs_per_hour"], drawn["scale_factors"]) == (None, "gavel")
    words = own_jobs()[:4]
    replaced = again(*words)
    assert replaced["workload"]["name"] == "mine"
    assert replaced["settings"] == first["settings"]


def test_what_python_alone_can_repeat_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    compare(["fifo"], generate_workload(jobs=2), "v100=1", out="first", n_jobs=1)
    assert "no objects of Python" in refused(capsys, "--config", "first/run.json")
    record = json.loads(Path("first/run.json").read_text())
    record["command"] = "apportion compare --generate jobs=many --mechanism round"
    Path("run.json").write_text(json.dumps(record))
    assert "run.json, its command: --generate, jobs: 'many'" in refused(
        capsys, "--config", "run.json"
    )


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"command": 1}', '{"command": "a \\""}', "\x00", "[" * 100_000]
)
def test_what_is_no_run_json(content: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.json").write_text(content)
    assert "run.json" in refused(capsys, "--config", "run.json")


@pytest.mark.thorough
def test_a_sweep_takes_the_file_of_a_comparison_with_its_seed_as_the_only_one() -> None:
    for first in (FIRST, [*own_jobs(), "--seed", "5", "--by", "job_type"]):
        compared(*first)
        words = ["sweep", "--config", "first/run.toml", "--jobs", "1", "--out", "swept"]
        assert main([*words, "--restart"]) == 0
        swept, once = (pd.read_csv(each) for each in ("swept/runs.csv", "first/summary.csv"))
        seed = int(first[first.index("--seed") + 1])
        assert set(swept["seed"]) == {seed}
        assert swept["policy"].tolist() == once["policy"].tolist()
        for figure in ("mean_jct_s", "makespan_s", "utilization"):
            assert swept[figure].tolist() == once[figure].tolist()
        assert main([*words, "--seeds", "8,9", "--restart"]) == 0
        assert set(pd.read_csv("swept/runs.csv")["seed"]) == {8, 9}


def test_a_file_with_two_words_for_seeds_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("both.toml").write_text("seed = 3\nseeds = [1, 2]\n")
    assert main(["sweep", "--config", "both.toml", "--dry-run"]) == 2
    assert "takes one of the two, as seeds = [3]" in capsys.readouterr().err
