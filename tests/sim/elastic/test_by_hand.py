from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import pandas as pd
import pytest
from tests.sim.elastic.by_hand import PROGRESS, SECONDS, TIMES, application

import apportion as ap
from apportion.estimators.goodput import (
    BatchLimits,
    MeasuredApplication,
    MeasuredTraining,
    ModelledSteps,
)
from apportion.policies.sia import Sia


@dataclass(frozen=True)
class MostGPUs(ap.Policy):
    """As many GPUs as a job may have, whatever a move costs."""

    name, integral = "most_gpus", True

    def objective(self, p: Any) -> cp.Maximize:
        return cp.Maximize(cp.sum(cp.multiply(p.gpus * (p.speed > 0), p.X)))


def workload(arrivals: list[float], **others: Any) -> ap.ElasticWorkload:
    table = pd.DataFrame({"arrival_s": arrivals, "application": "net", "gpus": 1, "batch": 64})
    return ap.ElasticWorkload("by hand", table, {"net": application()}, **others)


def test_one_job_that_may_not_grow_has_a_closed_form() -> None:
    run = ap.simulate("deepboot", workload([7.0]), {"v100": 4}, growth=1.0)
    job = run.jobs.iloc[0]
    assert job["jct_s"] == pytest.approx(30 + PROGRESS * SECONDS[1])
    assert (job["restarts"], job["preemptions"], job["paused_s"]) == (0, 0, 30.0)
    assert job["gpu_seconds"] == pytest.approx(job["jct_s"])
    assert job["ftf"] == pytest.approx(job["jct_s"] / (PROGRESS * SECONDS[1]))


@pytest.mark.parametrize(
    ("restart", "to_two", "to_four"), [("stop_resume", 30.0, 30.0), ("afe", 16.0, 16.0)]
)
def test_one_job_that_doubles_twice_and_then_stays(
    restart: str, to_two: float, to_four: float
) -> None:
    # Two GPUs are worth it at 60 s: 60 / 90 * 0.74 / 0.44 > 1. Four are not at 120 s, with one
    # restart: 90 / 150 * 0.44 / 0.282 < 1, but at 180 s: 150 / 210 * 0.44 / 0.282 > 1.
    run = ap.simulate("deepboot", workload([0.0]), {"v100": 4}, gang_restart=restart)
    job = run.jobs.iloc[0]
    done = 30 / SECONDS[1] + (120 - to_two) / SECONDS[2]
    expected = 180 + to_four + (PROGRESS - done) * SECONDS[4]
    assert job["jct_s"] == pytest.approx(expected)
    assert (job["restarts"], job["preemptions"]) == (2, 2)
    assert job["paused_s"] == pytest.approx(30 + to_two + to_four)
    assert job["gpu_seconds"] == pytest.approx(60 + 240 + 4 * (expected - 180))
    assert [len(each) for each in run.schedule["devices"]] == [1, 2, 4]


def test_growth_under_edl_lets_the_old_workers_train_on() -> None:
    # Doubles at 60 s and 180 s as above; new workers are ready 30 s later, and all pause 3 s.
    run = ap.simulate("deepboot", workload([0.0]), {"v100": 4}, gang_restart="edl")
    job = run.jobs.iloc[0]
    done = 60 / SECONDS[1] + (210 - 93) / SECONDS[2]
    expected = 213 + (PROGRESS - done) * SECONDS[4]
    assert job["jct_s"] == pytest.approx(expected)
    assert job["paused_s"] == pytest.approx(30 + 3 + 3)
    assert job["gpu_seconds"] == pytest.approx(60 + 240 + 4 * (expected - 180))
    # One GPU starts; one prepares and two wait; two prepare and four wait.
    assert job["paused_gpu_seconds"] == pytest.approx(30 + (30 + 6) + (60 + 12))
    assert run.schedule["devices"].tolist() == [(0,), (0, 1), (0, 1, 2, 3)]


def test_pauses_are_told_by_the_stages_of_restarts() -> None:
    stages = {
        "net": {"container": 5.0, "init": 10.0, "load": 15.0},
        "others": "container=1,init=1,load=1",
    }
    parts = {}
    for told in (stages, "container=5,init=10,load=15", {"container": 5, "init": 10, "load": 15}):
        run = ap.simulate("deepboot", workload([0.0]), {"v100": 4}, restart_stages=told)
        job = run.jobs.iloc[0]
        assert job["paused_s"] == pytest.approx(90)  # a start and two changes of 30 s
        parts = {name: job[f"paused_{name}_s"] for name in ("container", "init", "load")}
        assert parts == pytest.approx({"container": 15, "init": 30, "load": 45})
    refused: list[tuple[dict[str, Any], str]] = [
        ({"restart_stages": "container"}, "must be a number of seconds"),
        ({"restart_stages": 30.0}, "seconds by stage"),
        ({"restart_stages": {"a": {"x": 1.0}, "b": {"y": 1.0}}}, "must be those of the first"),
        ({"restart_stages": {"bert": {"x": 1.0}}}, "application in restart_stages 'net'"),
        ({"restart_stages": "x=1", "restart_seconds": 3.0}, "in place of restart_seconds"),
        ({"restart_stages": "x=1", "gang_restart": "afe"}, "'stop_resume'"),
    ]
    for wrong, why in refused:
        with pytest.raises(ap.InputError, match=why):
            ap.simulate("deepboot", workload([0.0]), {"v100": 4}, **wrong)


def test_seconds_of_the_settings_stand_before_those_of_the_workload() -> None:
    own = workload([0.0], restart_s={"net": (50.0, 5.0)})
    paused = {
        told: ap.simulate("deepboot", own, {"v100": 1}, restart_seconds=told).jobs["paused_s"].sum()
        for told in (None, 12.0)
    }
    assert paused == {None: 50.0, 12.0: 12.0}


def test_a_change_during_a_pause_starts_the_pause_anew() -> None:
    run = ap.simulate(MostGPUs(), workload([0.0]), {"v100": 4}, restart_seconds=90.0)
    job = run.jobs.iloc[0]
    # Changed at 60 s and at 120 s, before the pauses of 90 s are over.
    assert job["restarts"] == 2
    assert job["paused_s"] == pytest.approx(60 + 60 + 90)
    assert job["jct_s"] == pytest.approx(210 + PROGRESS * SECONDS[4])


def test_jobs_that_keep_what_they_have_while_they_pause_wait_with_growing() -> None:
    run = ap.simulate(
        MostGPUs(), workload([0.0]), {"v100": 2}, restart_seconds=90.0, keep_paused=True
    )
    job = run.jobs.iloc[0]
    assert (job["restarts"], job["paused_s"]) == (1, 180.0)
    assert run.schedule["start_s"].tolist() == [0.0, 120.0]


def test_a_type_that_is_twice_as_fast_halves_the_work() -> None:
    fast = workload([0.0], relative_speed={"a100": 2.0})
    run = ap.simulate("deepboot", fast, {"a100": 1}, growth=1.0)
    assert run.jobs["jct_s"].iloc[0] == pytest.approx(30 + PROGRESS * SECONDS[1] / 2)
    both = ap.simulate("sia", fast, {"v100": 1, "a100": 1})
    assert set(both.schedule["accelerator"]) == {"a100"}


@pytest.mark.parametrize("policy", ["deepboot", "pollux", Sia(penalty=2.0)])
def test_two_equal_jobs_share_two_gpus_and_nobody_is_moved(policy: Any) -> None:
    run = ap.simulate(policy, workload([0.0, 0.0]), {"v100": 2})
    assert run.jobs["restarts"].tolist() == [0, 0]
    assert run.jobs["jct_s"].tolist() == pytest.approx([30 + PROGRESS * SECONDS[1]] * 2)


def test_the_published_penalty_of_sia_lets_one_of_two_equal_jobs_wait() -> None:
    # Both on one GPU are worth 2 * (1.1 - 1); one on two, once moves cost little, 1.1 - 1.68 ** -.5
    run = ap.simulate("sia", workload([0.0, 0.0]), {"v100": 2})
    assert run.jobs["restarts"].tolist() == [1, 1]
    assert (run.rounds["running_jobs"] == 1).any()


@pytest.mark.slow
def test_a_job_that_starves_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """One job of much progress on two GPUs; by the published penalty the second waits for it."""
    jobs = workload([0.0, 60.0])
    for penalty, told in ((1.1, 1), (2.0, 0)):
        caplog.clear()
        ap.simulate(
            Sia(penalty=penalty), jobs, {"v100": 2}, interval_seconds=1.0, restart_seconds=0
        )
        assert sum("may starve" in each.message for each in caplog.records) == told


def test_noise_that_falls_and_rises_changes_speed_between_intervals() -> None:
    limits = BatchLimits(64, 256, 8, 64)
    small = pd.DataFrame({"progress": [500.0, 1000.0], "grad_sqr": 1.0, "grad_var": [0.0, 1e12]})
    training = MeasuredTraining("net", {64: small, 256: small})
    net = MeasuredApplication("net", ModelledSteps("net", TIMES, 64), training, limits)
    table = pd.DataFrame({"arrival_s": [0.0], "application": "net", "gpus": 1, "batch": 64})
    run = ap.simulate(
        "deepboot",
        ap.ElasticWorkload("noise", table, {"net": net}),
        {"v100": 1},
        growth=1.0,
        restart_seconds=0.0,
    )
    # Without noise 64 samples are as good as any; with much, 4 gradients count as 4 steps, of which
    # only the sum of their times counts on one GPU: the speed stays. Progress is 1 / 0.74 per s.
    assert run.jobs["jct_s"].iloc[0] == pytest.approx(1000 * SECONDS[1], rel=1e-6)
