"""No time is told beyond limits, and arrays are their tasks; against schedules written out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.answers.test_drawn_states import FEW, GPUS, LOG, MANY, NOW_S, drawn, in_order
from tests.answers.test_forecast import drawn_log, jobs_of, known_at

import apportion as ap
from apportion.answers.hindsight import Hindsight
from apportion.cli import main

if TYPE_CHECKING:
    from pathlib import Path

HOUR = {"submit_time": NOW_S - 100, "time_limit": 60}
OPTIONS: dict[str, Any] = {"futures": 9, "preemption_overhead_seconds": 0.0}


@pytest.mark.parametrize("seed", [*FEW, *MANY])
def test_without_backfilling_the_bound_is_the_schedule_of_the_limits(seed: int) -> None:
    state = drawn(seed)
    table = ap.forecast("fcfs", state, LOG, f"gpu={GPUS}", moments=0, **OPTIONS).table()
    for job, (start_s, end_s) in in_order(state).items():
        assert table["start_latest"][job] == start_s
        assert table["end_latest"][job] == end_s


def bounds_of(policy: str, *jobs: tuple[int, int], now_s: float = NOW_S) -> tuple[list[float], str]:
    """Return in minutes when each waiting job starts at the latest behind two of four GPUs.

    Jobs are GPUs and minutes; the two are held for another hour.
    """
    runs = {"job_id": 0, "job_state": "RUNNING", "start_time": now_s, "submit_time": now_s - 99}
    waits = [
        {"job_id": n + 1, "job_state": "PENDING", "submit_time": now_s - 50 + n}
        | {"gpus": gpus, "time_limit": minutes}
        for n, (gpus, minutes) in enumerate(jobs)
    ]
    state = {"now": now_s, "jobs": [runs | {"gpus": 2, "time_limit": 60}, *waits]}
    found = ap.forecast(policy, state, LOG, "gpu=4", moments=0, **OPTIONS)
    return ((found.table()["start_latest"][1:] - now_s) / 60).tolist(), str(found)


def test_with_backfilling_the_bound_is_that_of_each_head() -> None:
    longest = 1e6 / 60  # of the jobs of the log
    told, said = bounds_of("easy", (4, 10), (4, 10), (2, 90), (3, 10), (1, 100), (1, 100))
    # The first by the limit of who runs. The next has no more GPUs than it: when it has ended; so
    # does the third. The fourth has more than the third: jobs of two GPUs and less may be in front
    # of it for as long as any. Nobody passes a job of one GPU but by ending in time.
    wide = 80 + longest
    assert told == pytest.approx([60, 70, 80, wide, wide, wide + 10])
    assert "every job ends by its limit, and no later job runs for longer than 277.8 h" in said
    assert "others" not in said
    # one that fits starts now, also behind who waits, if it ends before that one can start
    assert bounds_of("easy", (4, 10), (2, 60), (1, 60))[0] == [60, 0, 70]


def test_with_reservations_the_bound_is_the_limits_of_the_others_in_turn() -> None:
    told, said = bounds_of("conservative", (4, 10), (2, 30), (1, 20))
    assert told == pytest.approx([60 + 50, 60 + 30, 60 + 40])
    assert "(At the latest: if every job ends by its limit)" in said


@pytest.mark.parametrize(
    ("policy", "cluster"),
    [
        ("slurm", "gpu=4"),
        ("minimum_completion_time", "gpu=4"),
        ("easy", "gpu=4,other=4"),
        ("fcfs", "gpu=4,other=4"),
    ],
)
def test_there_is_no_bound_where_others_may_pass(policy: str, cluster: str) -> None:
    runs = {**HOUR, "job_state": "RUNNING", "start_time": NOW_S - 50, "gpus": 4}
    waits = {**HOUR, "job_state": "PENDING", "gpus": 3}
    types = ["gpu", *["other"] * ("other" in cluster)]
    jobs = [runs | {"job_id": n, "accelerator": each} for n, each in enumerate(types)]
    state = {"now": NOW_S, "jobs": [*jobs, *(waits | {"job_id": 5 + n} for n in range(2))]}
    found = ap.forecast(policy, state, LOG, cluster, moments=0, **{**OPTIONS, "futures": 2})
    assert f"{policy} may put off who waits, with this cluster and these settings" in str(found)
    ends_s = found.table()["end_latest"].tolist()
    assert ends_s == [*[NOW_S - 50 + 3600] * len(jobs), np.inf, np.inf]


def crowded(rng: np.random.Generator, gpus: int) -> ap.Workload:
    """Draw jobs in arrays and alone that end by their limits, some of which are tight."""
    arrays = [int(rng.choice([1, 1, 1, 5])) for _ in range(25)]
    took_s = np.ceil(rng.exponential(600, sum(arrays))) + 1
    gangs = [int(each) for each in rng.choice([1, 2, gpus // 2, gpus], 25)]
    gap_s = 600 * np.repeat(gangs, arrays).sum() / gpus / 25
    limit_s = np.ceil(took_s * (1 + rng.random(took_s.size) * rng.choice([0.0, 0.5, 4.0])))
    limit_s[rng.random(took_s.size) < 0.02] = np.nan
    limit_s[0] = np.fmax(limit_s, took_s).max()  # no later job may run for longer
    jobs = pd.DataFrame(
        {
            "arrival_s": np.repeat(np.cumsum(np.ceil(rng.exponential(gap_s, 25))), arrays),
            "job_type": "any",
            "scale_factor": np.repeat(gangs, arrays),
            "total_steps": took_s,
            "time_limit_s": limit_s,
        },
        index=[f"j{number:03d}" for number in range(took_s.size)],
    )
    index = pd.MultiIndex.from_product([["any"], sorted({*gangs})])
    index.names = ["job_type", "scale_factor"]
    return ap.Workload("crowded", jobs, pd.DataFrame({"gpu": 1.0}, index=index))


def seen_at(now_s: float, jobs: pd.DataFrame) -> dict[str, Any]:
    """Return the state of a run at a time."""
    told = []
    for job, row in jobs[(jobs["arrival_s"] <= now_s) & (jobs["completion_s"] > now_s)].iterrows():
        entry = {"job_id": job, "gpus": row["scale_factor"], "submit_time": row["arrival_s"]}
        if row["start_s"] < now_s:
            entry |= {"job_state": "RUNNING", "start_time": row["start_s"]}
        if row["time_limit_s"] > 0:
            entry["time_limit"] = row["time_limit_s"] / 60
        told.append({"job_state": "PENDING", **entry})
    return {"now": now_s, "jobs": told}


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
@pytest.mark.parametrize(
    "seed",
    [
        *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (0, 13, 23)),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(26, 40)),
    ],
)
def test_nobody_starts_or_ends_later_than_at_the_latest(seed: int, policy: str) -> None:
    """In runs with jobs that come later, and who all end by their limits."""
    rng = np.random.default_rng([seed, 21])
    cluster, count = f"gpu={(gpus := int(rng.choice([4, 8, 16])))}", 0
    log = crowded(rng, gpus)
    run = ap.simulate(policy, log, cluster, preemption_overhead_seconds=0.0)
    jobs = log.jobs.join(run.jobs[["start_s", "completion_s"]])
    for now_s in rng.choice(jobs["arrival_s"].unique()[3:], 5, replace=False) + 0.5:
        state, ended = seen_at(now_s, jobs), jobs[jobs["completion_s"] <= now_s]
        if not state["jobs"] or ended.empty:
            continue
        names = {"start_s": "recorded_start_s", "completion_s": "recorded_end_s"}
        past = ap.Workload("past", ended.rename(columns=names), log.throughputs)
        found = ap.forecast(policy, state, past, cluster, moments=0, horizon_s=1.0, **OPTIONS)
        table = found.table()
        here = jobs.loc[table.index]
        assert (here["start_s"] <= table["start_latest"] + 1e-3).all()
        assert (here["completion_s"] <= table["end_latest"] + 1e-3).all()
        count += np.isfinite(table["start_latest"][table["state"] == "waiting"]).sum()
    assert count


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
@pytest.mark.parametrize("seed", [*FEW[:5], *MANY])
def test_nothing_is_told_beyond_limits(
    seed: int, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quantiles that all are told, at levels as after a past that came late; some have no limit."""
    rng, state = np.random.default_rng([seed, 5]), drawn(seed)
    monkeypatch.setattr(Hindsight, "doubt", lambda *_: "")
    monkeypatch.setattr(Hindsight, "part", lambda *asked: asked[-1] ** 0.1)
    ever = {job["job_id"] for job in state["jobs"] if rng.random() < 0.2}
    for job in state["jobs"]:
        if job["job_id"] in ever:
            del job["time_limit"]
    log = jobs_of(seed, 200)
    found = ap.forecast(policy, state, log, f"a100={GPUS}", moments=0, **OPTIONS)
    table = found.table()
    for what in ("start", "end"):
        told = table[[f"{what}_{part}" for part in ("50", "90", "latest")]].to_numpy()
        assert (told[:, 0] <= told[:, 1]).all()
        assert (told[:, 1] <= told[:, 2]).all()
    for part in ("50", "90", "latest"):
        assert (table[f"start_{part}"] <= table[f"end_{part}"]).all()
    for job in state["jobs"]:
        row = table.loc[job["job_id"]]
        if job["job_id"] in ever:
            assert row["end_latest"] == np.inf
        elif job["job_state"] == "RUNNING":
            assert row["end_90"] <= max(job["start_time"] + 60 * job["time_limit"], NOW_S + 1)
        else:
            assert row["end_90"] <= row["start_latest"] + 60 * job["time_limit"]
    assert ("no time limit" in str(found)) == bool(ever)
    for job in ever:
        assert job in found.no_bound or "more have" in found.no_bound


def test_who_waits_behind_a_job_without_a_limit_has_no_bound() -> None:
    running = {**HOUR, "job_state": "RUNNING", "start_time": NOW_S - 50, "gpus": 4, "job_id": "a"}
    waiting = {**HOUR, "job_state": "PENDING", "gpus": 2, "job_id": "b"}
    behind = waiting | {"job_id": "c", "gpus": 1}
    for without in (running, waiting):
        jobs = [dict(each) for each in (running, waiting, behind)]
        del jobs[0 if without is running else 1]["time_limit"]
        state = {"now": NOW_S, "jobs": jobs}
        found = ap.forecast("fcfs", state, LOG, "gpu=4", moments=0, **OPTIONS)
        table, end_s = found.table(), NOW_S - 50 + 3600
        bounds = table[["start_latest", "end_latest"]].to_numpy().tolist()
        if without is running:
            assert bounds == [[NOW_S - 50, np.inf], [np.inf, np.inf], [np.inf, np.inf]]
        else:  # the third needs one of the four GPUs that the first leaves
            assert bounds == [[NOW_S - 50, end_s], [end_s, np.inf], [end_s, end_s + 3600]]
        assert f"(No bound where none is told: Job {without['job_id']} has no time limit)" in str(
            found
        )
    told = ap.forecast(
        "max_min_fairness", {"now": NOW_S, "jobs": [running]}, LOG, "gpu=4", futures=2
    )
    assert told.table()["end_latest"].tolist() == [np.inf]
    assert "max_min_fairness may stop jobs that run" in str(told)


@pytest.mark.parametrize("seed", range(8))
def test_durations_are_of_the_part_of_the_law_that_limits_leave(seed: int) -> None:
    """As drawn again and again from the durations of the log, until one is allowed."""
    rng, log = np.random.default_rng(seed), drawn_log(seed, 400)
    took_s = log[2] - log[1]
    had_s, limit_s = np.quantile(took_s, np.sort(rng.uniform(0.1, 0.9, 2)) + np.array([0, 0.05]))
    told, one = known_at(1e9, log), np.ones((1, 1), dtype=np.intp)
    runs = np.ones(1, dtype=bool)
    drawn_s = [
        told.draw(rng, one, np.array([had_s]), runs, np.array([limit_s]))[0] for _ in range(800)
    ]
    assert min(drawn_s) > had_s
    assert max(drawn_s) <= limit_s
    allowed = took_s[(took_s > had_s) & (took_s <= limit_s)]
    for part in (0.25, 0.5, 0.75):
        below = np.mean(np.array(drawn_s) <= np.quantile(allowed, part))
        assert below == pytest.approx(part, abs=0.2)  # levels are those of the past
    # a law without a duration that is allowed leaves the limit
    beyond = told.draw(rng, one, np.zeros(1), runs, np.array([took_s.min() / 2]))
    assert beyond[0] == took_s.min() / 2


def array(text: str, **more: Any) -> dict[str, Any]:
    """Return a pending array of one GPU and an hour each, as Slurm tells it."""
    number = {"set": True, "infinite": False, "number": 2}
    return {**HOUR, "job_id": 2, "job_state": ["PENDING"], "gpus": 1} | {
        "array_job_id": number,
        "array_task_id": {"set": False, "infinite": False, "number": 0},
        "array_task_string": text,
        **more,
    }


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
@pytest.mark.parametrize("at_once", [1, 3, 8, 40, None])
def test_a_pending_array_is_its_tasks_so_many_at_once(policy: str, at_once: int | None) -> None:
    """All take their limits: rounds of an hour; whoever is behind passes tasks that are held."""
    behind = {**HOUR, "job_id": 3, "job_state": "PENDING", "gpus": 2, "submit_time": NOW_S - 50}
    text = "1-40" + f"%{at_once}" * bool(at_once)
    state = {"now": NOW_S, "jobs": [array(text), behind]}
    found = ap.forecast(policy, state, LOG, "gpu=10", moments=0, horizon_s=1.0, **OPTIONS)
    table, most = found.table(), min(at_once or 40, 10)
    rounds = -(-40 // most)
    row = table.loc[f"2_[{text}]"]
    assert row["tasks"] == 40
    if policy == "conservative":  # who comes reserves GPUs before tasks that are held
        assert (row["end_latest"] == np.inf) == ((at_once or 40) < 40)
        assert ("may put off who waits" in str(found)) == ((at_once or 40) < 40)
    else:
        assert row["start_latest"] == NOW_S
        assert row["end_latest"] == NOW_S + 3600 * rounds
        if policy == "fcfs" or most < 10:
            assert table["start_latest"]["3"] == NOW_S + 3600 * (0 if most < 10 else 4)
    for starts_s, ends_s in zip(found.starts_s.T[:, :40], found.ends_s.T[:, :40], strict=True):
        at_work = [((starts_s <= at) & (ends_s > at)).sum() for at in starts_s]
        assert max(at_work) == most
        assert ends_s.max() == NOW_S + 3600 * rounds
    assert f"2_[{text}] (40 tasks of 1 GPUs) waits" in str(found)


def test_tasks_that_run_count_among_those_at_once() -> None:
    task = {**HOUR, "job_state": "RUNNING", "gpus": 1, "array_job_id": 2}
    running = [task | {"job_id": 10 + n, "start_time": NOW_S - 10 * n} for n in range(3)]
    state = {"now": NOW_S, "jobs": [*running, array("4,6-7%4")]}
    found = ap.forecast("fcfs", state, LOG, "gpu=8", moments=0, horizon_s=1.0, **OPTIONS)
    starts_s = dict(zip(found.state.jobs.index, found.starts_s[:, 0], strict=True))
    # three run, and four may; the first of them end after 40 and 50 seconds less than an hour
    ends_s = sorted(NOW_S - 10 * n + 3600 for n in range(3))
    assert [starts_s[f"2_{task}"] for task in (4, 6, 7)] == [NOW_S, ends_s[0], ends_s[1]]


def test_limits_on_tasks_that_are_not_held_are_told() -> None:
    state: dict[str, Any] = {"now": NOW_S, "jobs": [array("1-3%2")]}
    note = "The limit of an array's tasks at once is not held here"
    few: dict[str, Any] = {"futures": 2, "horizon_s": 1.0}
    assert note in str(ap.forecast("shortest_job_first", state, LOG, "gpu=2", **few))
    assert note not in str(ap.forecast("fcfs", state, LOG, "gpu=2", moments=0, **few))
    state["jobs"][0]["array_task_string"] = "1-3"
    assert note not in str(ap.forecast("shortest_job_first", state, LOG, "gpu=2", **few))


@pytest.mark.parametrize("text", ["1,3,5,...", "1-", "x", "0-200000"])
def test_arrays_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ap.InputError, match=r"Job 2 of the state.*SLURM_BITSTR_LEN"):
        ap.forecast("fcfs", {"now": NOW_S, "jobs": [array(text)]}, LOG, "gpu=2")


def test_the_command_reads_brackets_and_checks_out_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, log = tmp_path / "state.json", tmp_path / "log.csv"
    state.write_text(json.dumps({"now": NOW_S, "jobs": [array("1-4%2")]}))
    assert main(["workload", "generate", str(log), "--generate-jobs", "30"]) == 0
    capsys.readouterr()
    asked = ["forecast", str(state), "--cluster", "v100=4", "--futures", "3"]
    out = tmp_path / "told.csv"
    assert main([*asked, "--log", f"{log}(limit=19)", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "Only 19 jobs of the log had ended" in said
    told = pd.read_csv(out)
    assert told["job"].tolist() == ["2_[1-4%2]"]
    assert told["end_latest"].tolist() == [NOW_S + 7200]
    for words, wrong in (
        (["--log", "nowhere.csv", "--out", str(tmp_path / "fc")], "Unknown format of tables ''"),
        (["--log", f"{log}(limt=19)"], "Unknown setting of --log 'limt'. Did you mean 'limit'?"),
    ):
        assert main([*asked, *words]) == 2
        assert wrong in capsys.readouterr().err
