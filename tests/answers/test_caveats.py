"""Where a log does not tell enough, a forecast says so, names the jobs, and foretells them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.answers.test_forecast import RUNNING, STATE, WAITING, jobs_of, later
from tests.answers.test_hindsight import replayed

import apportion as ap

OPTIONS: dict[str, Any] = {"futures": 6}
LOG = later(jobs_of(3, 40), 1e6)


def said(state: dict[str, Any], log: ap.Workload = LOG, gpus: str = "a100=8") -> str:
    """Return what is said; times are in order, and nothing lies before now."""
    found = ap.forecast("easy", state, log, gpus, **OPTIONS)
    table = found.table()
    for what in ("start", "end"):
        told = table[[f"{what}_{part}" for part in ("50", "90", "latest")]].to_numpy()
        assert not (np.diff(told, axis=1) < 0).any()
        assert what == "start" or not (told <= state["now"]).any()
    assert "nan" not in str(found)
    return str(found)


def running(job: Any, had_s: float, gpus: int = 1) -> dict[str, Any]:
    """Return a job that has run for so long at 1e7."""
    times = {"submit_time": 1e7 - had_s - 5, "start_time": 1e7 - had_s}
    return {"job_id": job, "job_state": "RUNNING", "gpus": gpus, **times}


@pytest.mark.parametrize("count", [1, 10, 19])
def test_a_short_log_is_said_to_be_short(count: int) -> None:
    assert f"Only {count} job" in said(STATE, later(jobs_of(0, count), 1e6))
    assert "Only" not in said(STATE)


@pytest.mark.parametrize(
    ("count", "named"),
    [
        (1, "Job 0 has run for"),
        (2, "Jobs 0 and 1 have run for"),
        (5, "Jobs 0, 1, 2 and 2 more have run for"),
    ],
)
def test_who_has_outrun_the_log_is_named(count: int, named: str) -> None:
    longest_s = float(LOG.jobs["total_steps"].max())
    jobs = [running(job, longest_s + 60) for job in range(count)]
    found = said({"now": 1e7, "jobs": [*jobs, running("short", 60.0)]})
    assert f"{named} longer than any job of the log ({longest_s / 3600:.1f} h)" in found
    # who has a limit is told to end by it
    limited = {"now": 1e7, "jobs": [job | {"time_limit": longest_s} for job in jobs]}
    assert "than any job of the log" not in said(limited)


def test_who_asks_for_more_than_the_log_has_is_named() -> None:
    wide = {"now": 1000, "jobs": [WAITING | {"gpus": 7}]}
    assert "Job 8 has more GPUs than any job of the log (4)" in said(wide)


@pytest.mark.thorough
def test_all_run_and_none_runs() -> None:
    log, state, _ = replayed(0, 120_000.0)
    for kind in ("RUNNING", "PENDING"):
        some = [entry for entry in state["jobs"] if entry["job_state"] == kind]
        found = said({**state, "jobs": some}, log)
        assert ("of who runs" in found) == (kind == "RUNNING")
        assert ("of who waits" in found) == (kind == "PENDING")


@pytest.mark.thorough
def test_a_cluster_that_was_larger_is_told() -> None:
    log, state, _ = replayed(1, 60_000.0)
    few = {**state, "jobs": [each for each in state["jobs"] if each["job_state"] == "PENDING"]}
    assert "GPUs were in use at once, and the cluster has 4" in said(few, log, "a100=4")
    assert "in use at once" not in said(few, log)


def test_entries_that_count_for_nothing_are_told() -> None:
    ended = RUNNING | {"job_id": 9, "job_state": "FAILED"}
    stopped = RUNNING | {"job_id": 10, "job_state": "SUSPENDED"}
    assert "Left out of the state: 2 entries" in said({**STATE, "jobs": [RUNNING, ended, stopped]})
    assert "Left out of the state" not in said(STATE)


def test_logs_without_what_there_is_to_learn_are_refused() -> None:
    none = replace(LOG, jobs=LOG.jobs.assign(recorded_start_s=np.nan, recorded_end_s=np.nan))
    with pytest.raises(ap.InputError, match="tells no durations"):
        ap.forecast("easy", STATE, none, "a100=8", **OPTIONS)
    wide = {"now": 1000, "jobs": [WAITING | {"gpus": 9}]}
    with pytest.raises(ap.InputError, match="Job 8 of the state waits for 9 GPUs"):
        ap.forecast("easy", wide, LOG, "a100=8", **OPTIONS)
    other = {"now": 1000, "jobs": [WAITING | {"accelerator": "h100"}]}
    with pytest.raises(ap.InputError, match="Job 8 of the state waits for 4 h100 GPUs"):
        ap.forecast("easy", other, LOG, "a100=8", **OPTIONS)
