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
        "2 lines read, 2 jobs",
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
    assert workload.notes[1] == "jobs left out because no throughputs are known: 1 of 3"
    with pytest.raises(InputError, match="Job 'z' has scale factor 8"):
        read_workload(trace, throughputs=speeds, reference="a100")
    with pytest.raises(InputError, match="reference accelerator 'v100'"):
        read_workload(trace, throughputs=speeds)
