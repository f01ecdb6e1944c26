from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.answers.durations import DurationLaw, Durations, kinds_of
from apportion.answers.state import placed, read_state
from apportion.errors import InputError
from apportion.sim.simulation import carried_on

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
        rest = run.schedule[run.schedule["end_s"] > now_s]
        rest = rest.assign(start_s=rest["start_s"].clip(lower=now_s))
        by = ["start_s", "job"]
        pd.testing.assert_frame_equal(
            on.schedule.sort_values(by, ignore_index=True),
            rest.sort_values(by, ignore_index=True),
        )


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
        "entry": "7",
        "array": "",
        "at_once": pytest.approx(np.nan, nan_ok=True),
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


def drawn_log(seed: int, count: int, campaigns: int = 1) -> tuple[np.ndarray, ...]:
    """Draw arrivals, starts, ends and gangs of jobs of which neighbours are alike."""
    rng = np.random.default_rng(seed)
    arrival_s = np.cumsum(rng.exponential(600, count))
    alike = np.repeat(rng.normal(size=-(-count // campaigns)), campaigns)[:count]
    duration_s = np.exp(8 + alike + 0.3 * rng.normal(size=count))
    return arrival_s, arrival_s, arrival_s + duration_s, np.ones(count, dtype=np.intp)


def known_at(now_s: float, log: tuple[np.ndarray, ...]) -> Durations:
    """Return what is known of durations at a time."""
    arrival_s, start_s, end_s, gpus = (each[log[0] <= now_s] for each in log)
    end_s = np.where(end_s <= now_s, end_s, np.nan)
    ever = np.full(gpus.size, np.nan)
    return Durations(arrival_s, start_s, end_s, gpus[:, None], ever, now_s)


@pytest.mark.parametrize("seed", range(20))
def test_the_law_is_the_product_limit(seed: int) -> None:
    """Against the definition: a product over times at which jobs ended, of who was still there."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 30))
    duration_s = rng.integers(1, 12, count) + np.arange(count) / 100  # no two alike
    ended = rng.uniform(size=count) < 0.7
    law = DurationLaw(duration_s, ended, np.ones((count, 1), dtype=np.intp))
    for than_s in (0.5, 3.0, 6.5, float(duration_s.max())):
        left = 1.0
        for at_s in sorted(duration_s[ended & (duration_s <= than_s)]):
            left *= 1 - 1 / np.count_nonzero(duration_s >= at_s)
        expected = 1 - (1 - left) * count / (count + 1)
        assert law.longer(np.array([[1]]), np.array([than_s]))[0] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(10))
def test_a_job_has_the_law_of_its_narrowest_kind_that_is_known(seed: int) -> None:
    """Against the rule, on jobs of users and sizes of which there are many, few and none."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 900))
    gpus, user = (rng.choice([0, 1, 2, 5], count, p=[0.6, 0.3, 0.09, 0.01]) for _ in range(2))
    ended, duration_s = rng.random(count) < 0.8, rng.lognormal(5, 1, count)
    for one in ((0, 0), (1, 0), (0, 2), (2, 2), (5, 1), (7, 0), (0, 7), (7, 7)):
        same = np.ones(count, dtype=bool)
        for some in ((gpus == one[0]) & (user == one[1]), user == one[1], gpus == one[0]):
            if np.count_nonzero(some & ended) >= 100:
                same = some
                break
        alone = DurationLaw(duration_s[same], ended[same], np.zeros((same.sum(), 1), np.intp))
        than_s = rng.lognormal(5, 1, 20)
        kinds = kinds_of(np.append(gpus, one[0]), np.append(user, one[1]))
        law = DurationLaw(duration_s, ended, kinds[:-1])
        expected = alone.longer(np.zeros((20, 1), np.intp), than_s)
        np.testing.assert_array_equal(law.longer(kinds[-1:].repeat(20, axis=0), than_s), expected)


@pytest.mark.parametrize(
    ("name", "users"),
    [
        ("user", ["ann", "bob", "eve"]),
        ("user_name", ["ann", "bob", "eve"]),
        ("entity", ["ann", "bob", "eve"]),
        ("user", [1001, 12, 7]),
    ],
)
def test_jobs_take_as_long_as_those_of_their_user(name: str, users: list[Any]) -> None:
    """One user's jobs take a minute, another's ten hours; whoever is new has the law of all."""
    count = 600
    short = np.arange(count) % 2 == 0
    table = pd.DataFrame(
        {
            "arrival_s": np.arange(count) * 100.0,
            "job_type": "any",
            "scale_factor": 1,
            "total_steps": np.where(short, 60.0, 36_000.0) + np.arange(count) % 7,
            "entity": np.where(short, *map(str, users[:2])),
        },
        index=[f"j{number:03d}" for number in range(count)],
    )
    index = pd.MultiIndex.from_product([["any"], [1]], names=["job_type", "scale_factor"])
    log = ap.Workload("jobs", table, pd.DataFrame({"a100": 1.0}, index=index))
    entry = {"job_state": "PENDING", "submit_time": 1e6, "gpus": 1}
    jobs = [entry | {"job_id": user, name: user} for user in users]
    jobs.append(entry | {"job_id": "none"})
    found = ap.forecast("fcfs", {"now": 1e6, "jobs": jobs}, log, "a100=8", futures=80)
    took_s = found.ends_s - 1e6
    assert np.quantile(took_s[0], 0.9) < 70
    assert np.quantile(took_s[1], 0.1) >= 36_000
    for other in (2, 3):
        assert 0.2 < (took_s[other] < 100).mean() < 0.8
    assert f"Job {users[2]} is of a user of whom the log has no job" in str(found)


@pytest.mark.parametrize("seed", range(10))
def test_the_law_turned_round_is_itself(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 300))
    gpus = rng.choice([1, 2], (count, 1)).astype(np.intp)
    duration_s = rng.lognormal(5, 2, count)
    law = DurationLaw(duration_s, rng.uniform(size=count) < 0.8, gpus)
    part = np.sort(rng.uniform(size=200))
    of = np.ones((200, 1), dtype=np.intp)
    found_s = law.duration(of, part)
    assert (np.diff(found_s) <= 0).all()
    assert found_s.max() <= 20 * duration_s.max()
    kept = found_s < 19 * duration_s.max()  # where nothing is cut off
    assert (law.longer(of, found_s)[kept] <= part[kept] + 1e-9).all()
    assert (law.longer(of, found_s * (1 - 1e-9))[kept] >= part[kept] * (1 - 1e-6)).all()


@pytest.mark.thorough
def test_misses_are_as_often_as_said_though_jobs_change() -> None:
    """The durations grow tenfold half way, and forecasts follow; without them a third is missed."""
    rng = np.random.default_rng(1)
    arrival_s, start_s, end_s, gpus = drawn_log(1, 3000)
    took_s = (end_s - arrival_s) * np.where(np.arange(3000) < 1500, 1, 10)
    log = arrival_s, start_s, arrival_s + took_s, gpus
    missed, one = list[bool](), np.ones((1, 1), dtype=np.intp)
    for job in range(1700, 3000, 50):
        told = known_at(arrival_s[job], tuple(np.delete(each, job) for each in log))
        no = np.zeros(1, dtype=bool)
        drawn = [told.draw(rng, one, np.zeros(1), no)[0] for _ in range(200)]
        low, high = np.quantile(drawn, [0.05, 0.95])
        missed.append(not low <= took_s[job] <= high)
    assert np.mean(missed) < 0.2


def test_what_runs_is_drawn_longer_than_it_has_run() -> None:
    told = known_at(1e9, drawn_log(0, 200))
    rng, two = np.random.default_rng(0), np.ones((2, 1), dtype=np.intp)
    for had_s in (400.0, 1e6):
        drawn = [
            told.draw(rng, two, np.array([had_s, 0.0]), np.array([True, False])) for _ in range(300)
        ]
        assert np.min(drawn, axis=0)[0] > had_s
        assert np.min(drawn, axis=0)[1] >= 1


@pytest.mark.thorough
def test_draws_hang_together_as_jobs_of_the_log_do() -> None:
    """Durations in campaigns of 20, and such without; drawn jobs are alike as often."""
    rng, none = np.random.default_rng(0), np.zeros(4, dtype=bool)
    alike = []
    for campaigns in (20, 1):
        told = known_at(1e9, drawn_log(3, 2000, campaigns))
        drawn = [told.draw(rng, np.ones((4, 1), np.intp), np.zeros(4), none) for _ in range(1500)]
        alike.append(float(pd.DataFrame(drawn).corr("spearman").to_numpy()[0, 1]))
    assert alike[0] > 0.7
    assert abs(alike[1]) < 0.15


def later(log: ap.Workload, by_s: float) -> ap.Workload:
    """Return the same jobs by another clock."""
    return replace(log, jobs=log.jobs.assign(arrival_s=log.jobs["arrival_s"] + by_s))


def test_a_forecast_is_that_of_the_same_log_by_another_clock() -> None:
    log = jobs_of(3, 30)
    one, other = (
        ap.forecast("fcfs", STATE, each, "a100=4", futures=6, preemption_overhead_seconds=0.0)
        for each in (later(log, 1e4), later(log, 1e6))
    )
    np.testing.assert_allclose(one.ends_s, other.ends_s, rtol=1e-6)


def test_a_forecast_knows_what_is_certain() -> None:
    log = later(jobs_of(3, 30), 1e6)
    found = ap.forecast("fcfs", STATE, log, "a100=4", futures=8, preemption_overhead_seconds=0.0)
    table = found.table()
    told = ["start_50", "start_90", "start_latest", "end_latest"]
    assert table.T["7"][told].tolist() == [200, 200, 200, np.inf]
    assert table.T["8"][["start_latest", "end_latest"]].tolist() == [np.inf, np.inf]
    # the queue is first come, first served, and both need more than half of the GPUs
    assert (found.starts_s[1] >= found.ends_s[0] - 1e-6).all()
    assert (found.ends_s[1] - found.starts_s[1] <= 3600 + 1e-6).all()
    again = ap.forecast("fcfs", STATE, log, "a100=4", futures=8, preemption_overhead_seconds=0.0)
    assert (again.ends_s == found.ends_s).all()
    assert "7 (2 GPUs) runs: ends at an unknown time" in str(found)
    assert "(No bound where none is told: Job 7 has no time limit)" in str(found)
    assert "(No reliable forecast: nobody in the log waited, or it tells no starts)" in str(found)
