"""What GPUs have left to do, by the points in which texts and code of LWF differ, by hand."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import apportion as ap

COMPUTE_S, MEGABYTES, STARTUP_S = 0.0895, 526.4, 6.69e-4
FAST_S, SLOW_S = (STARTUP_S + MEGABYTES * 1e6 * each for each in (8.53e-10, 7.8125e-9))
ITERATIONS = 100

# What is left of a gang of two over two servers, seconds per iteration, on each of its GPUs.
LEFT_S: list[tuple[dict[str, Any], float]] = [
    ({}, 2 * (COMPUTE_S + FAST_S)),
    ({"loads_times_gpus": False}, COMPUTE_S + FAST_S),
    ({"loads_s_per_byte": 7.8125e-9}, 2 * (COMPUTE_S + SLOW_S)),
    ({"loads_times_gpus": False, "loads_s_per_byte": 7.8125e-9}, COMPUTE_S + SLOW_S),
    ({"loads_count_transfers": False}, 2 * COMPUTE_S),
    ({"loads_count_transfers": False, "loads_times_gpus": False}, COMPUTE_S),
    ({"loads_s_per_byte": 0.0, "startup_s": 0.0}, 2 * COMPUTE_S),
]


def third_gpu(steps: float, settings: dict[str, Any]) -> tuple[int, ...]:
    """A gang of two on GPUs 0 and 1, a job of so many steps on GPU 2: where does the third go?"""
    jobs = pd.DataFrame(
        {
            "job_type": "VGG-16",
            "scale_factor": [2, 1, 1],
            "total_steps": [float(ITERATIONS), steps, 1.0],
            "arrival_s": [0.0, 0.001, 0.002],
        }
    )
    index = pd.MultiIndex.from_tuples([("VGG-16", 1), ("VGG-16", 2)])
    workload = ap.Workload("three", jobs, pd.DataFrame({"v100": [1 / COMPUTE_S] * 2}, index))
    cluster = ap.Cluster({"v100": 3}, gpus_per_machine=1)
    run = ap.simulate("srsf_1", workload, cluster, **settings)
    placed = dict(zip(*run.tables["schedule"][["job", "devices"]].T.to_numpy(), strict=True))
    assert (placed[0], placed[1]) == ((0, 1), (2,))
    third: tuple[int, ...] = placed[2]
    return third


@pytest.mark.parametrize(("settings", "left_s"), LEFT_S)
def test_a_job_goes_where_least_is_left_to_do(settings: dict[str, Any], left_s: float) -> None:
    equal = left_s * ITERATIONS / COMPUTE_S
    assert third_gpu(round(equal) - 2.0, settings) == (2,)
    assert third_gpu(round(equal) + 2.0, settings) == (0,)
