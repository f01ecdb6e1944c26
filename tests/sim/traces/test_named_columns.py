from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import apportion as ap
from apportion.cli.entry import main
from apportion.errors import InputError
from apportion.sim.job_types import job_types
from apportion.sim.traces.named_columns import likely_columns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]

LINES = (
    "id,came,runtime_min,gpus,team,note",
    'a,2026-10-05T08:00:00+02:00,90,4,"red, blue",x',
    "b,2026-10-05T06:30:00Z,30,1,green,y",
)
COLUMNS = {
    "id": "job",
    "came": "arrival_s",
    "runtime_min": "duration_s",
    "gpus": "scale_factor",
    "team": "team",
}


def test_columns_mean_what_is_said_in_their_units(write: Write) -> None:
    workload = ap.read_workload(write("own.csv", *LINES), columns=COLUMNS)
    jobs = workload.jobs
    assert jobs.index.tolist() == ["a", "b"]
    assert jobs["arrival_s"].tolist() == [0, 1800]
    assert jobs["duration_s"].tolist() == [5400, 1800]
    assert jobs["scale_factor"].tolist() == [4, 1]
    assert jobs["team"].tolist() == ["red, blue", "green"]
    assert "columns that were not read: note" in workload.notes


@pytest.mark.parametrize(
    ("head", "cells", "columns", "seconds"),
    [
        ("t,took", "0,5", "t=arrival_s,took=duration_s", 5),
        ("t,took_h", "0,5", "t=arrival_s,took_h=duration_s", 18000),
        ("t,took", "0,5", "t=arrival_s,took=duration_h", 18000),
        ("t,took_d", "0,0.5", "t=arrival_s,took_d=duration_d", 43200),
        ("t,took", "0,1-02:00:00", "t=arrival_s,took=duration_s", 93600),
        ("t,on,off", "0,5,9", "t=arrival_s,on=recorded_start_min,off=recorded_end_min", 240),
    ],
)
def test_units_stand_behind_either_name(
    write: Write, head: str, cells: str, columns: str, seconds: float
) -> None:
    workload = ap.read_workload(write("own.csv", head, cells), columns=columns)
    assert workload.jobs["duration_s"].tolist() == [seconds]
    assert "the log tells no GPUs: each job is taken to have one" in workload.notes


def test_workers_multiply_gpus_or_are_told(write: Write) -> None:
    rows = ("1,1,1,0,60", "2,1,16,100,60", "3,8,2,200,60", "4,0.5,1,300,7200", "5,.7,10,300,60")
    csv = write("own.csv", "job_name,gpu_request,worker_num,submit_time,took", *rows)
    columns = "gpu_request=scale_factor,submit_time=arrival_s,took=duration_s"
    workload = ap.read_workload(csv, columns=f"{columns},worker_num=workers")
    assert workload.jobs["scale_factor"].tolist() == [1, 16, 16, 1, 7]
    assert "workers" not in workload.jobs
    parts = "parts of GPUs taken for whole ones, 1.0 GPU-hours more: 1 line (5)"
    assert parts in workload.notes
    workload = ap.read_workload(csv, columns=columns)
    assert workload.jobs["scale_factor"].tolist() == [1, 1, 8, 1, 1]
    assert any(
        note.startswith("worker_num does not count") and note.endswith("3 lines (3, 4, 6)")
        for note in workload.notes
    )
    with pytest.raises(InputError, match=r"gpu_request=scale_factor.*worker_num=workers"):
        ap.read_workload(write("u.csv", "submit_time,runtime,gpu_request,worker_num", "0,1,1,2"))


def test_types_steps_and_recorded_times_are_read_where_they_are_told(write: Write) -> None:
    kind = job_types().index[0]
    head = "t,start,end,kind,gpu"
    csv = write("own.csv", head, f"0,10,110,{kind},A100-SXM4-40GB", f"5,20,220,{kind},V100")
    columns = "t=arrival_s,start=recorded_start_s,end=recorded_end_s,kind=job_type,gpu=recorded_on"
    workload = ap.read_workload(csv, columns=columns)
    assert workload.jobs["job_type"].tolist() == [kind, kind]
    assert workload.jobs["recorded_on"].tolist() == ["a100", "v100"]
    speeds = workload.throughput_of("a100=1,v100=1").to_numpy()
    seconds = workload.jobs["total_steps"].to_numpy() / [speeds[0, 0], speeds[1, 1]]
    assert seconds.tolist() == pytest.approx([100, 200])
    run = ap.simulate("as_recorded", workload, "a100=1,v100=1")
    assert run.summary()["mean_jct_s"] == pytest.approx((110 + 215) / 2)
    steps = ap.read_workload(
        write("s.csv", "t,kind,n", f"7,{kind},100"),
        columns="t=arrival_min,kind=job_type,n=total_steps",
    )
    assert steps.jobs["total_steps"].tolist() == [100]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"came": "arival_s"}, "meaning of column 'came': 'arival_s'. Did you mean 'arrival_s'"),
        ({"cam": "arrival_s"}, r"no column 'cam'. The nearest is 'came'"),
        ({"came": "arrival_s"}, "nothing means duration_s"),
        ({"runtime_min": "duration_s"}, "nothing means arrival_s"),
        ({"runtime_min": "duration_h"}, "runtime_min=duration_h names two units, min and h"),
        ("came=arrival_s,id=arrival_s", "came and id both mean 'arrival_s'"),
        ("", "it must say what columns mean"),
        (3, "columns is 3"),
        ("came", "column 'came'"),
    ],
)
def test_meanings_that_cannot_be_are_refused(write: Write, columns: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ap.read_workload(write("own.csv", *LINES), columns=columns)
    with pytest.raises(InputError, match="leave out format and states"):
        ap.read_workload(write("own.csv", *LINES), columns=COLUMNS, format="philly")


def test_a_csv_of_no_known_format_is_told_a_mapping_that_reads_it(
    write: Write,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(
        "mine.csv",
        "id;who;submitted;runtime_min;gpus;gpu_model;a=b",
        "x;ann;2026-03-02 08:04:04;30;2;v100;0",
        "y;bob;2026-03-02 09:04:04;90;1;v100;0",
    )
    assert main(["workload", "describe", str(file)]) == 2
    said = capsys.readouterr().err.split("columns='")
    assert len(said) == 2
    proposed = said[1].partition("'")[0]
    jobs = ap.read_workload(file, columns=proposed).jobs
    assert jobs["duration_s"].tolist() == [1800, 5400]
    assert jobs[["scale_factor", "user"]].to_numpy().tolist() == [[2, "ann"], [1, "bob"]]
    assert jobs.index.tolist() == ["x", "y"]
    assert main(["compare", "--workload", str(file), "--cluster", "v100=4"]) == 2
    assert "--workload 'FILE(columns=...)'" in capsys.readouterr().err
    written = f"{file}(columns='{proposed}')"
    assert (
        main(["compare", "--workload", written, "--cluster", "v100=4", "--policies", "fcfs"]) == 0
    )


@pytest.mark.parametrize(
    ("names", "likely"),
    [
        (["a", "b"], "submit=arrival_s,runtime_min=duration_s"),  # the example of the pages
        (["Created", "Elapsed"], "Created=arrival_s,Elapsed=duration_s"),
        (["submit", "gpu_hours"], "submit=arrival_s,runtime_min=duration_s"),
        (["submit", "duration", "gpu_util"], "submit=arrival_s,duration=duration_s"),
        (
            ["JobID", "Submitted", "Started", "Finished", "Endpoint"],
            "Submitted=arrival_s,Started=recorded_start_s,Finished=recorded_end_s,JobID=job",
        ),
        (["submit", "start"], "submit=arrival_s,runtime_min=duration_s"),
    ],
)
def test_a_mapping_is_proposed_of_names_that_tell(names: list[str], likely: str) -> None:
    assert likely_columns(names) == likely
