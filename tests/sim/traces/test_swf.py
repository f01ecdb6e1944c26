from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import apportion as ap
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]

HEADER = ("; Version: 2.2", "; MaxProcs: 128", "; UnixStartTime: 1760000000")


def line(job: int, *, submit: int = 0, wait: int = 60, run: int = 600, **more: int | str) -> str:
    """Write the 18 fields of a job of 4 processors."""
    told = {"processors": 4, "asked": 4, "limit": 3600, "status": 1, "user": 7} | more
    ends = (told["status"], told["user"], 2, -1, 1, -1, -1, -1)
    cells = (job, submit, wait, run, told["processors"], -1, -1, told["asked"], told["limit"], -1)
    return "  ".join(map(str, (*cells, *ends)))


def test_a_log_is_known_by_its_header_and_read(write: Write) -> None:
    lines = (line(1), line(2, submit=30, wait=0, run=90, processors=-1, asked=2, limit=-1))
    workload = ap.read_workload(write("log.swf", *HEADER, *lines))
    jobs = workload.jobs
    assert workload.name == "log"
    assert jobs.index.tolist() == ["1", "2"]
    assert jobs["scale_factor"].tolist() == [4, 2]
    assert jobs["arrival_s"].tolist() == [0, 30]
    assert jobs["duration_s"].tolist() == [600, 90]
    assert jobs["recorded_start_s"].tolist() == [60, 30]
    assert jobs["recorded_end_s"].tolist() == [660, 120]
    assert jobs["time_limit_s"].dropna().tolist() == [3600]
    own = [jobs.loc["1", name] for name in ("user", "group", "queue", "partition")]
    assert own == ["7", "2", "1", ""]
    assert "processors are taken for GPUs" in workload.notes
    run = ap.simulate("as_recorded", workload, "v100=8")
    assert run.summary()["queueing_s"] == pytest.approx(30)
    assert run.summary()["makespan_s"] == pytest.approx(660)


def test_what_is_no_job_that_ran_is_left_out_and_told(write: Write) -> None:
    lines = (
        line(1),
        line(2, status=3),
        line(3, run=-1, status=5),
        line(4, processors=-1, asked=-1),
        "; a comment between",
        line(5, wait=-1),
    )
    workload = ap.read_workload(write("log.swf", *HEADER, *lines))
    assert workload.jobs.index.tolist() == ["1", "5"]
    assert workload.notes[:4] == (
        "5 lines read, 2 jobs",
        "left out because they are parts of jobs (status 2, 3 or 4): 1 line (5)",
        "left out because they never ran: 1 line (6)",
        "left out because they name no processors: 1 line (7)",
    )
    with pytest.raises(InputError, match=r"Job '5' has recorded_start_s = nan; for 'as_recorded'"):
        ap.simulate("as_recorded", workload, "v100=8")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (line(2)[:-4], "it has 17 fields; expected 18"),
        (line(2, submit=-5), r"submit is '-5'; it must be a number >= 0 \(seconds\)"),
        (line(2, status="x"), "status is 'x'; it must be a whole number >= 0, or -1"),
        (line(2, processors="1.5"), "processors is '1.5'; it must be a whole number >= 0, or -1"),
        (line(1), "job is '1'; it must be an id of its own"),
    ],
)
def test_a_malformed_line_is_left_out_and_told_with_its_number(
    write: Write, bad: str, message: str
) -> None:
    workload = ap.read_workload(write("log.swf", *HEADER, line(1), bad, line(3)))
    assert workload.jobs.index.tolist() == ["1", "3"]
    told = [note for note in workload.notes if note.startswith("line 5 left out: ")]
    assert len(told) == 1
    assert re.search(message, told[0])
