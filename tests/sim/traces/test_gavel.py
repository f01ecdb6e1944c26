from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from apportion.errors import InputError
from apportion.sim.traces import read_workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]
    SharedData = Callable[[str], Path]

SPEEDS = pd.DataFrame(
    {"v100": [10.0, 30.0], "k80": [4.0, 0.0]},
    index=pd.MultiIndex.from_tuples([("LM (batch size 5)", 1), ("LM (batch size 5)", 4)]),
)


def ten(steps: str = "100", gpus: str = "1", slo: str = "-1.000000", arrival: str = "0") -> str:
    job_type = "LM (batch size 5)"
    return "\t".join(
        [
            job_type,
            "python3 main.py --data '%s",
            "lm",
            "--steps",
            "1",
            steps,
            gpus,
            "2",
            slo,
            arrival,
        ]
    )


def test_ten_columns(write: Write) -> None:
    trace = write("t.trace", ten(arrival="70", slo="1.5", gpus="4"), ten(arrival="50", steps="20"))
    workload = read_workload(trace, throughputs=SPEEDS)
    expected = pd.DataFrame(
        {
            "arrival_s": [0.0, 20.0],
            "job_type": pd.Series(["LM (batch size 5)"] * 2, index=[1, 0], dtype=str),
            "scale_factor": [1, 4],
            "total_steps": [20.0, 100.0],
            "weight": [2.0, 2.0],
            "deadline_s": [np.nan, 1.5 * 100 / 30],
        },
        index=pd.Index([1, 0], name="job"),
    )
    pd.testing.assert_frame_equal(workload.jobs, expected)
    assert workload.name == "t"
    assert workload.notes == ()


def test_twelve_columns_of_shockwave(write: Write) -> None:
    fields = ten().split("\t")
    lines = [
        "\t".join([*fields[:7], mode, "1", "2", "33", arrival])
        for mode, arrival in (("static", "0"), ("gns", "9"))
    ]
    workload = read_workload(write("t.trace", *lines), throughputs=SPEEDS)
    assert workload.jobs["duration_s"].tolist() == [33.0, 33.0]
    assert workload.jobs["deadline_s"].tolist() == [66.0, 66.0]
    assert workload.jobs["arrival_s"].tolist() == [0.0, 9.0]
    assert workload.notes == (
        "jobs whose batch size changes as they run, read as if it stayed: 1 line (2)",
    )


def test_throughputs_come_from_the_table_of_job_types_by_default(write: Write) -> None:
    workload = read_workload(write("t.trace", ten(slo="2", steps="1090")))
    assert workload.notes == ("throughputs from the table of job types that comes with apportion",)
    assert workload.jobs["deadline_s"].tolist() == pytest.approx([20.0])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (ten(steps="0"), r"t\.trace, line 2: total_steps is '0'; it must be a number > 0 \(steps"),
        (ten(gpus="1.5"), r"line 2: scale_factor is '1.5'; it must be a whole number >= 1"),
        (ten(arrival=""), r"line 2: arrival_time is blank"),
        (ten(slo="-3"), r"line 2: SLO is '-3'"),
        (ten() + "\t1", r"line 2: 11 fields; expected 10"),
        (ten().rsplit("\t", 1)[0], r"line 2: arrival_time is blank"),
        (ten(gpus="2"), r"line 2: Job 1 is 'LM.*scale factor 2.*scale factor 1, 4.*missing='drop'"),
    ],
)
def test_the_malformed_line_is_named(write: Write, line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_workload(write("t.trace", ten(), line), throughputs=SPEEDS)


def test_other_numbers_of_fields_are_refused(write: Write) -> None:
    with pytest.raises(InputError, match=r"line 1: 3 tab-separated fields.*7, 10, one of.* 12"):
        read_workload(write("t.trace", "a\tb\tc"))


def test_jobs_without_throughputs_are_dropped_on_request(write: Write) -> None:
    trace = write("t.trace", ten(), ten(gpus="2"), ten(gpus="4"))
    workload = read_workload(trace, throughputs=SPEEDS, missing="drop")
    assert workload.jobs.index.tolist() == [0, 2]
    assert workload.notes == ("jobs left out because no throughputs are known: 1 of 3",)
    with pytest.raises(InputError, match="none of the 1 jobs"):
        read_workload(write("t.trace", ten(gpus="2")), throughputs=SPEEDS, missing="drop")
