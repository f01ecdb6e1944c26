"""``apportion compare --config run.json``."""

from __future__ import annotations

import contextlib
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

from apportion.cli import main
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.experiments import compare
from apportion.experiments.recorded import read_recorded
from apportion.policies import FIFO
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
    assert "Note: the workload is no longer the one of first/run.json" in capsys.readouterr().out
    again("--workload", "mine.csv(throughputs=speeds.csv, limit=1)")
    assert "no longer" not in capsys.readouterr().out


@pytest.mark.thorough
def test_options_beside_the_file_take_the_place_of_its_own() -> None:
    first = compared(*FIRST)
    changed = again("--seed", "0", "--policies", "isolated", "--generate", "jobs=3")
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
    assert again("--generate", "arrivals=batch")["workload"]["origin"]["jobs_per_hour"] is None
    words = own_jobs()[:4]
    replaced = again(*words)
    assert replaced["workload"]["name"] == "mine"
    assert replaced["settings"] == first["settings"]


@pytest.mark.thorough
def test_what_words_cannot_say_is_read_back() -> None:
    priced = Cluster({"v100": 2}, prices_per_gpu_hour={"v100": 9.0})
    workload = generate_workload(jobs=3, seed=2, jobs_per_hour=6.0)
    origin = {"generate_jobs": 3, "jobs_per_hour": 6.0, "scale_factors": "single"}
    options: dict[str, Any] = {"resolve_seconds": float("inf"), "seed": 2, "n_jobs": 1}
    before = compare(["fifo"], workload, priced, out="first", origin=origin, **options)
    assert before.command is None
    recorded = read_recorded(Path("first/run.json"))
    assert recorded.cluster == priced
    assert recorded.settings == before.settings
    assert recorded.differences(recorded.fingerprint) == []
    again()
    assert Path("second/jobs.csv").read_bytes() == Path("first/jobs.csv").read_bytes()
    assert again()["cluster"]["prices_per_gpu_hour"] == {"v100": 9.0}


@pytest.mark.thorough
def test_what_a_file_does_not_hold_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    workload = generate_workload(jobs=2, seed=1)
    told: dict[str, Any] = {"n_jobs": 1, "seed": 1}
    config = ["--config", "first/run.json"]
    compare([FIFO()], workload, "v100=1", out="first", **told)
    assert "policies was an object of the caller's own" in refused(capsys, *config)
    named = [*config, "--policies", "fifo"]
    assert "does not tell how its workload was made" in refused(capsys, *named)
    again("--policies", "fifo", "--generate", "jobs=2,jobs_per_hour=9")
    origin = {"generate_jobs": 2, "seed": 0}
    compare(["fifo"], workload, "v100=1", out="first", origin=origin, **told)
    assert "made with the seed 0, and simulated with 1" in refused(capsys, *config)
    compare(["fifo"], workload, "v100=1", out="first", origin={"generate_job": 2}, **told)
    assert "'generate_job'. Did you mean 'generate_jobs'?" in refused(capsys, *config)


@pytest.mark.thorough
def test_a_comparison_stored_under_an_old_name_is_repeated() -> None:
    first = compared(*own_jobs())
    record = json.loads(Path("first/run.json").read_text())
    assert record["settings"]["mechanism"] == "exact"
    record["settings"]["mechanism"] = "ideal"
    Path("first/run.json").write_text(json.dumps(record))
    assert again() == first
    assert again("--mechanism", "ideal") == first


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mechanism", "exact"], "--mechanism exact does not go with first/run.json, whose"),
        (["--mechanism", "(lease_seconds=60)"], "lease_seconds=60.0 is for the mechanism 'leases'"),
        (["--workload", "none.csv(limit=1)"], "Cannot read none.csv"),
        (["--racks", "2"], "--racks does not go with first/run.json, whose cluster"),
        (["--policies", "dally"], "'dally' is a scheduler, which works by leases"),
    ],
)
def test_options_that_do_not_go_with_the_file(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(
        ["fifo"],
        generate_workload(jobs=2, jobs_per_hour=20.0),
        "v100=2",
        n_jobs=1,
        out="first",
        origin={"generate_jobs": 2, "jobs_per_hour": 20.0},
    )
    assert message in refused(capsys, "--config", "first/run.json", *words)
    assert not Path("out/compare/summary.csv").exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"policies": 1}', "\x00", "[" * 100_000])
def test_what_is_no_run_json(content: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.json").write_text(content)
    assert "run.json" in refused(capsys, "--config", "run.json")


@pytest.mark.parametrize(
    ("part", "name", "value", "message"),
    [
        ("origin", "generate_jobs", "many", "origin of the workload: jobs: 'many'"),
        ("origin", "jobs_per_hour", -1.0, "'-1' must be a finite number >= 0"),
        ("settings", "out", "here", "'out'"),
        ("settings", "round_seconds", "long", "round_seconds is 'long'"),
        ("settings", "mechanism", "round", "Did you mean 'rounds'?"),
    ],
)
def test_a_value_that_cannot_be_is_one_line(
    part: str, name: str, value: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    origin = {"generate_jobs": 2, "jobs_per_hour": 20.0}
    compare(["fifo"], generate_workload(jobs=2), "v100=2", n_jobs=1, out="first", origin=origin)
    record = json.loads(Path("first/run.json").read_text())
    (record["workload"]["origin"] if part == "origin" else record["settings"])[name] = value
    Path("run.json").write_text(json.dumps(record))
    assert message in refused(capsys, "--config", "run.json")


def test_damaged_records_are_one_line_each() -> None:
    compare(["fifo"], generate_workload(jobs=2), "v100=2", n_jobs=1, out="first")
    record = json.loads(Path("first/run.json").read_text())
    wrong: list[Any] = [None, 7, "x", [], {"a": [1]}]
    for key, part in record.items():
        names = [None, *part] if isinstance(part, dict) else [None]
        for name in names:
            for value in wrong:
                damaged = {**record, key: value if name is None else {**part, name: value}}
                Path("run.json").write_text(json.dumps(damaged))
                with contextlib.suppress(InputError):
                    read_recorded(Path("run.json"))
    with pytest.raises(InputError, match=r"Cannot read none\.json"):
        read_recorded(Path("none.json"))


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
