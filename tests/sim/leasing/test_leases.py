from __future__ import annotations

import pandas as pd
import pytest
from tests.seeds import sampled

from apportion.sim import Workload, generate_workload, simulate

pytestmark = pytest.mark.usefixtures("free_starts")


def lone_job(seconds: float) -> Workload:
    jobs = pd.DataFrame({"job_type": ["model"], "total_steps": [seconds]}, index=["job"])
    keys = pd.MultiIndex.from_tuples([("model", 1)], names=["job_type", "scale_factor"])
    return Workload("lone", jobs, pd.DataFrame({"v100": [1.0]}, index=keys))


def test_without_leases_a_lone_job_starts_again_in_every_round() -> None:
    # Rounds of 360 s of which 60 s go to starting: 3 x 300 s of work, then 60 s + 100 s.
    options = {"round_seconds": 360.0, "preemption_overhead_seconds": 60.0}
    kept = simulate("max_min_fairness", lone_job(1000.0), {"v100": 1}, **options)  # type: ignore[arg-type]
    lost = simulate("max_min_fairness", lone_job(1000.0), {"v100": 1}, leases=False, **options)  # type: ignore[arg-type]
    assert kept.jobs.loc["job", "jct_s"] == pytest.approx(60.0 + 1000.0)
    assert kept.jobs.loc["job", "preemptions"] == 0
    assert lost.jobs.loc["job", "jct_s"] == pytest.approx(3 * 360.0 + 60.0 + 100.0)
    assert lost.jobs.loc["job", "preemptions"] == 3
    assert lost.rounds["preemptions"].tolist() == [0, 1, 1, 1]
    assert lost.settings["leases"] is False


@pytest.mark.parametrize(
    "policy", sampled(["max_min_fairness", "max_min_fairness_space_sharing"], 2)
)
def test_without_overhead_leases_do_not_change_who_runs(policy: str) -> None:
    workload = generate_workload(jobs=30, seed=3, jobs_per_hour=12.0, scale_factors="gavel")
    cluster = {"v100": 8, "p100": 8, "k80": 8}
    kept, lost = (
        simulate(policy, workload, cluster, leases=leases, resolve_seconds=1920.0)
        for leases in (True, False)
    )
    pd.testing.assert_series_equal(kept.jobs["completion_s"], lost.jobs["completion_s"])
    assert (lost.jobs["preemptions"] >= kept.jobs["preemptions"]).all()
    assert lost.jobs["preemptions"].sum() > 2 * kept.jobs["preemptions"].sum()
