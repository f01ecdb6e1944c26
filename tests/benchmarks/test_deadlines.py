"""Who is admitted by the benchmark of deadlines is in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from benchmarks import deadlines

if TYPE_CHECKING:
    from apportion.mechanism.decider import About


class Watched(deadlines.AdmitsByDeadline):
    """Keeps what it has made, to look at who was admitted."""

    def make(self, about: About) -> deadlines.InAdmitted:
        made = super().make(about)
        MADE.append(made)
        return made


pytestmark = pytest.mark.usefixtures("free_starts")

MADE: list[deadlines.InAdmitted] = []


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_all_that_are_admitted_end_in_time(seed: int) -> None:
    load = ap.generate_workload(
        jobs=40, seed=seed, jobs_per_hour=4, scale_factors="gavel", deadlines="gavel"
    )
    decider = Watched("watched", backfill="conservative", chooses="first_end", depth=1000)
    run = ap.simulate(decider, load, "v100=8,p100=4")
    admitted = MADE.pop()._admitted
    by_arrival = run.jobs.loc[load.jobs.index]
    assert 0 < admitted.sum() < 40
    assert (by_arrival["met_deadline"][admitted] == 1).all()


def test_a_job_that_would_make_an_admitted_one_late_comes_behind() -> None:
    """One GPU: b is due first but would make a, admitted before it, late; c has no deadline."""
    jobs = pd.DataFrame(
        {
            "arrival_s": [0.0, 10.0, 10.0, 20.0],
            "job_type": "m",
            "scale_factor": 1,
            "total_steps": [100.0, 80.0, 5.0, 50.0],
            "deadline_s": [100.0, 90.0, np.nan, 130.0],
        },
        index=list("abcd"),
    )
    key = pd.MultiIndex.from_tuples([("m", 1)], names=["job_type", "scale_factor"])
    load = ap.Workload("four", jobs, pd.DataFrame({"v100": [1.0]}, index=key))
    run = ap.simulate(deadlines.deciders()["admission"], load, "v100=1")
    done = run.jobs["completion_s"].to_dict()
    # a to 100 and d to 150 = 20 + 130 in time; then b, not admitted, and c, due never, as they came
    assert done == pytest.approx({"a": 100.0, "d": 150.0, "b": 230.0, "c": 235.0})
    first = ap.simulate(deadlines.EarliestDeadlineFirst(), load, "v100=1").jobs["completion_s"]
    assert first.to_dict() == pytest.approx({"a": 100.0, "b": 180.0, "d": 230.0, "c": 235.0})
