from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from apportion.policies import Resource, isolated_share, solve
from apportion.tensor import ThroughputTensor


def test_max_min_of_two_jobs_on_two_types() -> None:
    # Equal shares are 2.5 steps/s for both. Swapping types gives each job 4 steps/s.
    speed = pd.DataFrame({"a100": [4.0, 1.0], "h100": [1.0, 4.0]}, index=["x", "y"])
    allocation = solve("max_min_fairness", speed, workers={"a100": 1, "h100": 1})
    np.testing.assert_allclose(allocation.X, [[1, 0], [0, 1]], atol=1e-7)
    assert allocation.objective == pytest.approx(4 / 2.5)


def test_max_min_shares_one_gpu_by_weight() -> None:
    speed = pd.DataFrame({"a100": [7.0, 0.3]}, index=["x", "y"])
    jobs = pd.DataFrame({"weight": [3.0, 1.0]}, index=["x", "y"])
    allocation = solve("max_min_fairness", speed, workers={"a100": 1}, jobs=jobs)
    np.testing.assert_allclose(allocation.X["a100"], [0.75, 0.25], atol=1e-7)
    assert allocation.objective == pytest.approx(0.25)
    assert allocation.prices["a100"] == pytest.approx(0.25)


def test_max_min_counts_the_gpus_of_a_gang() -> None:
    # x runs on 2 GPUs: t = 2 X_x = X_y and 2 X_x + X_y = 2, so both hold one GPU on average.
    speed = pd.DataFrame({"a100": [5.0, 1.0, 1.0]}, index=["x", "y", "z"])
    jobs = pd.DataFrame({"scale_factor": [2, 1, 1]}, index=["x", "y", "z"])
    allocation = solve("max_min_fairness", speed, workers={"a100": 3}, jobs=jobs)
    np.testing.assert_allclose(allocation.X["a100"], [0.5, 1, 1], atol=1e-7)


def test_makespan_of_two_jobs_on_two_types() -> None:
    # With X = 1 on its best type x takes 100 s and y 400 s; y then has no other option.
    speed = pd.DataFrame({"a100": [4.0, 0.0], "h100": [1.0, 1.0]}, index=["x", "y"])
    jobs = pd.DataFrame({"steps_remaining": [400.0, 400.0]}, index=["x", "y"])
    allocation = solve("makespan", speed, workers={"a100": 1, "h100": 1}, jobs=jobs)
    assert allocation.objective == pytest.approx(400.0, rel=1e-9)
    assert allocation.unit == "s"
    np.testing.assert_allclose(allocation.throughput, [4.0, 1.0], rtol=1e-7)


def test_makespan_of_one_type_is_total_work_over_gpus() -> None:
    speed = pd.DataFrame({"a100": [1.0, 2.0, 4.0]}, index=["x", "y", "z"])
    jobs = pd.DataFrame({"total_steps": [100.0, 300.0, 200.0]}, index=["x", "y", "z"])
    allocation = solve("makespan", speed, workers={"a100": 1}, jobs=jobs)
    assert allocation.objective == pytest.approx(100 / 1 + 300 / 2 + 200 / 4)


def test_finish_time_fairness_of_equal_jobs_is_one() -> None:
    speed = pd.DataFrame({"a100": [2.0, 2.0]}, index=["x", "y"])
    jobs = pd.DataFrame({"steps_remaining": [10.0, 10.0]}, index=["x", "y"])
    allocation = solve("finish_time_fairness", speed, workers={"a100": 1}, jobs=jobs)
    assert allocation.objective == pytest.approx(1.0, rel=1e-7)


def test_finish_time_fairness_helps_the_job_that_has_waited() -> None:
    # Alone: 100 + 100 / 0.5 = 300 s and 0 + 100 / 0.5 = 200 s. With shares a and 1 - a the
    # ratios (300 + 100 / a) / 300 and (100 / (1 - a)) / 200 are equal.
    speed = pd.DataFrame({"a100": [1.0, 1.0]}, index=["x", "y"])
    jobs = pd.DataFrame(
        {
            "steps_remaining": [100.0, 100.0],
            "elapsed_s": [300.0, 0.0],
            "isolated_elapsed_s": [100.0, 0.0],
        },
        index=["x", "y"],
    )
    allocation = solve("finish_time_fairness", speed, workers={"a100": 1}, jobs=jobs)
    share = float(allocation.X["a100"].iloc[0])
    assert allocation.objective == pytest.approx(1 + 1 / (3 * share), rel=1e-6)
    assert allocation.objective == pytest.approx(1 / (2 * (1 - share)), rel=1e-6)


def test_fifo_serves_in_order_of_arrival_and_never_over_allocates() -> None:
    speed = pd.DataFrame({"v100": [1.0] * 6}, index=list("abcdef"))
    arrival = [50.0, 40.0, 30.0, 20.0, 10.0, 0.0]
    jobs = pd.DataFrame({"arrival_s": arrival}, index=list("abcdef"))
    allocation = solve("fifo", speed, workers={"v100": 2}, jobs=jobs)
    np.testing.assert_allclose(allocation.X["v100"], [0, 0, 0, 0, 1, 1], atol=1e-9)


def test_fifo_is_not_outbid_by_later_small_jobs() -> None:
    speed = pd.DataFrame({"v100": [9.0, 1.0, 1.0]}, index=["gang", "x", "y"])
    jobs = pd.DataFrame({"scale_factor": [2, 1, 1], "arrival_s": [0.0, 1, 2]}, index=speed.index)
    allocation = solve("fifo", speed, workers={"v100": 2}, jobs=jobs)
    np.testing.assert_allclose(allocation.X["v100"], [1, 0, 0], atol=1e-9)


def test_shortest_job_first_on_one_gpu() -> None:
    speed = pd.DataFrame({"v100": [10.0, 1.0]}, index=["x", "y"])
    jobs = pd.DataFrame({"steps_remaining": [1000.0, 50.0]}, index=["x", "y"])
    allocation = solve("shortest_job_first", speed, workers={"v100": 1}, jobs=jobs)
    np.testing.assert_allclose(allocation.X["v100"], [0, 1], atol=1e-9)


def test_min_cost_takes_the_best_bargain() -> None:
    # Job-hours per dollar: x 1/2 on a, 0.6/1 on b; y 0.5/2 and 1/1. Only y on b is worth it.
    speed = pd.DataFrame({"p100": [10.0, 1.0], "k80": [6.0, 2.0]}, index=["x", "y"])
    cluster = "p100=1,k80=1"
    allocation = solve("min_cost", speed, workers=cluster)
    assert allocation.objective == pytest.approx(1 / 0.45)
    np.testing.assert_allclose(allocation.X, [[0, 0], [0, 1]], atol=1e-7)
    assert allocation.unit == "job-hours/$"


def test_isolated_shares() -> None:
    # 1/2 of 4 GPUs for 1 GPU would be 2, and of 2 GPUs 1: scaled to a sum of 1.
    share = isolated_share(np.array([4.0, 2.0]), np.array([1.0, 4.0]))
    np.testing.assert_allclose(share, [[2 / 3, 1 / 3], [0.5, 0.25]])
    speed = pd.DataFrame({"a": [1.0, 1.0], "b": [1.0, 0.0]}, index=["x", "y"])
    jobs = pd.DataFrame({"scale_factor": [1, 4]}, index=["x", "y"])
    allocation = solve("isolated", speed, workers={"a": 4, "b": 2}, jobs=jobs)
    np.testing.assert_allclose(allocation.X, [[2 / 3, 1 / 3], [0.5, 0.0]], atol=1e-7)


def test_proportional_shares() -> None:
    # 3 GPUs; weights 1 and 3 on 1 and 2 GPUs: c * (1 + 6) = 3 and c * 3 <= 1, so c = 1/3.
    speed = pd.DataFrame({"a": [1.0, 1.0], "b": [1.0, 1.0]}, index=["x", "y"])
    jobs = pd.DataFrame({"scale_factor": [1, 2], "weight": [1.0, 3.0]}, index=["x", "y"])
    allocation = solve("proportional", speed, workers={"a": 2, "b": 4}, jobs=jobs)
    np.testing.assert_allclose(allocation.X, [[1 / 9, 2 / 9], [1 / 3, 2 / 3]], atol=1e-7)


def test_options_with_a_tier_share_the_gpus_of_their_type() -> None:
    # y suffers from being scattered; one GPU is shared by both tiers.
    columns = pd.MultiIndex.from_tuples([("a100", "packed"), ("a100", "scattered")])
    speed = pd.DataFrame([[2.0, 2.0], [2.0, 1.0]], index=["x", "y"], columns=columns)
    allocation = solve("max_total_throughput", speed, workers={"a100": 1})
    assert allocation.X.to_numpy().sum() == pytest.approx(1.0)
    assert allocation.objective == pytest.approx(2.0)
    assert allocation.X.loc["y", ("a100", "scattered")] == pytest.approx(0.0, abs=1e-9)


def test_options_with_a_number_of_gpus_hold_so_many() -> None:
    # On 4 GPUs: 2 GPUs for each of two jobs (2 x 1.8) beat 4 for one (3.0) and 1 each (2.0).
    columns = pd.MultiIndex.from_tuples([("a100", 1), ("a100", 2), ("a100", 4)])
    speed = pd.DataFrame([[1.0, 1.8, 3.0]] * 2, index=["x", "y"], columns=columns)
    allocation = solve("max_total_throughput", speed, workers={"a100": 4})
    np.testing.assert_allclose(allocation.X, [[0, 1, 0], [0, 1, 0]], atol=1e-7)
    assert allocation.objective == pytest.approx(3.6)


def test_a_pair_holds_its_gpu_once_and_both_members_time() -> None:
    # On one GPU: 1 steps/s for whoever runs alone, or 0.8 + 0.8 together.
    tensor = ThroughputTensor.of_combinations(
        {("x",): [[1.0]], ("y",): [[1.0]], ("x", "y"): [[0.8], [0.8]]}, ["a100"]
    )
    allocation = solve("max_total_throughput", tensor, workers={"a100": 1})
    assert allocation.X.loc["x + y", "a100"] == pytest.approx(1.0)
    np.testing.assert_allclose(allocation.throughput, [0.8, 0.8])
    # On two GPUs alone is better, and nobody can run alone and in the pair at once.
    allocation = solve("max_total_throughput", tensor, workers={"a100": 2})
    np.testing.assert_allclose(allocation.X["a100"], [1, 1, 0], atol=1e-9)


def test_combinations_of_mixed_scale_factors_keep_every_jobs_time() -> None:
    speeds: dict[tuple[str, ...], list[list[float]]] = {
        ("x",): [[1.0, 2.0]],
        ("y",): [[1.0, 1.0]],
        ("z",): [[3.0, 1.0]],
        ("x", "y"): [[0.9, 1.8], [0.7, 0.7]],
        ("y", "z"): [[0.9, 0.8], [2.8, 0.9]],
    }
    tensor = ThroughputTensor.of_combinations(speeds, ["a100", "h100"])
    jobs = pd.DataFrame({"scale_factor": [2, 1, 2]}, index=["x", "y", "z"])
    for policy in ("max_min_fairness", "max_total_throughput", "fifo"):
        allocation = solve(policy, tensor, workers={"a100": 2, "h100": 1}, jobs=jobs)
        X = allocation.X
        for job in "xyz":
            rows = [row for row in X.index if job in str(row).split(" + ")]
            assert X.loc[rows].to_numpy().sum() <= 1 + 1e-9
        held = pd.Series({"x": 2, "y": 1, "z": 2, "x + y": 2, "y + z": 2})
        assert (X.mul(held, axis=0).sum() <= [2 + 1e-9, 1 + 1e-9]).all()
        assert allocation.gap <= 1e-6


def test_another_resource_limits_what_runs() -> None:
    # Two GPUs, but x holds 3 and y 1 of 2 licences: x runs 2/3 alone, or 1/3 beside y.
    speed = pd.DataFrame({"a100": [1.0, 1.0]}, index=["x", "y"])
    licences = Resource("licences", 2.0, pd.DataFrame({"a100": [3.0, 1.0]}, index=["x", "y"]))
    allocation = solve("max_total_throughput", speed, workers={"a100": 2}, resources=[licences])
    np.testing.assert_allclose(allocation.X["a100"], [1 / 3, 1], atol=1e-7)
    assert allocation.prices["licences"] == pytest.approx(1 / 3)
    assert allocation.prices["a100"] == pytest.approx(0.0, abs=1e-9)


def test_count_stands_for_identical_jobs() -> None:
    jobs = pd.DataFrame({"count": [3, 1], "steps_remaining": [50.0, 80.0]}, index=["x", "y"])
    speed = pd.DataFrame({"a100": [2.0, 1.0], "k80": [1.0, 0.8]}, index=["x", "y"])
    one_by_one = ["x1", "x2", "x3", "y"]
    repeated = speed.loc[["x", "x", "x", "y"]].set_axis(one_by_one)
    steps = pd.DataFrame({"steps_remaining": [50.0, 50.0, 50.0, 80.0]}, index=one_by_one)
    for policy in ("max_min_fairness", "makespan", "finish_time_fairness", "isolated"):
        short = solve(policy, speed, workers="a100=1,k80=1", jobs=jobs)
        long = solve(policy, repeated, workers="a100=1,k80=1", jobs=steps)
        assert short.objective == pytest.approx(long.objective, rel=1e-7)
        np.testing.assert_allclose(short.X.loc["x"], long.X.loc["x2"], atol=1e-5)
        np.testing.assert_allclose(short.X.loc["y"], long.X.loc["y"], atol=1e-5)
