from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.sim.traces import read_workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"


def test_rows_are_sorted_numbered_and_kept_even_if_equal(write: Write) -> None:
    workload = read_workload(
        write(
            "p.csv",
            HEADER,
            "2017-10-03 08:01:00,30,4,120,vc2",
            "2017-10-03 08:00:00,10,1,10,vc1",
            "2017-10-03 08:01:00,30,4,120,vc2",
            "2017-10-02 08:00:00,20,2,40,vc1",
        )
    )
    jobs = workload.jobs
    assert jobs.index.tolist() == [0, 1, 2, 3]
    assert jobs["arrival_s"].tolist() == [0.0, 86_400.0, 86_460.0, 86_460.0]
    assert jobs["scale_factor"].tolist() == [2, 1, 4, 4]
    assert jobs["duration_s"].tolist() == [20.0, 10.0, 30.0, 30.0]
    assert jobs["entity"].tolist() == ["vc1", "vc1", "vc2", "vc2"]
    assert workload.notes[1] == "rows equal to another one, kept as jobs of their own: 1"
