from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from apportion.cli import main
from apportion.cluster import Cluster
from apportion.experiments import simulations
from apportion.sim import generate_rack_workload, simulate

if TYPE_CHECKING:
    from apportion.policies import Policy
    from apportion.sim import Run

SMALL = [
    "--generate",
    "jobs=2,scale_factors=single",
    "--cluster",
    "v100=2,k80=2",
    "--mechanism",
    "exact",
]
SMALL += ["--policies", "fifo,isolated", "--jobs", "1"]


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["sweep", *words]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.splitlines()


@pytest.mark.thorough
def test_a_sweep_prints_means_over_seeds_and_its_files(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, *SMALL, "--loads", "0.5,2", "--seeds", "0,1", "--out", "here")
    assert lines[0].startswith("8 runs on v100=2,k80=2 in ")
    assert lines[2] == "generated: means over seeds; lowest and highest mean JCT of a seed"
    assert lines[3].split()[:3] == ["policy", "load", "seeds"]
    rows = [line.split()[:3] for line in lines[5:9]]
    assert rows == [[p, load, "2"] for load in ("0.5", "2") for p in ("fifo", "isolated")]
    files = "runs.csv, summary.csv, sweep.json, run.toml, runs.jsonl"
    assert " ".join(lines).endswith(f" Report: here/report.html (and {files})")  # in two lines
    assert max(map(len, lines)) <= 100
    runs = pd.read_csv("here/runs.csv")
    hours = runs.groupby(["load", "policy"], sort=False)["mean_jct_s"].mean() / 3600
    for line, mean in zip(lines[5:9], hours, strict=True):
        assert float(line.split()[3].rstrip("*~").replace(",", "")) == pytest.approx(
            mean, abs=0.051
        )

    again = printed(capsys, *SMALL, "--loads", "0.5,2", "--seeds", "0,1", "--out", "here")
    assert again[0].endswith(", 8 of them finished before")
    assert again[3:] == lines[3:]


@pytest.mark.thorough
def test_a_dry_run_lists_the_runs_and_runs_none(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, *SMALL, "--seeds", "0,1", "--dry-run")
    assert [line.split()[0] for line in lines[1:5]] == ["fifo", "fifo", "isolated", "isolated"]
    assert lines[-1] == "4 runs, 4 of them to do"
    assert not Path("out").exists()
    printed(capsys, *SMALL, "--seeds", "1")
    lines = printed(capsys, *SMALL, "--seeds", "0,1", "--dry-run")
    assert [line.split()[-1] for line in lines[1:5]] == ["no", "yes", "no", "yes"]
    assert lines[-1] == "4 runs, 2 of them to do"


@pytest.mark.thorough
def test_several_traces_and_parquet(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("monday", "friday"):
        rows = "a,0,600,1\nb,300,900,1\n"
        Path(f"{name}.csv").write_text(f"job_id,submission_time,duration,num_gpu\n{rows}")
    words = ["--workload", "monday.csv", "--workload", "friday.csv", "--cluster", "v100=1"]
    words += ["--policies", "fifo", "--jobs", "1", "--format", "parquet", "--config", "own.toml"]
    Path("own.toml").write_text("[workload]\nlimit = 2\nformat = 'microsoft_itp'\n")
    lines = printed(capsys, *words, "--resample")
    assert [line.split(":")[0] for line in lines if "means over seeds" in line] == [
        *["monday", "friday"]
    ]
    runs = pd.read_parquet("out/sweep/runs.parquet")
    assert runs["workload"].tolist() == ["monday", "friday"]
    assert runs["jobs"].tolist() == [2, 2]
    assert json.loads(Path("out/sweep/sweep.json").read_text())["resample"] is True


@pytest.mark.thorough
def test_a_failed_run_is_told_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(policy: Policy, *args: object, **options: object) -> Run:
        if policy.label == "isolated":
            raise ZeroDivisionError("so it goes")
        return simulate(policy, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(simulations, "simulate", failing)
    assert main(["sweep", *SMALL]) == 1
    captured = capsys.readouterr()
    assert "fifo" in captured.out
    assert captured.err.startswith(
        "apportion: error: 1 of 2 runs failed, by policy: 'isolated' 1. The first, of policy "
        "'isolated', workload 'generated', load 1 and seed 0: ZeroDivisionError: so it goes"
    )
    assert captured.err.count("\n") == 1


@pytest.mark.thorough
def test_schedulers_and_policies_on_racks(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--racks", "1", "--machines-per-rack", "2", "--jobs", "1"]
    words += ["--generate", "jobs=4,arrivals=poisson,jobs_per_hour=60", "--too-large", "drop"]
    words += ["--policies", "dally,fifo", "--mechanism", "(lease_seconds=1800,network=none)"]
    lines = printed(capsys, *words, "--loads", "1,2", "--seeds", "1")
    assert lines[0].startswith("4 runs on gpu=16 in ")
    runs = pd.read_csv("out/sweep/runs.csv")
    assert runs["policy"].tolist() == ["dally", "fifo"] * 2
    # Sixty jobs an hour are four in 240 s; the load of 2 has them arrive in half the time.
    for load, rows in runs.groupby("load"):
        workload = generate_rack_workload(
            arrivals="poisson", jobs=4, seed=1, span_s=240.0 / float(str(load))
        ).fitting(cluster := Cluster.of_racks(1, machines_per_rack=2))
        for row in rows.to_dict("records"):
            run = simulate(
                *(str(row["policy"]), workload, cluster),
                mechanism="leases",
                network="none",
                lease_seconds=1800.0,
                preemption_overhead_seconds="measured",
                seed=1,
            )
            for figure in ("mean_jct_s", "makespan_s", "communication_s"):
                assert row[figure] == pytest.approx(run.summary()[figure], rel=1e-12)
    record = json.loads(Path("out/sweep/sweep.json").read_text())
    assert record["settings"]["mechanism"] == "leases"
    assert record["sources"]["generated"]["kind"] == "racks"


def test_without_policies_racks_get_schedulers(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "--racks", "2", "--generate", "jobs=3", "--dry-run")
    assert lines[1].split()[0] == "dally"
    assert [line.split()[0] for line in lines[4:6]] == ["tiresias", "gandiva"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--loads", "1,2"], "arrive at time 0, so that a load changes nothing"),
        (["--cluster", "v100=2"], "--racks and --cluster both"),
        (["--mechanism", "(round_seconds=60)"], "round_seconds=60.0 is for the mechanism"),
        (["--mechanism", "(network=tabel1)"], "Did you mean 'table1'?"),
        (["--policies", "daly"], "scheduler 'daly'. Did you mean 'dally'?"),
        (
            ["--generate", "durations=gavel"],
            "--generate 'durations=...' is for workloads on several types",
        ),
        (["--workload", "none.csv"], "none.csv"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_swept_on_racks(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    few = [] if {"--workload", "--generate"} & {*words} else ["--generate", "jobs=3"]
    assert main(["sweep", "--racks", "2", *few, *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policies", "fifo"], "--policies: is given twice"),
        (["--cluster", "v100=8", "--cluster", "v100=16"], "--cluster: is given twice"),
        (["--format", "xlsx", "--dry-run"], "Unknown format of tables 'xlsx'"),
        (["--backend", "rai"], "'rai'. Did you mean 'ray'?"),
        (["--load", "1"], "'--load'. Did you mean '--loads'?"),
        (["--loads", "1,two"], "--loads: 'two' must be a finite number > 0, with commas"),
        (["--loads", "0"], "--loads: '0' must be a finite number > 0"),
        (["--seeds", "0,-1"], "--seeds: '-1' must be a whole number >= 0"),
        (["--seeds", "0.5"], "--seeds: '0.5' must be a whole number >= 0, with commas"),
        (["--seeds", ","], "seeds is empty"),
        (["--format", "parket"], "'parket'. Did you mean 'parquet'?"),
        (["--address", "auto"], "'processes' has no cluster"),
        (["--workload", "none.csv"], "--generate 'jobs=...' is for generated workloads"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_swept(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", *SMALL, *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not Path("out").exists()
