from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from apportion.sim import Workload, simulate


def jobs_of(work_s: list[float], arrival_s: list[float]) -> Workload:
    jobs = pd.DataFrame({"job_type": "m", "total_steps": work_s, "arrival_s": arrival_s})
    index = pd.MultiIndex.from_tuples([("m", 1)])
    return Workload("small", jobs, pd.DataFrame({"v100": [2.0]}, index=index))


def test_completion_times_of_equal_sharing_by_hand() -> None:
    # Half of the GPU each: 200 steps take 200 s; then the other has it alone.
    run = simulate("max_min_fairness", jobs_of([200, 400], [0, 0]), {"v100": 1}, mechanism="exact")
    assert run.jobs.completion_s.tolist() == pytest.approx([200.0, 300.0])
    assert run.jobs.isolated_s.tolist() == pytest.approx([200.0, 300.0])
    assert run.jobs.queueing_s.tolist() == pytest.approx([100.0, 100.0])
    assert run.summary()["utilization"] == pytest.approx(1.0)
    assert run.summary()["rounds"] == 2


def test_an_arrival_waits_for_the_next_solve() -> None:
    load = jobs_of([2000, 100], [0, 100])
    run = simulate("max_min_fairness", load, {"v100": 2}, mechanism="exact", resolve_seconds=300.0)
    assert run.jobs.start_s.tolist() == [0.0, 300.0]
    assert run.jobs.completion_s.tolist() == pytest.approx([1000.0, 350.0])


@pytest.mark.slow
def test_rounds_follow_the_shares_when_the_policy_is_solved_again_and_again() -> None:
    # Counting anew at every solve, as Gavel does, serves the same jobs first each time.
    rng = np.random.default_rng(0)
    jobs = pd.DataFrame(
        {
            "job_type": "m",
            "scale_factor": rng.choice([1, 4], 60, p=[0.75, 0.25]),
            "total_steps": rng.uniform(3600, 18000, 60),
            "arrival_s": rng.uniform(0, 15000, 60),
        }
    )
    index = pd.MultiIndex.from_product([["m"], [1, 4]])
    load = Workload("busy", jobs, pd.DataFrame({"v100": 1.0, "k80": 0.5}, index=index))
    policy, cluster = "isolated", {"v100": 8, "k80": 8}
    ideal = simulate(policy, load, cluster, mechanism="exact").jobs
    assert ideal.ftf.to_numpy() == pytest.approx(np.ones(60))

    def distance(carry_over: bool) -> float:
        run = simulate(policy, load, cluster, carry_over=carry_over)
        return float(((run.jobs.jct_s - ideal.jct_s).abs() / ideal.jct_s).mean())

    assert distance(carry_over=True) < 0.06
    assert distance(carry_over=False) > 2 * distance(carry_over=True)
