from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.seeds import sampled

from apportion.cli import main
from apportion.sim import generate_workload, read_workload

CLOCKS = ["policy_seconds", "wall_seconds"]
TINY = ["--racks", "2", "--jobs", "1"]
FEW = ["--generate", "jobs=12"]


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def record_of(folder: str) -> dict[str, object]:
    record: dict[str, object] = json.loads(Path(folder, "run.json").read_text())
    return record


@pytest.mark.thorough
def test_schedulers_and_a_policy_in_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", *TINY, *FEW, "--policies", "dally,tiresias,max_min_fairness"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("racks-batch-0: 12 jobs on gpu=128, 3 policies in ")
    assert "comm." in lines[2]
    assert "p95 wait" in lines[2]
    assert "cost" not in lines[2]  # nothing has a price
    assert [line.split()[0] for line in lines[4:7]] == ["dally", "tiresias", "max_min_fairness"]
    assert max(map(len, lines)) <= 100
    summary = pd.read_csv("out/compare/summary.csv")
    assert {"communication_s", "p95_queueing_s", "p99_queueing_s"} <= set(summary.columns)
    page = Path("out/compare/report.html").read_text()
    for kind in ("queueing", "communication", "tiers", "timers"):
        assert f'<figure class="{kind}">' in page
    record = record_of("out/compare")
    assert record["cluster"] == {
        "gpus": {"gpu": 128},
        "gpus_per_machine": 8,
        "machines_per_rack": 8,
        "prices_per_gpu_hour": {},
    }
    assert record["settings"] == {
        "mechanism": "leases",
        "resolve_seconds": 0.0,
        "resolve_every": None,
        "network": "table1",
        "topology": None,
        "lease_seconds": None,
        "checkpoint_seconds_per_gpu": None,
        "preemption_overhead_seconds": "measured",
        "placement": None,
        "timers": None,
        "seed": 0,
        "speeds": "told",
    }


@pytest.mark.thorough
def test_the_recorded_command_repeats_a_comparison_on_racks() -> None:
    words = [*TINY, "--policies", "dally_no_wait", "--seed", "5"]
    words += ["--generate", "jobs=12,arrivals=poisson,jobs_per_hour=30"]
    words += ["--mechanism", "(lease_seconds=1800,network=alpha_beta)"]
    assert main(["compare", *words, "--machines-per-rack", "4", "--out", "first"]) == 0
    command = shlex.split(str(record_of("first")["command"]))
    assert main([*command[1:], "--jobs", "1", "--out", "second"]) == 0
    records = [record_of("first"), record_of("second")]
    for record in records:
        for clock in CLOCKS:
            record["summary"][0].pop(clock)  # type: ignore[index]
    assert records[0] == records[1]


@pytest.mark.thorough
def test_without_policies_racks_get_schedulers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--racks", "2", "--generate", "jobs=4", "--jobs", "1"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[4:9]]
    assert names[0] == "dally"
    assert {"tiresias", "gandiva"} <= set(names)


def test_own_jobs_on_racks_of_a_chosen_accelerator(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.csv").write_text(
        "job,job_type,scale_factor,total_steps\na,ResNet-50 (batch size 64),8,3600\n"
    )
    Path("speeds.csv").write_text(
        "job_type,scale_factor,v100,k80\nResNet-50 (batch size 64),8,1,0.5\n"
    )
    words = ["compare", "--workload", "mine.csv(throughputs=speeds.csv)", "--racks", "1"]
    words += ["--policies", "dally", "--jobs", "1"]
    assert main(words) == 2
    assert "--accelerator v100" in capsys.readouterr().err
    words += ["--mechanism", "(preemption_overhead_seconds=0)"]
    assert main([*words, "--accelerator", "k80"]) == 0
    # 3600 steps at 0.5 steps/s, and 12 % communication in one machine: Table I, ResNet50. Two
    # leases end before, after each of which the eight GPUs take eight seconds to come back.
    jobs = pd.read_csv("out/compare/jobs.csv")
    assert jobs["compute_s"].tolist() == pytest.approx([7200.0])
    assert jobs["communication_s"].tolist() == pytest.approx([0.12 * 7200])
    assert jobs["jct_s"].tolist() == pytest.approx([1.12 * 7200 + 2 * 8])


@pytest.mark.thorough
def test_racks_of_several_types_are_repeated_by_the_command_that_is_recorded() -> None:
    words = ["compare", "--racks", "v100=1,k80=2", "--machines-per-rack", "2", "--policies", "fifo"]
    words += ["--gpus-per-machine", "4", "--generate", "jobs=3", "--jobs", "1"]
    assert main([*words, "--mechanism", "rounds"]) == 0
    recorded = json.loads(Path("out/compare/run.json").read_text())
    assert recorded["cluster"]["gpus"] == {"v100": 8, "k80": 16}
    assert "--racks v100=1,k80=2 --machines-per-rack 2" in recorded["command"]
    before = Path("out/compare/jobs.csv").read_bytes()
    again = shlex.split(recorded["command"])[1:]
    assert main([*again, "--jobs", "1", "--out", "again"]) == 0
    assert Path("again/jobs.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--racks", "2", "--cluster", "v100=8"], "--racks and --cluster both"),
        (["--racks", "0"], "--racks: '0' must be a whole number >= 1"),
        (["--racks", "v100=2,k80"], "Cannot read 'k80' in the racks"),
        (["--racks", "v100=2", "--accelerator", "k80"], "leave out --accelerator k80"),
        (["--racks", "2", "--mechanism", "(network=tabel1)"], "Did you mean 'table1'?"),
        (["--racks", "2", "--mechanism", "(lease_seconds=-1)"], "lease_seconds: '-1'"),
        (
            ["--racks", "2", "--mechanism", "(checkpoint_seconds_per_gpu=-1)"],
            "checkpoint_seconds_per_gpu: '",
        ),
        (["--racks", "2", "--policies", "daly"], "scheduler 'daly'. Did you mean 'dally'?"),
        (
            ["--racks", "2", "--mechanism", "(round_seconds=60)"],
            "round_seconds=60.0 is for the mechanism",
        ),
        (["--racks", "2", "--mechanism", "rounds"], "'dally' is a scheduler"),
        (
            ["--racks", "2", "--generate", "scale_factors=gavel"],
            "scale_factors=...' is for workloads",
        ),
        (["--racks", "2", "--generate", "jobs_per_hour=3"], "give --generate 'arrivals=poisson'"),
        (["--racks", "2", "--generate", "arrivals=batsch"], "Did you mean 'batch'?"),
        (["--racks", "2", "--generate", "arrivals=diurnal"], "Unknown arrivals 'diurnal'"),
        (["--racks", "2", "--generate", "days=3"], "days=...' is for workloads on several types"),
        (["--generate", "arrivals=batch,jobs_per_hour=3"], "not for --generate 'arrivals=batch'"),
        (["--generate", "days=3"], "it is for arrivals='diurnal'"),
        (["--machines-per-rack", "4"], "--machines-per-rack is for clusters of racks"),
        (["--policies", "dally", "--cluster", "v100=6"], "do not fill whole racks"),
        (
            ["--mechanism", "(lease_seconds=60)", "--policies", "fifo", "--cluster", "v100=6"],
            "multiple of 4",
        ),
        (
            ["--workload", "mine.csv", "--generate", "arrivals=batch"],
            "arrivals=...' is for generated",
        ),
        (
            ["--racks", "1", "--machines-per-rack", "1", "--generate", "jobs=60"],
            "needs more GPUs than the cluster gpu=8 has",
        ),
    ],
)
def test_what_cannot_be_compared_on_racks(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    few = [] if "--generate" in words else ["--generate", "jobs=3"]
    if "--workload" in words:
        few = []
    assert main(["compare", *words, *few, "--jobs", "1"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert not Path("out", "compare", "summary.csv").exists()


@pytest.mark.thorough
def test_written_jobs_for_racks_run_as_the_generated_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = ["--generate", "jobs=5", "--seed", "2"]
    made = ["--kind", "racks", "--generate-jobs", "5", "--seed", "2"]
    assert main(["workload", "generate", "jobs.csv", *made]) == 0
    on = ["--racks", "2", "--policies", "dally", "--jobs", "1"]
    assert main(["compare", "--workload", "jobs.csv", "--out", "read", "--seed", "2", *on]) == 0
    assert main(["compare", *few, "--out", "drawn", *on]) == 0
    read, drawn = (pd.read_csv(f"{out}/jobs.csv") for out in ("read", "drawn"))
    pd.testing.assert_frame_equal(read, drawn, rtol=1e-12)
    assert len(read) == 5


@pytest.mark.parametrize(
    ("words", "arrivals"),
    sampled(
        [
            (["--arrivals", "batch"], {}),
            (["--arrivals", "poisson"], {"jobs_per_hour": 2.2}),
            (["--arrivals", "diurnal"], {"arrivals": "diurnal", "jobs_per_hour": 2.2}),
            (["--arrivals", "diurnal", "--days", "3"], {"arrivals": "diurnal", "days": 3.0}),
        ],
        3,
    ),
    ids=["batch", "poisson", "diurnal", "days"],
)
def test_arrivals_of_generated_jobs_and_the_command_that_repeats_them(
    words: list[str], arrivals: dict[str, Any]
) -> None:
    expected = generate_workload(
        jobs=3, seed=4, scale_factors="gavel", durations="gavel", **arrivals
    )
    drawn = ["--generate-jobs", "3", *words]
    assert main(["workload", "generate", "jobs.csv", *drawn, "--seed", "4"]) == 0
    read = read_workload("jobs.csv").jobs.reset_index(drop=True)
    pd.testing.assert_frame_equal(read, expected.jobs.reset_index(drop=True), rtol=1e-12)
    pairs = zip(drawn[::2], drawn[1::2], strict=True)
    told = ",".join(f"{flag[2:].removeprefix('generate-')}={word}" for flag, word in pairs)
    compared = [
        "compare",
        "--generate",
        told,
        "--seed",
        "4",
        "--policies",
        "fifo",
        "--mechanism",
        "exact",
    ]
    assert main([*compared, "--jobs", "1", "--out", "first"]) == 0
    command = shlex.split(str(record_of("first")["command"]))
    assert main([*command[1:], "--jobs", "1", "--out", "second"]) == 0
    first, second = (pd.read_csv(f"{out}/jobs.csv") for out in ("first", "second"))
    assert first["arrival_s"].tolist() == pytest.approx(expected.jobs["arrival_s"].tolist())
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.thorough
def test_jobs_that_are_too_large_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "--racks", "1", "--machines-per-rack", "1", "--generate", "jobs=30"]
    words += ["--too-large", "drop", "--policies", "dally", "--jobs", "1"]
    assert main(words) == 0
    assert "jobs left out" in capsys.readouterr().out
