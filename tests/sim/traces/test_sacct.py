from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.sim.traces.sacct import seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Write = Callable[..., Path]

HEADER = (
    "JobID|User|Account|Partition|QOS|State|Submit|Start|End|Elapsed|Timelimit|AllocTRES|ReqTRES"
)
A100 = "billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1"


def line(
    job: str,
    state: str = "COMPLETED",
    submit: str = "00:00:00",
    start: str = "00:10:00",
    end: str = "01:10:00",
    **cells: str,
) -> str:
    """Write a line of one day; Elapsed fits Start and End unless it is given."""
    day = "2026-10-05T"
    times = [each if each == "Unknown" else day + each for each in (submit, start, end)]
    known = "Unknown" not in (start, end)
    took = pd.Timedelta(end) - pd.Timedelta(start) if known else pd.Timedelta(0)
    elapsed = cells.get("elapsed", str(took).removeprefix("0 days "))
    tres = cells.get("tres", A100)
    return "|".join(
        [
            *(job, "ana", "nlp", "gpu", "normal", state, *times, elapsed),
            *(cells.get("limit", "1-00:00:00"), cells.get("alloc", tres), tres),
        ]
    )


def test_a_job_is_read_with_all_that_slurm_knows_of_it(write: Write) -> None:
    trace = write("sacct.txt", HEADER, line("7"), line("9", submit="00:05:00"))
    workload = ap.read_workload(trace)
    job: Any = workload.jobs.loc["7"]
    assert workload.jobs.index.tolist() == ["7", "9"]
    assert job["scale_factor"] == 4
    assert job["duration_s"] == 3600
    assert [job["arrival_s"], job["recorded_start_s"], job["recorded_end_s"]] == [0, 600, 4200]
    assert job["recorded_on"] == "a100"
    assert job["time_limit_s"] == 86400
    own = ["user", "account", "partition", "qos", "state", "entity"]
    assert [job[name] for name in own] == ["ana", "nlp", "gpu", "normal", "COMPLETED", "nlp"]
    assert workload.notes[0] == "2 lines read, 2 jobs"


def test_steps_are_those_of_the_duration_on_the_type_that_ran(write: Write) -> None:
    tres = "gres/gpu:tesla_v100-sxm2=4"
    trace = write(
        "sacct.txt", HEADER, line("1"), line("2", tres=tres), line("3", tres="gres/gpu=2")
    )
    workload = ap.read_workload(trace)
    speeds = workload.throughput_of("a100=8,v100=8,h100=8")
    on = ["a100", "v100", "v100"]
    assert workload.jobs["recorded_on"].tolist() == ["a100", "v100", ""]
    for job, name in zip(workload.jobs.index, on, strict=True):
        seconds: Any = workload.jobs["total_steps"][job] / speeds[name][job]
        assert seconds == pytest.approx(3600)
    assert bool((speeds["h100"] > speeds["a100"]).all())
    assert any("durations taken as measured on a100, v100" in note for note in workload.notes)
    assert any("1 of 3 jobs name no type of GPU" in note for note in workload.notes)
    assert any(note.startswith("speeds on a100 are modelled") for note in workload.notes)


def test_what_is_no_job_that_ran_is_left_out_and_told(write: Write) -> None:
    waits = {"start": "Unknown", "end": "Unknown", "alloc": ""}
    trace = write(
        "sacct.txt",
        HEADER,
        line("1_1"),
        line("1_2", "FAILED"),
        line("1_2.batch", "FAILED"),
        line("1_[3-9%2]", "PENDING", **waits),
        line("2", tres="cpu=4,mem=16G"),
        line("3", "CANCELLED by 1004", **waits),
        line("4", "CANCELLED by 1004", end="00:10:00"),
        HEADER,
        "",
        line("5", "TIMEOUT", limit="UNLIMITED"),
        line("6", "RUNNING", end="Unknown", elapsed="02:00:00"),
    )
    workload = ap.read_workload(trace)
    jobs = workload.jobs
    assert jobs.index.tolist() == ["1_1", "1_2", "5", "6"]
    assert jobs["state"].tolist() == ["COMPLETED", "FAILED", "TIMEOUT", "RUNNING"]
    assert jobs["time_limit_s"].isna().tolist() == [False, False, True, False]
    assert jobs.loc["6", "recorded_end_s"] == 600 + 7200
    assert workload.notes[:7] == (
        "10 lines read, 4 jobs",
        "left out because they repeat the column names: 1 line (9)",
        "left out because they are steps of jobs: 1 line (4)",
        "left out because they asked for no GPU: 1 line (6)",
        "left out because they have not started (PENDING; with all tasks of arrays 7 jobs): "
        "1 line (5)",
        "left out because they never ran: 2 lines (7, 8)",
        "still running, taken to end when the log was made: 1 line (12)",
    )


def test_an_export_of_slurm_itself_is_read_as_plain_pandas_reads_it() -> None:
    """Its jobs, made anew by ``benchmarks/logs/slurm_export.sh``, ran on fake GPUs."""
    file = Path(__file__).parent / "data" / "slurm_22_05.txt.gz"
    lines = pd.read_csv(file, sep="|", dtype=str).fillna("")
    lines = lines[~lines["JobID"].str.contains(".", regex=False)]
    first = pd.to_datetime(lines["Submit"]).groupby(lines["JobID"]).min()
    gpus = lines["AllocTRES"].str.extract(r"gres/gpu=(\d+)")[0]
    ran = lines[gpus.notna() & (lines["Start"] != lines["End"]) & (lines["Start"] != "Unknown")]
    workload = ap.read_workload(file)
    jobs = workload.jobs
    assert sorted(jobs.index) == sorted(ran["JobID"])
    ran = ran.assign(gpus=gpus.dropna().astype(int)).set_index("JobID").loc[jobs.index]
    submit, start = first[ran.index], pd.to_datetime(ran["Start"])
    end = pd.to_datetime(ran["End"], errors="coerce")
    for column, times in (("arrival_s", submit), ("recorded_start_s", start)):
        assert (times - submit.min()).dt.total_seconds().tolist() == jobs[column].tolist()
    took_s = (end - start).dt.total_seconds().dropna()
    assert jobs.loc[took_s.index, "duration_s"].tolist() == took_s.tolist()
    assert jobs["scale_factor"].tolist() == ran["gpus"].tolist()
    # By its whole seconds: one of the 8 is given anew in the second in which its job ends.
    assert "most GPUs in use at once by the log: a100 9, v100 4" in workload.notes
    run = ap.simulate("as_recorded", workload, "a100=8,v100=4")
    wait_s = (start - submit).dt.total_seconds()
    assert run.summary()["queueing_s"] == pytest.approx(wait_s.mean(), rel=0, abs=1e-3)
    assert run.summary()["utilization"] < 1


def test_jobs_on_several_types_are_told_with_their_gpus(write: Write) -> None:
    both = "cpu=9,gres/gpu:h100=2,gres/gpu:a100=6,gres/gpu=8,node=2"
    untold = "gres/gpu:a100=3,gres/gpu=4"
    trace = write(
        "sacct.txt",
        HEADER,
        line("1", tres=both),
        line("2", tres=both.replace("h100=2,gres/gpu:a100=6", "a100=6,gres/gpu:h100=2")),
        line("3"),
        line("4", tres=untold),
        line("5", tres="gres/gpu:a100=2,gres/gpu:nvidia_a100=1,gres/gpu=3"),
    )
    workload = ap.read_workload(trace)
    assert workload.jobs["scale_factor"].tolist() == [8, 8, 4, 4, 3]
    assert workload.jobs["recorded_on"].tolist() == ["a100"] * 5
    assert (
        "jobs on GPUs of several types, counted wholly as the type of most of them (4 GPUs of h100 "
        "as a100, 1 GPU of no type as a100: 5.0 GPU-hours): 3 lines (2, 3, 5)"
    ) in workload.notes


def test_tasks_that_wait_are_counted(write: Write) -> None:
    waits = {"start": "Unknown", "end": "Unknown", "alloc": ""}
    ids = ("1_[1-9%2]", "2", "3_[1,3,...]")
    lines = [line(each, "PENDING", **waits) for each in ids]
    last = line("5_[2-4]", "CANCELLED by 7", **waits)
    workload = ap.read_workload(write("s.txt", HEADER, line("4"), *lines, last))
    assert workload.notes[1:3] == (
        "left out because they have not started (PENDING; with all tasks of arrays at least 10 "
        "jobs): 3 lines (3, 4, 5)",
        "left out because they never ran; with all tasks of arrays 3 jobs: 1 line (6)",
    )


def test_states_can_be_chosen(write: Write) -> None:
    trace = write("sacct.txt", HEADER, line("1"), line("2", "FAILED"))
    assert ap.read_workload(trace, states=["FAILED"]).jobs.index.tolist() == ["2"]
    with pytest.raises(InputError, match=r"'DONE'.*Valid: COMPLETED"):
        ap.read_workload(trace, states=["DONE"])


def test_fields_may_stand_in_any_order_and_lines_may_end_with_the_separator(write: Write) -> None:
    cells: dict[str, str] = dict(zip(HEADER.split("|"), line("1").split("|"), strict=True))
    cells["ElapsedRaw"] = "3600"
    names = [name for name in reversed(cells) if name not in ("Elapsed", "ReqTRES", "QOS")]
    rows = ["|".join([*names, ""]), "|".join([*(cells[name] for name in names), ""])]
    job: Any = ap.read_workload(write("s.txt", *rows)).jobs.loc["1"]
    assert job["duration_s"] == 3600
    assert job["scale_factor"] == 4


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (line("2")[:40], "it has 7 fields; expected 13"),
        (line("2", "COMPLTED"), "State is 'COMPLTED'; it must be one of COMPLETED,"),
        (line("2").replace("T00:10:00", "T00:99:00"), "Start is '2026-10-05T00:99:00'; it must be"),
        (line("2", elapsed="soon"), "Elapsed is 'soon'; it must be a length of time"),
        (line("2", limit="a day"), "Timelimit is 'a day'; it must be a length of time"),
        (line("2", tres="gres/gpu:a100=x"), "TRES is 'gres/gpu:a100=x'; it must be like gres/gpu"),
        (
            line("2", end="00:05:00", elapsed="1:00"),
            "End is .*05:00'; it must be at Start or later",
        ),
        (line("2", submit="02:00:00"), "Start is .*10:00'; it must be at Submit or later"),
        (line(""), "JobID is blank"),
    ],
)
def test_a_malformed_line_is_left_out_and_told_with_its_number(
    write: Write, bad: str, message: str
) -> None:
    workload = ap.read_workload(write("s.txt", HEADER, line("1"), bad, line("3")))
    assert workload.jobs.index.tolist() == ["1", "3"]
    assert workload.notes[0] == "3 lines read, 2 jobs"
    told = [note for note in workload.notes if note.startswith("line 3 left out: ")]
    assert len(told) == 1
    assert re.search(message, told[0])


def test_a_log_without_a_gpu_and_one_without_a_column_are_refused(write: Write) -> None:
    with pytest.raises(InputError, match=r"no job that ran on a GPU.*no GPU: 1 line \(2\)"):
        ap.read_workload(write("s.txt", HEADER, line("1", tres="cpu=1")))
    short = HEADER.replace("|AllocTRES|ReqTRES", "")
    with pytest.raises(InputError, match="no column 'AllocTRES'"):
        ap.read_workload(write("s.txt", short, line("1").rsplit("|", 2)[0]))
    with pytest.raises(InputError, match="no rows"):
        ap.read_workload(write("s.txt", HEADER))


def test_lengths_of_time_as_slurm_writes_them() -> None:
    cells = ["1-02:03:04", "1-02:03", "1-02", "02:03:04", "03:04", "5", "UNLIMITED", None, "x"]
    seconds, wrong = seconds_of(pd.Series(cells))
    hour, day = 3600, 86400
    long = [day + 2 * hour + 184, day + 2 * hour + 180, day + 2 * hour]
    assert seconds[:6].tolist() == [*long, 2 * hour + 184, 184, 300]
    assert seconds[6:].isna().all()
    assert wrong.tolist() == [False] * 8 + [True]
