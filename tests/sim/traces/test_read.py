from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from apportion.errors import InputError
from apportion.sim.traces import TRACE_FORMATS, read_workload
from apportion.sim.traces.read import TraceFormat

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]

ITP = ["job_id,submission_time,duration,num_gpu", "a,0,5,1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "phily"}, "trace format 'phily'. Did you mean 'philly'"),
        ({"missing": "ignore"}, "'ignore'.*Valid: error, drop"),
        ({"seed": -1}, "seed is -1"),
        ({"limit": 0}, "limit is 0"),
        ({"states": ["FAILED"]}, "'microsoft_itp', not 'helios' or 'philly_log' or 'sacct'"),
        ({"format": "philly"}, "no column 'timestamp'"),
        ({"throughputs": "nowhere.csv"}, "Cannot read nowhere.csv"),
    ],
)
def test_bad_options_are_refused(write: Write, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_workload(write("c.csv", *ITP), **options)


def test_a_format_is_told_by_its_columns_and_a_near_miss_is_explained(write: Write) -> None:
    with pytest.raises(
        InputError, match=r"no column 'num_gpu'. The nearest is 'gpu_num'.*'microsoft_itp'"
    ):
        read_workload(write("c.csv", "job_id,submission_time,duration,gpu_num", "a,0,5,1"))
    with pytest.raises(
        InputError, match=r"Cannot tell .*'x,y'.*job_type and total_steps.*jobs, gavel"
    ):
        read_workload(write("c.csv", "x,y", "1,2"))


def test_readers_of_ones_own_return_a_workload(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def numbers(file: object, options: object) -> Any:
        return 3

    trace = write("mine.csv", "first,second", "1,2")
    monkeypatch.setitem(TRACE_FORMATS, "mine", TraceFormat("mine", ("first", "second"), numbers))
    with pytest.raises(InputError, match=r"'mine' returns 3; .* a Workload. Answered by .*numbers"):
        read_workload(trace)


def test_every_format_says_what_it_is() -> None:
    assert sorted(TRACE_FORMATS) == [
        *(
            "elasticflow",
            "gavel",
            "helios",
            "jobs",
            "kueue",
            "microsoft_itp",
            "openb",
            "philly",
            "philly_log",
            "sacct",
            "swf",
        )
    ]
    assert all(trace.meaning for trace in TRACE_FORMATS.values())


@pytest.mark.thorough
def test_a_hundred_thousand_jobs_are_read(tmp_path: Path) -> None:
    count = 100_000
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "job_id": [f"job-{number}" for number in range(count)],
            "submission_time": rng.integers(0, 10**7, count),
            "duration": rng.integers(1, 10**5, count),
            "num_gpu": rng.choice([1, 2, 8, 64], count),
        }
    )
    table.to_csv(tmp_path / "large.csv", index=False)
    workload = read_workload(tmp_path / "large.csv")
    assert len(workload) == count
    assert workload.jobs["arrival_s"].is_monotonic_increasing
