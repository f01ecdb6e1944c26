from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.policies import Resource, solve

SPEED = pd.DataFrame({"v100": [40.0, 12.0, 8.0], "k80": [10.0, 1.0, 8.0]}, index=["x", "y", "z"])
GPUS = {"v100": 1, "k80": 1}


def jobs(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns, index=["x", "y", "z"])


def test_scripts_that_name_a_solver_go_on() -> None:
    with pytest.warns(FutureWarning, match="solver= has no effect"):
        named = ap.solve("fifo", SPEED, workers=GPUS, solver="arrow")
    assert named.X.equals(ap.solve("fifo", SPEED, workers=GPUS).X)


def test_labels_come_back() -> None:
    allocation = ap.solve("max_min_fairness", SPEED, workers=GPUS)
    assert allocation.X.index.equals(SPEED.index)
    assert allocation.X.columns.equals(SPEED.columns)
    assert list(allocation.throughput.index) == ["x", "y", "z"]
    assert list(allocation.prices.index) == ["v100", "k80"]
    assert allocation.policy == repr(ap.MaxMinFairness())
    assert allocation.stats["jobs"] == 3


def test_the_order_of_the_jobs_table_does_not_matter() -> None:
    table = jobs(weight=[1.0, 2.0, 3.0])
    one = solve("max_min_fairness", SPEED, workers=GPUS, jobs=table)
    other = solve("max_min_fairness", SPEED, workers=GPUS, jobs=table.iloc[::-1])
    pd.testing.assert_frame_equal(one.X, other.X)


@pytest.mark.parametrize("policy", ["max_min_fairness", "isolated", "proportional", "makespan"])
def test_a_type_without_throughputs_is_one_on_which_nobody_runs(policy: str) -> None:
    """What is not said of a type is what a column of zeros says."""
    table, cluster = jobs(total_steps=100.0), "h100=4,v100=1,k80=1"
    allocation = solve(policy, SPEED, workers=cluster, jobs=table)
    expected = solve(policy, SPEED.assign(h100=0.0), workers=cluster, jobs=table)
    assert list(allocation.X.columns) == ["v100", "k80", "h100"]
    assert (allocation.X["h100"] == 0.0).all()
    assert allocation.prices["h100"] == 0.0
    pd.testing.assert_frame_equal(allocation.X, expected.X)
    speeds = {job: {k: v for k, v in row.items() if v} for job, row in SPEED.T.to_dict().items()}
    told = solve(policy, speeds, workers=cluster, jobs=table)
    pd.testing.assert_frame_equal(told.X[expected.X.columns], expected.X)


def test_pairs_need_no_throughputs_on_a_type_without_any() -> None:
    pairs = ap.generate_pair_throughputs(accelerators=["v100"])
    kinds = [kind for kind, gpus in pairs.keys.tolist() if gpus == 1][:2]
    speeds = {kind: {"v100": 1.0} for kind in kinds}
    table = pd.DataFrame({"job_type": kinds, "scale_factor": 1}, index=kinds)
    policy, cluster = "max_min_fairness_space_sharing", "v100=1,k80=1"
    shared = solve(policy, speeds, workers=cluster, jobs=table, pairs=pairs)
    assert (shared.X["k80"] == 0.0).all()
    alone = solve(policy, speeds, workers="v100=1", jobs=table, pairs=pairs)
    np.testing.assert_allclose(shared.X["v100"], alone.X["v100"], atol=1e-7)


def test_total_steps_stand_in_for_steps_remaining() -> None:
    one = solve("makespan", SPEED, workers=GPUS, jobs=jobs(total_steps=[100.0, 200, 300]))
    other = solve("makespan", SPEED, workers=GPUS, jobs=jobs(steps_remaining=[100.0, 200, 300]))
    assert one.objective == other.objective


def test_ids_of_several_kinds() -> None:
    speed = SPEED.set_axis(["x", 7, ("a", 1)])
    for policy in ("max_min_fairness", "fifo"):
        assert solve(policy, speed, workers=GPUS).status == "optimal"


def test_jobs_of_one_arrival_are_served_by_id() -> None:
    speed = pd.DataFrame({"v100": [1.0, 1.0, 1.0]}, index=["c", "a", "b"])
    allocation = solve("fifo", speed, workers={"v100": 1})
    np.testing.assert_allclose(allocation.X["v100"], [0, 1, 0], atol=1e-9)


def test_no_jobs() -> None:
    allocation = solve("max_min_fairness", SPEED.iloc[:0], workers=GPUS)
    assert allocation.X.shape == (0, 2)
    assert np.isnan(allocation.objective)
    assert allocation.status == "optimal"


def test_missed_deadlines_are_told() -> None:
    table = jobs(steps_remaining=[1e5] * 3, deadline_s=[10.0, 1e9, np.nan])
    allocation = solve("min_cost_slos", SPEED, workers=GPUS, jobs=table)
    assert allocation.message == "1 deadlines cannot be met, the first of them of 'x'."
    table = jobs(steps_remaining=[10.0] * 3, deadline_s=[1e5, 1e5, np.nan])
    assert solve("min_cost_slos", SPEED, workers=GPUS, jobs=table).message == ""


def test_an_accurate_solve_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        solve("max_min_fairness", SPEED, workers=GPUS)
    assert not caplog.records


@pytest.mark.parametrize(
    ("policy", "hint"),
    [
        ("max_min_fairnes", "Did you mean 'max_min_fairness'"),
        ("makespan_agnostik", "Did you mean 'makespan_agnostic'"),
        ("zzz", "Valid: max_min_fairness"),
    ],
)
def test_unknown_policies(policy: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"Unknown policy '{policy}'") as refused:
        solve(policy, SPEED, workers=GPUS)
    assert hint in str(refused.value)


def test_what_is_no_policy() -> None:
    with pytest.raises(InputError, match=r"policy is the class Makespan; write Makespan\(\)"):
        solve(ap.Makespan, SPEED, workers=GPUS)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"policy is 7; it must be a Policy or a text"):
        solve(7, SPEED, workers=GPUS)  # type: ignore[arg-type]


def test_unknown_accelerators() -> None:
    with pytest.raises(InputError, match=r"accelerator .*'v100'. Did you mean 'v100s'"):
        solve("max_min_fairness", SPEED, workers={"v100s": 1, "k80": 1})


@pytest.mark.parametrize("policy", ["makespan", "shortest_job_first", "finish_time_fairness"])
def test_columns_that_a_policy_needs(policy: str) -> None:
    with pytest.raises(InputError, match="no column 'steps_remaining'"):
        solve(policy, SPEED, workers=GPUS)


def test_unknown_columns() -> None:
    with pytest.raises(InputError, match="Did you mean 'weight'"):
        solve("max_min_fairness", SPEED, workers=GPUS, jobs=jobs(wieght=1.0))


def test_jobs_that_stand_in_one_table_only() -> None:
    with pytest.raises(InputError, match=r"job in the throughput tensor .*'z'"):
        solve("max_min_fairness", SPEED, workers=GPUS, jobs=jobs(weight=1.0).loc[["x", "y"]])
    more = pd.DataFrame({"weight": 1.0}, index=["x", "y", "z", "zz"])
    with pytest.raises(InputError, match=r"job in the jobs table .*'zz'. Did you mean 'z'"):
        solve("max_min_fairness", SPEED, workers=GPUS, jobs=more)


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan])
def test_weights_out_of_range(weight: float) -> None:
    with pytest.raises(InputError, match="Job 'y' has weight"):
        solve("max_min_fairness", SPEED, workers=GPUS, jobs=jobs(weight=[1.0, weight, 1.0]))


@pytest.mark.parametrize("workers", [{"v100": 0, "k80": 0}, {"v100": -1, "k80": 1}, "v100", 3])
def test_clusters_that_are_none(workers: Any) -> None:
    with pytest.raises(InputError):
        solve("max_min_fairness", SPEED, workers=workers)


def test_no_gpu_of_the_only_type_that_a_job_runs_on() -> None:
    speed = SPEED.copy()
    speed.loc["y", "k80"] = 0.0
    with pytest.raises(InputError, match=r"Job 'y' fits nowhere.*v100=0,k80=4"):
        solve("max_min_fairness", speed, workers={"v100": 0, "k80": 4})


def test_cost_needs_prices() -> None:
    speed = pd.DataFrame({"mine": [1.0]}, index=["x"])
    with pytest.raises(InputError, match=r"'mine'.*prices_per_gpu_hour|prices_per_gpu_hour"):
        solve("min_cost", speed, workers={"mine": 1})
    priced = ap.Cluster({"mine": 1}, prices_per_gpu_hour={"mine": 4.0})
    assert solve("min_cost", speed, workers=priced).objective == pytest.approx(0.25)


@pytest.mark.parametrize("capacity", [-1.0, np.nan, np.inf])
def test_resources_without_a_capacity(capacity: float) -> None:
    with pytest.raises(InputError, match="capacity"):
        Resource("licences", capacity, SPEED * 0)


def test_resources_with_usage_below_zero() -> None:
    with pytest.raises(InputError, match="usage of resource 'licences'"):
        Resource("licences", 1.0, -SPEED)


def test_resources_with_other_labels() -> None:
    for usage in (SPEED.iloc[1:], SPEED.iloc[[0, 0, *range(2, len(SPEED))]], SPEED.T):
        resource = Resource("licences", 1.0, usage)
        with pytest.raises(InputError, match="usage of resource 'licences'"):
            solve("max_min_fairness", SPEED, workers=GPUS, resources=[resource])


def test_usage_of_resources_in_another_order() -> None:
    given, turned = (
        solve("max_min_fairness", SPEED, workers=GPUS, resources=[Resource("power", 9.0, usage)])
        for usage in (SPEED, SPEED.iloc[::-1, ::-1])
    )
    pd.testing.assert_frame_equal(given.X, turned.X, check_exact=True)
    assert given.prices["power"] > 0


def test_resources_of_one_name() -> None:
    twice = [Resource("power", 9.0, SPEED)] * 2
    with pytest.raises(InputError, match="Two resources are called 'power'"):
        solve("max_min_fairness", SPEED, workers=GPUS, resources=twice)
    with pytest.raises(InputError, match="Two resources are called 'v100'"):
        solve("max_min_fairness", SPEED, workers=GPUS, resources=[Resource("v100", 9.0, SPEED)])


def test_a_strict_deadline_that_has_passed_names_the_job() -> None:
    T = pd.DataFrame({"v100": [1.0, 1.0]}, index=["a", "b"])
    jobs = pd.DataFrame(
        {"steps_remaining": 10.0, "elapsed_s": [5.0, 50.0], "deadline_s": 40.0}, index=T.index
    )
    with pytest.raises(ap.InputError, match="Job 'b' has missed its deadline"):
        ap.solve(ap.MinCostWithSLOs(strict=True), T, workers={"v100": 1}, jobs=jobs)
    loose = ap.solve("min_cost_slos", T, workers={"v100": 1}, jobs=jobs)
    assert "'b'" in loose.message


def test_jobs_share_gpus_by_their_types() -> None:
    keys = pd.MultiIndex.from_tuples([("x", 1), ("y", 1)])
    own = np.zeros((2, 2, 1))
    own[0, 1, 0], own[1, 0, 0] = 3.0, 1.0
    pairs = ap.PairThroughputs(own, np.array([[4.0], [2.0]]), keys, ("v100",))
    T = pd.DataFrame({"v100": [4.0, 2.0]}, index=["a", "b"])
    jobs = pd.DataFrame({"job_type": ["x", "y"]}, index=T.index)
    policy = ap.MaxMinFairness(space_sharing=True)
    shared = ap.solve(policy, T, workers={"v100": 1}, jobs=jobs, pairs=pairs)
    # Together they make 3/4 and 1/2 of their own speed; alone for the rest of the time, b gains.
    assert list(shared.X.index) == ["a", "b", "a + b"]
    assert shared.objective == pytest.approx(0.6)
    with pytest.raises(ap.InputError, match="give pairs="):
        ap.solve(policy, T, workers={"v100": 1}, jobs=jobs)
    with pytest.raises(ap.InputError, match="no column 'job_type'"):
        ap.solve(policy, T, workers={"v100": 1}, pairs=pairs)
