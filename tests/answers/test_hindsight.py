"""Forecasts of earlier moments of a log: what was known then, what came of it, and what is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.answers.test_forecast import jobs_of

import apportion as ap
from apportion.answers.hindsight import Hindsight, Levels, _part, levels
from apportion.answers.history import History
from apportion.answers.state import ClusterState, read_state

GPUS = "a100=8"
OPTIONS: dict[str, Any] = {"futures": 6, "preemption_overhead_seconds": 0.0}


def replayed(
    seed: int, now_s: float, count: int = 160
) -> tuple[ap.Workload, dict[str, Any], pd.DataFrame]:
    """Let a queue run jobs; return all of them as a log, who is here at a time, and the run."""
    log = jobs_of(seed, count)
    ran = ap.simulate("fcfs", log, GPUS, preemption_overhead_seconds=0.0).jobs
    times = {"recorded_start_s": ran["start_s"], "recorded_end_s": ran["completion_s"]}
    here = ran[(ran["arrival_s"] <= now_s) & (ran["completion_s"] > now_s)]
    entries = [
        {
            "job_id": job,
            "job_state": "RUNNING" if row["start_s"] < now_s else "PENDING",
            "submit_time": row["arrival_s"],
            "start_time": row["start_s"] if row["start_s"] < now_s else None,
            "gpus": int(row["scale_factor"]),
        }
        for job, row in here.iterrows()
    ]
    return replace(log, jobs=log.jobs.assign(**times)), {"now": now_s, "jobs": entries}, ran


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_earlier_moments_are_told_as_they_were(seed: int) -> None:
    """States, histories and outcomes, against the run itself; nothing of them is of later."""
    log, state, ran = replayed(seed, 60_000.0)
    cluster = ap.Cluster.of(GPUS)
    known = read_state(state)
    history = History.of(log, cluster).until(known.now_s)
    asked = list[tuple[ClusterState, History]]()

    def foretells(then: ClusterState, past: History) -> tuple[np.ndarray, np.ndarray]:
        asked.append((then, past))
        return np.zeros((len(then.jobs), 3)), np.zeros((len(then.jobs), 3))

    found = Hindsight.of(foretells, known, history, cluster, 16, 0)
    assert found.moments == len(asked) >= 5
    for moment, past in asked:
        at_s = moment.now_s
        assert at_s in set(ran["arrival_s"])
        assert at_s < known.now_s
        here = ran[(ran["arrival_s"] <= at_s) & (ran["completion_s"] > at_s)]
        here = here.sort_values("arrival_s")
        runs = (here["start_s"] < at_s).to_numpy()
        told = moment.jobs
        assert (told["submit_s"].to_numpy() == here["arrival_s"].to_numpy()).all()
        assert (told["gpus"].to_numpy() == here["scale_factor"].to_numpy()).all()
        assert ((told["state"] == "running").to_numpy() == runs).all()
        started = here["start_s"].where(pd.Series(runs, index=here.index))
        np.testing.assert_array_equal(told["start_s"].to_numpy(), started.to_numpy())
        assert set(past.end_s) == set(ran["completion_s"][ran["completion_s"] <= at_s])


def told_by_hand(level: list[float], known: list[bool], weight: list[float], part: float) -> float:
    """Return the least level by which the product limit has a part: from the definition."""
    even = [(number + 0.5) / 20 for number in range(20)]
    level, known, weight = level + even, known + [True] * 20, weight + [0.25] * 20
    left = 1.0
    for at in sorted({x for x, k in zip(level, known, strict=True) if k}):
        here = sum(w for x, w in zip(level, weight, strict=True) if x >= at)
        ends = sum(w for x, k, w in zip(level, known, weight, strict=True) if k and x == at)
        left *= 1 - ends / here
        if 1 - left >= part - 1e-9:
            return at
    return 1.0


@pytest.mark.parametrize("seed", range(20))
def test_what_is_told_is_where_the_levels_have_that_part(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 30))
    level, known = rng.random(count) ** rng.choice([0.2, 1, 5]), rng.random(count) < 0.7
    split = np.sort(rng.integers(0, count + 1, 2))
    moments = [each for each in np.split(np.arange(count), split) if each.size]
    weight = np.concatenate([np.full(each.size, 1 / each.size) for each in moments])
    found = Hindsight()
    seen = [Levels(level[each], known[each], level[each]) for each in moments]
    found._seen["waiting", "end"] = seen
    parts = (0.05, 0.5, 0.9, 0.95)
    told = [found.part("waiting", "end", part) for part in parts]
    assert told == sorted(told)
    for part, mine in zip(parts, told, strict=True):
        law = told_by_hand(level.tolist(), known.tolist(), weight.tolist(), part)
        assert mine == pytest.approx(law)
        assert found.part("running", "end", part) == part


@pytest.mark.parametrize("seed", range(20))
def test_levels_are_counted_among_futures(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 40))
    told_s = 1e9 + rng.lognormal(8, 2, (3, count)) + 100
    came_s = np.quantile(told_s, rng.random(), axis=1) * rng.choice([1, 1 - 1e-4, 1 + 1e-4])
    found, known, passed = levels(told_s, came_s, np.inf, rng)
    assert known.all()
    assert (passed == 1).all()
    before = (told_s < came_s[:, None]).mean(axis=1) * count / (count + 1)
    assert (np.abs(found - before) <= 2.01 / (count + 1)).all()
    passed = levels(told_s, came_s, came_s[0], rng).passed
    for level, past in zip(passed, told_s <= came_s[0], strict=True):
        assert level == (1.0 if past.all() else past.sum() / (count + 1))


def test_what_has_not_come_yet_is_no_lower_than_now() -> None:
    told_s, rng = np.array([[10.0, 20.0, 30.0]]), np.random.default_rng(0)
    for now_s, least in ((5.0, 0.0), (15.0, 0.25), (25.0, 0.5), (60.0, 0.75)):
        level, known, _ = levels(told_s, np.array([np.nan]), now_s, rng)
        assert not known[0]
        assert level[0] == pytest.approx(least)


@pytest.mark.parametrize("late", [1.0, 1.6])
def test_times_are_told_later_where_those_before_came_later(late: float) -> None:
    """Forecasts of earlier moments that are off by a factor; those of today are told times it."""
    log, state, ran = replayed(0, 60_000.0)
    known = read_state(state)
    history = History.of(log, ap.Cluster.of(GPUS)).until(known.now_s)
    by_arrival = ran.sort_values("arrival_s")

    def foretells(then: ClusterState, _: History) -> tuple[np.ndarray, np.ndarray]:
        at_s = by_arrival["arrival_s"].to_numpy()
        rows = np.searchsorted(at_s, then.jobs["submit_s"])
        spread = np.linspace(0.1, 2, 39) / late
        told = [
            then.now_s + np.outer(by_arrival[name].to_numpy()[rows] - then.now_s, spread)
            for name in ("start_s", "completion_s")
        ]
        return told[0], told[1]

    found = Hindsight.of(foretells, known, history, ap.Cluster.of(GPUS), 160, 0)
    futures = np.linspace(0.1, 2, 39)[None, :]
    level = found.part("waiting", "end", 0.5)
    told = float(np.quantile(futures, level, method="weibull"))
    # What came is what was told where that was right, and later by the factor where it was early.
    assert told == pytest.approx(late, rel=0.35)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("early", [1.0, 2.0, 9.0])
def test_times_are_told_where_those_of_the_later_half_held(seed: int, early: float) -> None:
    """Against shares counted by hand; futures of the later half are right, or early by a factor."""
    log, state, ran = replayed(seed, 180_000.0, 400)
    known = read_state(state)
    history = History.of(log, ap.Cluster.of(GPUS)).until(known.now_s)
    about = known, history, ap.Cluster.of(GPUS)
    zeros = Hindsight.of(lambda then, _: (np.zeros((len(then.jobs), 2)),) * 2, *about, 400, 0)
    half = zeros.moments // 2
    rng, jobs = np.random.default_rng(seed), ran.set_index("arrival_s", drop=False)
    asked = list[tuple[ClusterState, np.ndarray]]()

    def foretells(then: ClusterState, _: History) -> tuple[np.ndarray, np.ndarray]:
        left_s = jobs["completion_s"][then.jobs["submit_s"]].to_numpy() - then.now_s
        centre = left_s[:, None] * rng.lognormal(0, 1, (left_s.size, 1))
        told = then.now_s + centre * rng.lognormal(0, 1, (left_s.size, 199))
        if len(asked) >= half:
            told = then.now_s + (told - then.now_s) / early
        asked.append((then, told))
        return told, told

    found = Hindsight.of(foretells, *about, 400, seed)
    level = _part(found._earlier["waiting", "end"], 0.9)
    shares = []
    for then, told in asked[half:]:
        by_s = np.quantile(told, level, axis=1, method="weibull")
        due = (then.jobs["state"] == "waiting").to_numpy() & (by_s <= known.now_s)
        if due.any():
            came_s = jobs["completion_s"][then.jobs["submit_s"]].to_numpy()
            shares.append((came_s <= by_s)[due].mean())
    share, margin, count = found.coverage("waiting", "end", 0.9)
    assert count == pytest.approx(len(shares), abs=1)
    assert share == pytest.approx(np.mean(shares), abs=0.02)
    stretches = [np.mean(each) for each in np.array_split(shares, 10)]
    half_width = 2.262 * np.std(stretches, ddof=1) / 10**0.5  # Student's, nine degrees of freedom
    assert margin == pytest.approx(half_width, abs=0.02)
    doubt = found.doubt("waiting", "end", 0.9, 199)
    assert bool(doubt) == (not 0.85 <= share <= 0.95)
    assert early < 9 or "came by the time told for 90%" in doubt
    few = Hindsight.of(foretells, *about, 20, seed)
    assert "40 are the fewest" in few.doubt("waiting", "end", 0.9, 199)


@pytest.mark.thorough
def test_a_forecast_is_where_those_before_came() -> None:
    log, state, ran = replayed(0, 60_000.0)
    plain, tried = (
        ap.forecast("fcfs", state, log, GPUS, moments=moments, **OPTIONS) for moments in (0, 40)
    )
    assert (plain.ends_s == tried.ends_s).all()
    assert tried.hindsight.moments >= 10
    table = tried.table()
    for what in ("start", "end"):
        told = table[[f"{what}_{part}" for part in ("50", "90", "latest")]].to_numpy()
        assert not (np.diff(told, axis=1) < 0).any()
    assert "earlier moments have passed, and 40 are the fewest" in str(tried)
    assert "earlier moments were not asked for" in str(plain)
    known = ran["completion_s"] <= state["now"]
    cut = replace(log, jobs=log.jobs[known.loc[log.jobs.index]])
    again = ap.forecast("fcfs", state, cut, GPUS, moments=40, **OPTIONS)
    assert again.table().equals(table)


def test_nobody_is_told_to_end_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where starts were late in the past, and ends, of which others are known, were not."""
    monkeypatch.setattr(Hindsight, "doubt", lambda *_: "")
    log, state, _ = replayed(0, 60_000.0)
    found = ap.forecast("fcfs", state, log, GPUS, moments=0, **OPTIONS)
    late = [Levels(np.full(40, 0.999), np.ones(40, bool), np.ones(40))] * 40
    found.hindsight._seen["waiting", "start"] = late
    table = found.table()
    waits = table["state"] == "waiting"
    assert (found.starts_s.max(axis=1)[waits] == table["start_90"][waits]).all()
    for part in ("50", "90", "latest"):
        assert (table[f"end_{part}"] >= table[f"start_{part}"]).all()


def test_logs_that_do_not_tell_who_ran_are_not_looked_back_at() -> None:
    log, state, _ = replayed(1, 60_000.0)
    untold = replace(log, jobs=log.jobs.drop(columns=["recorded_start_s", "recorded_end_s"]))
    found = ap.forecast("fcfs", state, untold, GPUS, **OPTIONS)
    assert found.hindsight.moments == 0
    assert "it tells no starts" in str(found)
    few = {**state, "jobs": [each for each in state["jobs"] if each["job_state"] == "PENDING"]}
    crowded = ap.forecast("fcfs", few, log, "a100=4", **OPTIONS)
    assert crowded.hindsight.moments < 10
