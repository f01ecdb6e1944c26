from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apportion.errors import InputError
from apportion.sim.traces import read_workload

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
