"""Forecasts of earlier moments of a log: what was known then, what came of it, and what is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.answers.test_forecast import jobs_of

import apportion as ap
from apportion.answers.drawn_futures import History
from apportion.answers.hindsight import Hindsight
from apportion.answers.state import ClusterState, read_state

GPUS = "a100=8"
OPTIONS: dict[str, Any] = {"futures": 6, "preemption_overhead_seconds": 0.0}


def replayed(seed: int, now_s: float) -> tuple[ap.Workload, dict[str, Any], pd.DataFrame]:
    """Let a queue run jobs; return all of them as a log, who is here at a time, and the run."""
    log = jobs_of(seed, 160)
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

    def foretells(moment: ClusterState, past: History) -> tuple[np.ndarray, np.ndarray]:
        asked.append((moment, past))
        return np.zeros((len(moment.jobs), 3)), np.zeros((len(moment.jobs), 3))

    found = Hindsight.of(foretells, known, history, cluster, 8, 0)
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
    level, known, weight = level + even, known + [True] * 20, weight + [0.5] * 20
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
    weight = rng.random(count)
    found = Hindsight()
    found._seen["waiting", "end"] = [(level, known, weight)]
    parts = (0.05, 0.5, 0.9, 0.95)
    told = [found.part("waiting", "end", part) for part in parts]
    assert told == sorted(told)
    for part, mine in zip(parts, told, strict=True):
        law = told_by_hand(level.tolist(), known.tolist(), weight.tolist(), part)
        expected = part if part == 0.5 else min(part, law) if part < 0.5 else max(part, law)
        assert mine == pytest.approx(expected)
        assert found.part("running", "end", part) == part


def test_a_forecast_is_wider_by_what_came_of_those_before() -> None:
    log, state, ran = replayed(0, 60_000.0)
    plain, tried = (
        ap.forecast("fcfs", state, log, GPUS, moments=moments, **OPTIONS) for moments in (0, 4)
    )
    assert (plain.ends_s == tried.ends_s).all()
    assert tried.hindsight.moments == 4
    for what in ("start", "end"):
        one, other = plain.table(), tried.table()
        assert (other[f"{what}_05"] <= one[f"{what}_05"] + 1e-6).all()
        assert (other[f"{what}_95"] >= one[f"{what}_95"] - 1e-6).all()
        assert (other[f"{what}_50"] == one[f"{what}_50"]).all()
    assert "At 4 earlier moments of the log" in str(tried)
    assert "it was not asked for" in str(plain)
    known = ran["completion_s"] <= state["now"]
    cut = replace(log, jobs=log.jobs[known.loc[log.jobs.index]])
    again = ap.forecast("fcfs", state, cut, GPUS, moments=4, **OPTIONS)
    assert again.table().equals(tried.table())


def test_logs_that_do_not_tell_who_ran_are_not_looked_back_at() -> None:
    log, state, _ = replayed(1, 60_000.0)
    untold = replace(log, jobs=log.jobs.drop(columns=["recorded_start_s", "recorded_end_s"]))
    found = ap.forecast("fcfs", state, untold, GPUS, **OPTIONS)
    assert found.hindsight.moments == 0
    assert "it tells no starts" in str(found)
    few = {**state, "jobs": [each for each in state["jobs"] if each["job_state"] == "PENDING"]}
    crowded = ap.forecast("fcfs", few, log, "a100=4", **OPTIONS)
    assert crowded.hindsight.moments < 10
