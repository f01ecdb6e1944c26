"""Resampling of stretches: each job with the time since the one before it, on a circle."""

from __future__ import annotations

import numpy as np
import pytest

import apportion as ap
from apportion.sim.generators.resampling import block_length


@pytest.mark.parametrize("jobs", [1, 2, 7, 30])
@pytest.mark.parametrize("seed", range(3))
def test_stretches_are_of_jobs_that_came_one_after_another(jobs: int, seed: int) -> None:
    log = ap.generate_workload(jobs=jobs, jobs_per_hour=5.0, seed=seed)
    order = np.random.default_rng(seed).permutation(jobs)  # rows need not be sorted
    log = ap.Workload("log", log.jobs.iloc[order], log.throughputs)
    drawn = ap.resample(log, seed, blocks=True).jobs
    came = log.jobs.sort_values("arrival_s", kind="stable")
    place = {str(job): row for row, job in enumerate(came.index)}
    rows = [place[job.rpartition("-")[0]] for job in drawn.index]
    since = np.diff(came["arrival_s"], prepend=came["arrival_s"].iloc[0])
    since[0] = np.ptp(came["arrival_s"]) / max(jobs - 1, 1)
    length = block_length(jobs)
    for row in range(1, jobs):
        if row % length:
            assert rows[row] == (rows[row - 1] + 1) % jobs
        gap = drawn["arrival_s"].iloc[row] - drawn["arrival_s"].iloc[row - 1]
        assert gap == pytest.approx(since[rows[row]])
    assert len(drawn) == jobs
    assert drawn["arrival_s"].iloc[0] == came["arrival_s"].iloc[0]


def test_the_length_of_a_stretch_is_the_cube_root_rounded_up() -> None:
    for jobs in range(1, 3000):
        length = block_length(jobs)
        assert (length - 1) ** 3 < jobs <= length**3
