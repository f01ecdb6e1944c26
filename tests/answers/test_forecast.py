from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.answers.durations import Durations
from apportion.answers.state import placed, read_state
from apportion.errors import InputError
from apportion.sim.carried_on import carried_on

if TYPE_CHECKING:
    from pathlib import Path

QUEUES = ("easy", "fcfs", "slurm", "minimum_completion_time")
RUNNING = {
    "job_id": 7,
    "job_state": ["RUNNING"],
    "submit_time": {"set": True, "infinite": False, "number": 100},
    "start_time": 200,
    "tres_alloc_str": "cpu=4,gres/gpu=2,gres/gpu:a100=2",
    "time_limit": {"set": True, "infinite": True, "number": 0},
}
WAITING = {"job_id": 8, "job_state": "PENDING", "submit_time": 300, "gpus": 4, "time_limit": 60}
STATE = {"now": 1000, "jobs": [RUNNING, WAITING]}


def jobs_of(seed: int, count: int = 40) -> ap.Workload:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "arrival_s": np.sort(rng.uniform(0, 500 * count, count)),
            "job_type": "any",
            "scale_factor": rng.choice([1, 2, 4], count),
            "total_steps": rng.exponential(3000, count) + 10,
        },
        index=[f"j{number:03d}" for number in range(count)],
    )
    index = pd.MultiIndex.from_product([["any"], [1, 2, 4]], names=["job_type", "scale_factor"])
    return ap.Workload("jobs", table, pd.DataFrame({"a100": 1.0}, index=index))


@pytest.mark.parametrize(
    "policy", [QUEUES[0], *(pytest.param(each, marks=pytest.mark.thorough) for each in QUEUES[1:])]
)
def test_a_queue_goes_on_from_any_state_as_it_did(policy: str) -> None:
    log = jobs_of(0)
    run = ap.simulate(policy, log, "a100=8", preemption_overhead_seconds=0.0)
    for now_s in (3000.0, 9000.0, 15000.0):
        left = run.jobs[run.jobs["completion_s"] > now_s]
        stays = run.schedule[run.schedule["end_s"] > now_s]
        stays = stays[stays["start_s"] <= now_s].set_index("job")
        jobs = log.jobs.loc[left.index]
        had_s = (now_s - stays["start_s"]).reindex(left.index).fillna(0.0)
        begun = replace(log, jobs=jobs.assign(steps_remaining=jobs["total_steps"] - had_s))
        held = {job: ("a100", (*devices,)) for job, devices in stays["devices"].items()}
        on = carried_on(
            policy, begun, ap.Cluster.of("a100=8"), now_s, held, preemption_overhead_seconds=0.0
        )
        assert on.jobs["completion_s"].to_numpy() == pytest.approx(left["completion_s"].to_numpy())


def test_a_state_is_read_as_slurm_tells_it(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    told_at = {"last_update": {"set": True, "number": 1000}}
    path.write_text(json.dumps({**told_at, "jobs": STATE["jobs"]}))
    found = read_state(path)
    assert found.now_s == 1000
    told = found.jobs.to_dict("index")
    assert told["7"] | {"time_limit_s": 0} == {
        "state": "running",
        "gpus": 2,
        "accelerator": "a100",
        "submit_s": 100,
        "start_s": 200,
        "time_limit_s": 0,
    }
    assert told["8"]["time_limit_s"] == 3600
    done = {"job_id": 9, "job_state": "COMPLETED", "submit_time": 1, "gpus": 1}
    assert read_state({**STATE, "jobs": [RUNNING, done]}).left_out == 1


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"job_id": None}, "no job_id"),
        ({"submit_time": 2000}, "7.*submit_time"),
        ({"submit_time": None}, "7.*submit_time"),
        ({"start_time": 50}, "7.*start_time"),
        ({"start_time": None}, "7.*start_time"),
        ({"gpus": 1.5}, "7.*gpus"),
    ],
)
def test_states_that_cannot_be_are_refused(change: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        read_state({**STATE, "jobs": [RUNNING | change]})


@pytest.mark.parametrize(
    ("state", "wrong"),
    [({}, "no list 'jobs'"), ({"jobs": [RUNNING]}, "no time"), ({**STATE, "jobs": []}, "Nobody")],
)
def test_states_without_what_they_need_are_refused(state: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        read_state(state)


def test_who_runs_is_placed_whole_where_that_is_possible() -> None:
    jobs = [
        RUNNING | {"job_id": name, "gpus": gpus, "accelerator": "a100"}
        for name, gpus in (("a", 1), ("b", 3), ("c", 4))
    ]
    found = placed(read_state({"now": 1000, "jobs": jobs}), ap.Cluster.of("a100=8"))
    machines = {name: {device // 4 for device in devices} for name, (_, devices) in found.items()}
    assert {name: len(each) for name, each in machines.items()} == {"a": 1, "b": 1, "c": 1}
    assert sorted(device for _, devices in found.values() for device in devices) == list(range(8))
    with pytest.raises(InputError, match="more than the 4"):
        placed(read_state({"now": 1000, "jobs": jobs}), ap.Cluster.of("a100=4"))
    with pytest.raises(InputError, match=r"'a100'.*v100"):
        placed(read_state(STATE), ap.Cluster.of("v100=4"))


@pytest.mark.thorough
def test_tails_are_missed_as_often_as_said_though_jobs_change() -> None:
    """The durations grow tenfold half way; misses of the second half stay near 5 % a side."""
    rng = np.random.default_rng(1)
    count = 3000
    arrival_s = np.cumsum(rng.exponential(600, count))
    duration_s = rng.lognormal(7, 1, count) * np.where(np.arange(count) < count / 2, 1, 10)
    gpus, missed = np.ones(count, dtype=np.intp), list[bool]()
    for job in range(count // 2 + 200, count, 25):
        ended = arrival_s + duration_s <= arrival_s[job]
        end_s = arrival_s + duration_s
        told = Durations(arrival_s[ended], end_s[ended], duration_s[ended], gpus[ended])
        low, high = told.quantiles(1, np.array([0.05, 0.95]))
        missed.append(not low <= duration_s[job] <= high)
    assert np.mean(missed) < 0.2  # without tracking a third and more


def test_what_runs_is_drawn_longer_than_it_has_run() -> None:
    duration_s = np.linspace(10, 1000, 200)
    told = Durations(np.arange(200.0), np.arange(200.0) + 2000, duration_s, np.ones(200, np.intp))
    levels = np.linspace(0, 1, 500)
    assert min(told.at(level, 1, 400.0) for level in levels) > 400
    assert min(told.at(level, 1, 1e6) for level in levels) >= 1e6
    drawn = [told.at(level, 1) for level in levels]
    assert drawn == sorted(drawn)
    assert drawn[-1] <= 2000.001


def test_draws_hang_together_as_jobs_of_the_log_do() -> None:
    """Durations in campaigns; each duration by itself is spread as before."""
    rng = np.random.default_rng(0)
    campaigns = np.repeat(rng.normal(size=200), 5) + 0.3 * rng.normal(size=1000)
    came, ones = np.arange(1000.0), np.ones(1000, np.intp)
    told = Durations(came, came + 1e6, np.exp(campaigns), ones)
    ranks = pd.Series(campaigns).rank()
    assert told.likeness == pytest.approx(ranks.autocorr(), abs=0.05)
    levels = np.array([told.levels(rng, 4) for _ in range(2000)])
    expected = told.likeness ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    np.testing.assert_allclose(np.corrcoef(levels.T), expected, atol=0.08)
    np.testing.assert_allclose(
        np.quantile(levels, [0.1, 0.5, 0.9], axis=0)[:, 3], [0.1, 0.5, 0.9], atol=0.05
    )
    alone = Durations(came, came + 1e6, np.exp(rng.permutation(campaigns)), ones)
    assert alone.likeness < 0.15


def test_a_forecast_knows_what_is_certain() -> None:
    log = jobs_of(3, 30)
    found = ap.forecast("fcfs", STATE, log, "a100=4", futures=8, preemption_overhead_seconds=0.0)
    table = found.table()
    assert table.T["7"][["start_05", "start_95"]].tolist() == [200, 200]
    # the queue is first come, first served, and both need more than half of the GPUs
    assert (found.starts_s[1] >= found.ends_s[0] - 1e-6).all()
    assert (found.ends_s[1] - found.starts_s[1] <= 3600 + 1e-6).all()
    again = ap.forecast("fcfs", STATE, log, "a100=4", futures=8, preemption_overhead_seconds=0.0)
    assert (again.ends_s == found.ends_s).all()
    assert "7 (2 GPUs) runs: ends 50% by" in str(found)
    assert "8 (4 GPUs) waits: starts 50% by" in str(found)
