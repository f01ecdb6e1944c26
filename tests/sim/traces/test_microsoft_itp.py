from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

from apportion.errors import InputError
from apportion.sim.traces import read_workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]
    SharedData = Callable[[str], Path]

HEADER = "job_id,submission_time,duration,num_gpu"


def test_columns_in_any_order_become_jobs(write: Write) -> None:
    trace = write(
        "c.csv", "duration,extra,num_gpu,job_id,submission_time", "50,,1,b,30", "7,x,4,a,10"
    )
    workload = read_workload(trace)
    jobs = workload.jobs
    assert jobs.index.tolist() == ["a", "b"]
    assert jobs["arrival_s"].tolist() == [0.0, 20.0]
    assert jobs["duration_s"].tolist() == [7.0, 50.0]
    assert jobs["scale_factor"].tolist() == [4, 1]
    # Alone on its reference accelerator, a job takes as long as in the trace.
    steps_per_s = workload.throughput_of("v100=4")["v100"]
    assert (jobs["total_steps"] / steps_per_s).tolist() == pytest.approx([7.0, 50.0])
    assert workload.notes == (
        "job types drawn at random, seed 0; 2 of 2 jobs name no type of GPU: taken to have run on "
        "that of a cluster of one type, else on v100 (reference= tells the type)",
    )


def test_the_seed_decides_the_job_types_and_only_them(write: Write) -> None:
    trace = write("c.csv", HEADER, *(f"j{i},{i},100,{1 + i % 2}" for i in range(60)))
    one, same, other = (read_workload(trace, seed=seed).jobs for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one, same)
    assert not one["job_type"].equals(other["job_type"])
    pd.testing.assert_frame_equal(
        one.drop(columns=["job_type", "total_steps"]),
        other.drop(columns=["job_type", "total_steps"]),
    )
    first = read_workload(trace, seed=1, limit=9)
    pd.testing.assert_frame_equal(first.jobs, one.head(9))


def test_own_throughputs_and_reference(write: Write) -> None:
    index = pd.MultiIndex.from_tuples([("a", 1), ("b", 1), ("b", 2)])
    speeds = pd.DataFrame({"a100": [3.0, 0.0, 5.0], "t4": [1.0, 1.0, 1.0]}, index=index)
    trace = write("c.csv", HEADER, "x,0,10,1", "y,1,10,2", "z,2,10,8")
    workload = read_workload(trace, throughputs=speeds, reference="a100", missing="drop")
    assert workload.jobs["job_type"].tolist() == ["a", "b"]
    assert workload.jobs["total_steps"].tolist() == [30.0, 50.0]
    assert workload.notes[0] == "jobs left out because no throughputs are known: 1 of 3"
    with pytest.raises(InputError, match="Job 'z' has scale factor 8"):
        read_workload(trace, throughputs=speeds, reference="a100")
    with pytest.raises(InputError, match="reference accelerator 'v100'"):
        read_workload(trace, throughputs=speeds)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a,5,10,1", r"c\.csv, lines 2 and 3: both have the job_id 'a'"),
        ("b,5,10,0", r"c\.csv, line 3: num_gpu is '0'; it must be a whole number >= 1 \(GPUs\)"),
        ("b,5,ten,1", r"line 3: duration is 'ten'"),
        ("b,-5,10,1", r"line 3: submission_time is '-5'"),
        ("b,5,10", r"line 3: num_gpu is blank"),
    ],
)
def test_the_malformed_line_is_named(write: Write, line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_workload(write("c.csv", HEADER, "a,0,10,1", line))


def test_jobs_of_no_duration_are_left_out(write: Write) -> None:
    workload = read_workload(write("c.csv", HEADER, "a,0,0,1", "b,5,10,1"))
    assert workload.jobs.index.tolist() == ["b"]
    assert workload.notes[0] == "jobs left out because they never ran (duration 0): 1 line (2)"
    with pytest.raises(InputError, match="no job that ran"):
        read_workload(write("c.csv", HEADER, "a,0,0,1"))


@pytest.mark.parametrize(
    ("cluster", "jobs", "gpus", "load"), [("02", 5_778, 128, 0.67), ("06", 2_396, 96, 0.90)]
)
def test_published_traces(
    shared_data: SharedData, cluster: str, jobs: int, gpus: int, load: float
) -> None:
    workload = read_workload(shared_data(f"microsoft_itp/cluster{cluster}.csv.gz"))
    assert len(workload) == jobs
    measures = workload.describe({"v100": gpus}, reference="v100")["value"]
    assert measures["offered load of the cluster"] == pytest.approx(load, abs=0.01)


def test_published_small_trace(shared_data: SharedData) -> None:
    jobs = read_workload(shared_data("microsoft_itp/cluster10.csv.gz")).jobs
    assert jobs["scale_factor"].value_counts().to_dict() == {1: 193, 2: 51, 4: 14, 16: 2}
    assert jobs["arrival_s"].min() == 0
