from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import apportion as ap

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]

HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time"
)


SPECS = ("T4", "V100M16|V100M32", "", "T4|P100")


def line(name: str, gpus: int = 1, milli: int = 1000, times: str = "100,4000,400") -> str:
    return f"{name},6000,12288,{gpus},{milli},V100M16|V100M32,LS,Running,{times}"


def test_pods_run_from_schedule_to_deletion_and_parts_of_gpus_are_told(write: Write) -> None:
    lines = (line("a", 2), line("b", 1, 250, "1000,8200,1000"), line("c", 0, 0))
    pending = line("d", times="100,300,")
    workload = ap.read_workload(write("openb.csv", HEADER, *lines, pending))
    jobs = workload.jobs
    assert jobs.index.tolist() == ["a", "b"]
    assert jobs["scale_factor"].tolist() == [2, 1]
    assert jobs["duration_s"].tolist() == [3600, 7200]
    assert jobs["recorded_start_s"].tolist() == [300, 900]
    assert jobs["gpu_spec"].tolist() == ["V100M16|V100M32"] * 2
    assert workload.notes[:4] == (
        "4 lines read, 2 jobs",
        "left out because they asked for no GPU: 1 line (4)",
        "left out because they have no duration, or no start and end: 1 line (5)",
        "parts of GPUs taken for whole ones, 1.5 GPU-hours more: 1 line (3)",
    )
    run = ap.simulate("as_recorded", workload, "v100=4")
    assert run.summary()["queueing_s"] == pytest.approx((300 + 0) / 2)


def test_a_pod_runs_on_the_one_type_that_it_asks_for(write: Write) -> None:
    lines = [
        line(name).replace("V100M16|V100M32", spec)
        for name, spec in zip("abcd", SPECS, strict=True)
    ]
    workload = ap.read_workload(write("openb.csv", HEADER, *lines))
    assert workload.jobs["recorded_on"].tolist() == ["t4", "v100", "", ""]
    alone = "taken to have run on the type that gpu_spec names, and to run on it alone where the "
    assert f"{alone}cluster has it: 2 lines (2, 3)" in workload.notes
    assert "gpu_spec names several types and is not heeded: 1 line (5)" in workload.notes
    run = ap.simulate("fcfs", workload, "t4=1,v100=3")
    on = run.schedule.groupby("job")["accelerator"].unique()
    assert [list(on[name]) for name in "ab"] == [["t4"], ["v100"]]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (line("b", milli=1001), "gpu_milli is '1001'; it must be a whole number >= 1"),
        (line("b", times="500,900,400"), "scheduled_time is '400'; it must be creation_time or"),
        (line("b", times="100,300,400"), "deletion_time is '300'; it must be scheduled_time or"),
        (line("a"), "name is 'a'; it must be an id of its own"),
    ],
)
def test_a_malformed_line_is_left_out_and_told(write: Write, bad: str, message: str) -> None:
    workload = ap.read_workload(write("openb.csv", HEADER, line("a"), bad))
    assert workload.jobs.index.tolist() == ["a"]
    assert any(note.startswith(f"line 3 left out: {message}") for note in workload.notes)
