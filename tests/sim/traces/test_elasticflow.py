from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

from apportion import read_workload, simulate
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEADER = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration"


def test_models_steps_and_deadlines_are_kept(write: Callable[..., Path]) -> None:
    path = write("t.csv", HEADER, "late,100,300,bert,190,64,2,60", "early,40,500,vgg16,90,32,1,100")
    workload = read_workload(path)
    expected = pd.DataFrame(
        {
            "arrival_s": [0.0, 60.0],
            "job_type": ["vgg16 (batch size 32)", "bert (batch size 64)"],
            "scale_factor": [1, 2],
            "total_steps": [500.0, 300.0],
            "duration_s": [100.0, 60.0],
            "deadline_s": [50.0, 90.0],
            "weight": 1.0,
        },
        index=pd.Index(["early", "late"], name="job"),
    )
    pd.testing.assert_frame_equal(workload.jobs, expected, check_dtype=False)
    speeds = workload.throughputs["a100"].to_dict()
    assert speeds == {("bert (batch size 64)", 2): 5.0, ("vgg16 (batch size 32)", 1): 5.0}
    assert not workload.job_types_drawn
    # Alone, every job takes the duration that the trace tells.
    run = simulate("fifo", workload, {"a100": 4}, mechanism="exact")
    assert run.jobs["jct_s"].tolist() == pytest.approx([100.0, 60.0])


def test_other_throughputs_can_be_given(write: Callable[..., Path]) -> None:
    path = write("t.csv", HEADER, "a,0,300,bert,90,64,1,60")
    own = write("own.csv", "job_type,scale_factor,h100", "bert (batch size 64),1,50")
    assert read_workload(path, throughputs=own).accelerators == ("h100",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a,50,300,bert,40,64,1,60", "deadline is '40'; it must be after submission_time"),
        ("a,0,300,bert,40,0.5,1,60", "line 2 left out: batch_size is '0.5'"),
        ("a,0,300,,40,64,1,60", "line 2 left out: model_name is blank"),
        ("a,0,0,bert,40,64,1,60", "line 2 left out: num_iteration is '0'"),
    ],
)
def test_malformed_lines_are_named(write: Callable[..., Path], line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_workload(write("t.csv", HEADER, line))


def test_traces_of_itp_are_still_told_apart(write: Callable[..., Path]) -> None:
    path = write("t.csv", "job_id,submission_time,duration,num_gpu", "a,0,60,1")
    assert read_workload(path).job_types_drawn
