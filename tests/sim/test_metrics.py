from __future__ import annotations

import pandas as pd
import pytest

from apportion.cluster import Cluster
from apportion.sim import Run, Workload, simulate


@pytest.fixture(scope="module")
def run() -> Run:
    jobs = pd.DataFrame(
        {"job_type": "m", "total_steps": [720.0, 720.0], "arrival_s": [100.0, 100.0]},
        index=["a", "b"],
    )
    speeds = pd.DataFrame({"v100": [1.0], "x": [0.0]}, index=pd.MultiIndex.from_tuples([("m", 1)]))
    cluster = Cluster({"v100": 1, "x": 1}, prices_per_gpu_hour={"v100": 3.6})
    work = Workload("two", jobs, speeds)
    return simulate("max_min_fairness", work, cluster, preemption_overhead_seconds=0.0)


def test_figures_by_hand(run: Run) -> None:
    # They alternate: the first completes after 1080 s, the second after 1440 s.
    figures = run.summary()
    assert figures["mean_jct_s"] == figures["median_jct_s"] == 1260.0
    assert figures["p95_jct_s"] == pytest.approx(1080 + 0.95 * 360)
    assert figures["makespan_s"] == 1440.0
    assert figures["queueing_s"] == (360.0 + 720.0) / 2
    assert figures["utilization"] == 0.5
    # A type that nobody uses costs nothing, priced or not.
    assert figures["cost"] == pytest.approx(1440 / 3600 * 3.6)
    assert figures["preemptions"] == 2
    assert figures["rounds"] == 4


def test_isolated_time_is_that_in_a_slice_of_every_type(run: Run) -> None:
    # Half of the time goes to the type on which they cannot run, whether alone or not.
    assert run.jobs.isolated_s.tolist() == pytest.approx([1440.0, 1440.0])
    assert run.jobs.ftf.tolist() == pytest.approx([1080 / 1440, 1.0])
