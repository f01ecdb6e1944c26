"""`least_mean_completion` near the floor, and where jobs have nearly nothing left to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import apportion as ap


@pytest.mark.thorough
def test_it_is_nearer_to_the_floor_than_the_shortest_job_first() -> None:
    cluster, above = "v100=8,p100=8,k80=8", []
    for seed in range(3):
        load = ap.generate_workload(jobs=40, seed=seed, jobs_per_hour=12.0, scale_factors="gavel")
        found = ap.floor(load, cluster)
        names = ("least_mean_completion", "shortest_job_first")
        runs = [ap.simulate(name, load, cluster) for name in names]
        assert not any(run.uncertified for run in runs)
        above.append([run.above_floor(found)["mean_jct"] for run in runs])
    ours, shortest = np.mean(above, axis=0)
    assert 0 <= ours < shortest


@pytest.mark.parametrize("left", [1e-9, 1e-3, 1.0])
def test_the_last_steps_of_a_job_do_not_count_without_end(left: float) -> None:
    speed = {f"job {number}": {"a": 10.0 + number, "b": 3.0} for number in range(6)}
    jobs = {name: {"steps_remaining": 1e6, "weight": 1.0} for name in speed}
    jobs["job 0"]["steps_remaining"] = left
    table = pd.DataFrame.from_dict(jobs, orient="index")
    name, workers = "least_mean_completion", "a=1,b=1"
    found = ap.solve(name, speed, workers=workers, jobs=table)
    assert found.status == "optimal"
    assert found.X.loc["job 0", "a"] == pytest.approx(1.0)
    assert found.gap <= 1e-9
    other = ap.solve(name, speed, workers=workers, jobs=table.assign(weight=7.0))
    np.testing.assert_allclose(other.X, found.X, atol=1e-9)


def test_a_horizon_is_a_length_of_time() -> None:
    with pytest.raises(ap.InputError, match="horizon_s"):
        ap.LeastMeanCompletion(horizon_s=0.0)
