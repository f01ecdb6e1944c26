from __future__ import annotations

from typing import TYPE_CHECKING

import apportion as ap
from apportion.sim.traces import read_workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]

HEADER = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
)


def line(job: str, gpus: str, state: str, minute: int, duration: str) -> str:
    ends = minute + (int(duration) // 60 if duration.isdecimal() else 0)
    time, end = (f"2020-04-01 00:{each:02}:00" for each in (minute, ends))
    return f"{job},u{job},vc1,{gpus},6,1,{state},{time},{time},{end},{duration},0"


LINES = [
    HEADER,
    line("10", "0", "COMPLETED", 0, "99"),
    line("11", "8", "COMPLETED", 5, "600"),
    line("12", "1", "CANCELLED", 4, "60"),
    line("13", "1", "CANCELLED", 6, "0"),
    line("14", "1", "FAILED", 7, ""),
]


def test_jobs_that_held_gpus_are_kept(write: Write) -> None:
    workload = read_workload(write("h.csv", *LINES))
    jobs = workload.jobs
    assert jobs.index.tolist() == ["12", "11"]
    assert jobs["arrival_s"].tolist() == [0.0, 60.0]
    assert jobs["scale_factor"].tolist() == [1, 8]
    assert jobs["entity"].tolist() == ["vc1", "vc1"]
    assert workload.notes[:4] == (
        "5 lines read, 2 jobs",
        "left out because they asked for no GPU: 1 line (2)",
        "left out because they have no duration, or no start and end: 1 line (6)",
        "left out because they never ran: 1 line (5)",
    )


def test_starts_and_ends_are_those_of_the_log(write: Write) -> None:
    rows = [
        "1,ann,2,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:01:00,2020-04-01 00:11:00,600",
        "2,bob,1,CANCELLED,2020-04-01 00:02:00,,,0",
        "3,ann,1,FAILED,2020-04-01 00:05:00,2020-04-01 00:05:00,2020-04-01 00:06:00,60",
    ]
    header = "job_id,user,gpu_num,state,submit_time,start_time,end_time,duration"
    jobs = read_workload(write("h.csv", header, *rows)).jobs
    assert jobs["recorded_start_s"].tolist() == [60.0, 300.0]
    assert jobs["recorded_end_s"].tolist() == [660.0, 360.0]
    early = rows[2].replace("00:05:00,2020-04-01 00:05", "00:05:00,2020-04-01 00:04")
    workload = read_workload(write("h.csv", header, *rows[:2], early))
    assert "recorded_start_s" not in workload.jobs
    assert any("do not end after that: 1 line (4)" in note for note in workload.notes)


def test_times_count_where_the_duration_is_another(write: Write) -> None:
    """Acme's durations of one cluster hold the wait, too."""
    header = "job_id,user,gpu_num,type,state,submit_time,start_time,end_time,duration"
    rows = [
        "1,ann,64,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,"
        "2023-05-17 11:01:16+00:00,18",
        "2,bob,8,Pretrain,CANCELLED,2023-05-17 13:00:00+02:00,,,7200",
        "3,bob,8,SFT,COMPLETED,2023-05-17 11:02:00+00:00,2023-05-17 11:03:00+00:00,"
        "2023-05-17 12:03:00+00:00,3600",
        "4,bob,1,SFT,COMPLETED,2023-05-17 11:02:00+00:00,2023-05-17 11:03:00+00:00,"
        "2023-05-17 11:03:00+00:00,60",
    ]
    workload = ap.read_workload(write("kalos.csv", header, *rows))
    jobs = workload.jobs
    assert jobs["duration_s"].to_dict() == {"1": 8.0, "3": 3600.0}
    assert jobs["recorded_start_s"].to_dict() == {"1": 10.0, "3": 122.0}
    assert jobs[["type", "state", "user"]].to_numpy().tolist() == [
        ["Other", "FAILED", "ann"],
        ["SFT", "COMPLETED", "bob"],
    ]
    for note in (
        "left out because they have no start_time (16.0 GPU-hours by duration): 1 line (3)",
        "duration is not from start to end, which counts; by duration 0.2 GPU-hours more: "
        "2 lines (2, 5)",
    ):
        assert note in workload.notes
