from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.sim.elastic.by_hand import PROGRESS, SECONDS, application

import apportion as ap
from apportion.sim.inference import GPU_STATE_COLUMNS, DiurnalRate, generate_requests

CLUSTER = ap.Cluster({"v100": 8}, gpus_per_machine=4)
STATES = {"free", "running", "protected", "warm", "loaned", "training"}


def workload(arrivals: list[float], **others: Any) -> ap.ElasticWorkload:
    own = {"application": "net", "gpus": 1, "batch": 64}
    table = pd.DataFrame({"arrival_s": arrivals, **own})
    return ap.ElasticWorkload("by hand", table, {"net": application()}, **others)


def requests(*rows: tuple[float, str, float], slo_s: float | None = None) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["arrival_s", "service", "duration_s"])
    return table if slo_s is None else table.assign(slo_s=slo_s)


def drawn(seed: int, rate: float = 0.15) -> pd.DataFrame:
    return generate_requests(
        DiurnalRate(rate),
        length_s=1500.0,
        services=3,
        mean_duration_s=8.0,
        slo_factor=2.5,
        seed=seed,
    )


def _slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


CASES: list[Any] = [
    ("deepboot", {}, {"gang_restart": "afe"}),
    _slow("deepboot", {"reclaim": "random", "yield_seconds": 2.5}, {}),
    ("pollux", {"reclaim": "whole_server", "gpus": 4}, {"gang_restart": "edl"}),
    _slow("sia", {}, {"keep_paused": True, "reallocation_seconds": 10.0}),
    _slow("optimus", {"gpus": 6, "lending": False}, {"growth": float("inf")}),
    ("sia", {"gpus": 4}, {"gang_sizes": "whole_nodes"}),
]


@pytest.mark.parametrize(("policy", "how", "settings"), CASES)
def test_gpus_are_in_one_state_and_nothing_is_lost(
    policy: str, how: dict[str, Any], settings: dict[str, Any]
) -> None:
    asked = drawn(1)
    serving = ap.Serving(asked, **how)
    run = ap.simulate(
        policy, workload([0.0, 30.0, 200.0, 640.0]), CLUSTER, serving=serving, **settings
    )
    states, served = run.tables["gpu_states"], run.tables["requests"]
    assert tuple(states.columns) == tuple(GPU_STATE_COLUMNS)
    assert set(states["state"]) <= STATES
    ends = set()
    for gpu, rows in states.groupby("gpu"):
        assert rows["from_s"].iloc[0] == 0, gpu
        np.testing.assert_allclose(rows["from_s"].iloc[1:], rows["to_s"].iloc[:-1], atol=1e-7)
        ends.add(round(float(rows["to_s"].iloc[-1]), 6))
    assert (states["gpu"].nunique(), len(ends)) == (8, 1)
    assert served.index.equals(asked.index)
    took_s = (served["finish_s"] - served["start_s"]) - 6.0 * served["cold"]
    np.testing.assert_allclose(took_s, asked["duration_s"])
    assert (served["delay_s"] >= 0).all()
    latest_s = asked["arrival_s"] + asked["slo_s"]
    assert (served["slo_met"] == (served["finish_s"] <= latest_s + 1e-6)).all()
    spent = (states["to_s"] - states["from_s"]).groupby(states["state"]).sum()
    trained = spent.reindex(["loaned", "training"]).sum()
    yielded = run.tables["reclaims"]["yield_s"].sum()
    assert trained == pytest.approx(run.jobs["gpu_seconds"].sum() + yielded)
    assert spent["running"] == pytest.approx((served["finish_s"] - served["start_s"]).sum())
    figures = run.summary()
    assert 0 < figures["computing"] <= figures["real_use"] <= figures["nominal_use"] <= 1
    assert figures["requests"] == len(asked)
    assert figures["reclaims"] == len(run.tables["reclaims"])
    served_by = 8 if how.get("gpus") is None else how["gpus"]
    assert served["gpu"].min() >= 8 - served_by
    if not how.get("lending", True):
        assert figures["reclaims"] == figures["loaned_gpu_hours"] == 0
    _check_schedule(run)


def _check_schedule(run: ap.Run) -> None:
    """No GPU trains and serves at a time."""
    served = run.tables["requests"]
    for _, _, machines, devices, from_s, to_s in run.schedule.itertuples(index=False):
        assert len(machines) <= len(devices)
        mine = served[served["gpu"].isin(devices)]
        both = np.minimum(mine["finish_s"], to_s) - np.maximum(mine["start_s"], from_s)
        assert not (both > 1e-7).any()


def test_the_order_of_rows_changes_nothing() -> None:
    asked = drawn(2)
    asked["arrival_s"] = asked["arrival_s"].round(-1)  # many at a time
    jobs = workload([0.0, 30.0, 200.0])
    one = ap.simulate("deepboot", jobs, CLUSTER, serving=asked)
    other = ap.simulate("deepboot", jobs, CLUSTER, serving=asked.sample(frac=1.0, random_state=0))
    for name, table in one.tables.items():
        pd.testing.assert_frame_equal(table, other.tables[name], check_exact=True)
    pd.testing.assert_frame_equal(one.jobs, other.jobs, check_exact=True)


@pytest.mark.parametrize("restart", [_slow("stop_resume"), _slow("afe"), "edl"])
def test_requests_that_come_after_training_leave_it_as_it_is(restart: str) -> None:
    jobs = workload([0.0, 30.0, 31.0, 900.0])
    alone = ap.simulate("pollux", jobs, CLUSTER, gang_restart=restart)
    late = requests((50_000.0, "a", 5.0), (50_001.0, "a", 5.0))
    beside = ap.simulate("pollux", jobs, CLUSTER, gang_restart=restart, serving=late)
    columns = [
        "start_s",
        "completion_s",
        "restarts",
        "paused_s",
        "gpu_seconds",
        "paused_gpu_seconds",
    ]
    pd.testing.assert_frame_equal(alone.jobs[columns], beside.jobs[columns], rtol=1e-9)
    assert beside.tables["requests"]["finish_s"].tolist() == [50_011.0, 50_012.0]


def test_a_job_with_one_gpu_is_stopped_and_waits_for_the_next_interval() -> None:
    asked = requests((100.0, "a", 10.0), slo_s=20.0)
    serving = ap.Serving(asked, yield_seconds=2.0, protect=0.0)
    run = ap.simulate("deepboot", workload([0.0]), {"v100": 1}, serving=serving)
    reclaim = run.tables["reclaims"].iloc[0]
    assert (reclaim["time_s"], reclaim["gpu"], reclaim["job"], reclaim["yield_s"]) == (100, 0, 0, 2)
    assert reclaim["speedup_change"] == pytest.approx(-1.0)
    served = run.tables["requests"].iloc[0]
    assert (served["start_s"], served["finish_s"], served["delay_s"]) == (102.0, 118.0, 2.0)
    assert served[["slo_met", "cold"]].all()
    # 30 s of the start and 70 s of work; then from 120 s on again, 30 s of a restart.
    assert run.schedule[["start_s", "end_s"]].iloc[0].tolist() == [0.0, 100.0]
    job = run.jobs.iloc[0]
    assert job["completion_s"] == pytest.approx(150 + PROGRESS * SECONDS[1] - 70)
    assert (job["restarts"], job["preemptions"], job["paused_s"]) == (1, 1, 60.0)
    states = run.tables["gpu_states"]
    assert states["state"].tolist() == ["loaned", "loaned", "running", "warm", "loaned"]
    assert states["to_s"].tolist()[:4] == [100.0, 102.0, 118.0, 120.0]


def test_a_pause_that_is_interrupted_starts_anew_and_ends_no_sooner() -> None:
    # The first start takes until 30 s; a GPU less at 10 s costs 3 s under AFE, but that goes on.
    settings: dict[str, Any] = {"growth": float("inf"), "gang_restart": "afe"}
    serving = requests((10.0, "a", 500.0))
    run = ap.simulate("deepboot", workload([0.0]), {"v100": 2}, serving=serving, **settings)
    assert run.jobs["paused_s"].iloc[0] >= 30.0
    assert run.schedule["devices"].map(len).tolist()[:2] == [2, 1]
    assert run.jobs["paused_s"].iloc[0] == pytest.approx(30.0 + 16.0 * (len(run.schedule) - 2))


@pytest.mark.parametrize(
    ("serving", "words"),
    [
        (lambda: ap.Serving(requests((0.0, "a", 5.0), slo_s=4.0)), "Request 0 has an SLO of 4 s"),
        (lambda: ap.Serving(requests((0.0, "a", 5.0)), gpus=0), "gpus that serve requests is 0"),
        (lambda: ap.Serving(requests((0.0, "a", 5.0)), gpus=9), "gpus=9 .* the cluster has 8"),
        (lambda: ap.Serving(requests((0.0, "a", 5.0)), gpus="all"), "'all'"),
        (lambda: ap.Serving(requests((0.0, "a", 5.0)), lending=False), "how many"),
        (lambda: ap.Serving(requests((0.0, "a", 5.0)), cold_start_s={"b": 1.0}), "service 'a'"),
        (lambda: ap.Serving(requests((0.0, "a", 5.0)), reclaim="best"), "least_loss"),
        (lambda: ap.Serving(requests()), "no requests"),
        (lambda: 3, "must be a table"),
        (lambda: requests((0.0, "a", 5.0)).drop(columns="duration_s"), "duration"),
    ],
)
def test_what_cannot_be_served_is_named(serving: Any, words: str) -> None:
    with pytest.raises(ap.InputError, match=words):
        ap.simulate("deepboot", workload([0.0]), CLUSTER, serving=serving())
