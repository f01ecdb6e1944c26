"""Forecasts of drawn states against a queue that is written out, and told in another order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.answers.foretelling import Foretelling
from apportion.answers.history import History
from apportion.answers.state import read_state

GPUS, NOW_S = 4, 5_000_000.0

FEW = list(range(12))
MANY = [pytest.param(seed, marks=pytest.mark.thorough) for seed in range(12, 16)]
MANY += [pytest.param(seed, marks=pytest.mark.slow) for seed in range(16, 60)]


def drawn(seed: int) -> dict[str, Any]:
    """Draw who runs and waits; times, gangs and limits meet often, and some limits are over."""
    rng = np.random.default_rng([seed, 11])
    jobs, free = [], GPUS
    for number in range(int(rng.integers(1, 9))):
        gpus, submit_s = int(rng.choice([1, 1, 2, 4])), NOW_S - float(rng.choice([0, 60, 3600]))
        entry = {"job_id": f"{rng.integers(10)}-{number}", "submit_time": submit_s, "gpus": gpus}
        entry["time_limit"] = int(rng.choice([1, 10, 10, 90]))
        if gpus <= free and rng.uniform() < 0.5:
            free -= gpus
            start_s = submit_s + float(rng.choice([0.0, 30.0])) * (submit_s < NOW_S)
            jobs.append(entry | {"job_state": "RUNNING", "start_time": start_s})
        else:
            jobs.append(entry | {"job_state": "PENDING"})
    return {"now": NOW_S, "jobs": [jobs[k] for k in rng.permutation(len(jobs))]}


def log() -> ap.Workload:
    """Return jobs that ran for longer than any limit: who is here then takes as long as its own."""
    came = np.arange(150.0) * 1000
    table = pd.DataFrame(
        {"arrival_s": came, "scale_factor": 1, "total_steps": 1e6, "job_type": "any"},
        index=[f"job{number}" for number in range(150)],
    )
    index = pd.MultiIndex.from_tuples([("any", 1)], names=["job_type", "scale_factor"])
    return ap.Workload("log", table, pd.DataFrame({"gpu": [1.0]}, index=index))


LOG = log()


def in_order(state: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return when each starts and ends if nobody overtakes, from the definition."""
    told, frees_s = {}, [NOW_S] * GPUS
    waits = []
    for job in sorted(state["jobs"], key=lambda job: (job["submit_time"], job["job_id"])):
        if job["job_state"] == "PENDING":
            waits.append(job)
            continue
        end_s = max(job["start_time"] + 60 * job["time_limit"], NOW_S + 1)
        told[job["job_id"]] = job["start_time"], end_s
        frees_s = [*frees_s[job["gpus"] :], *[end_s] * job["gpus"]]
    at_s = NOW_S
    for job in waits:
        frees_s.sort()
        at_s = max(at_s, frees_s[job["gpus"] - 1])
        end_s = at_s + 60 * job["time_limit"]
        told[job["job_id"]] = at_s, end_s
        frees_s[: job["gpus"]] = [end_s] * job["gpus"]
    return told


def foretold(state: dict[str, Any], history: ap.Workload, policy: str = "fcfs") -> ap.Forecast:
    return ap.forecast(
        *(policy, state, history, f"gpu={GPUS}"),
        futures=2,
        horizon_s=100.0,
        preemption_overhead_seconds=0.0,
    )


@pytest.mark.parametrize("seed", [*FEW, *MANY])
def test_limits_that_all_meet_make_one_future(seed: int) -> None:
    state = drawn(seed)
    found, expected = foretold(state, LOG), in_order(state)
    for place, job in enumerate(found.state.jobs.index):
        start_s, end_s = expected[job]
        np.testing.assert_allclose(found.starts_s[place], start_s, atol=1e-3, rtol=0)
        np.testing.assert_allclose(found.ends_s[place], end_s, atol=1e-3, rtol=0)


@pytest.mark.parametrize("seed", [*FEW[:4], *MANY])
def test_a_queue_alone_is_as_it_is_simulated(seed: int) -> None:
    """On two types, some jobs on any and with limits, to the last digit of times from now on."""
    rng, state = np.random.default_rng([seed, 2]), drawn(seed)
    for entry in state["jobs"]:
        kinds = ["v100", "a100"] if "start_time" in entry else ["", "V100"]
        entry["accelerator"] = str(rng.choice(kinds))
        if rng.uniform() < 0.5:
            del entry["time_limit"]
    past = ap.generate_workload(jobs=60, jobs_per_hour=4.0, seed=seed)
    cluster = ap.Cluster.of(f"v100={GPUS},a100={GPUS}")
    read = read_state({**state, "now": 0.0, "jobs": [moved(entry) for entry in state["jobs"]]})
    history = History.of(past, cluster)
    for policy in ("fcfs", "easy", "conservative"):
        quick, whole = (Foretelling(policy, cluster, 1e6, seed, {}) for _ in range(2))
        assert quick.alone
        whole.alone = False
        for one, other in zip(quick(read, history, 3), whole(read, history, 3), strict=True):
            np.testing.assert_array_equal(one, other)


def moved(entry: dict[str, Any]) -> dict[str, Any]:
    """Let the state be at 0, where seconds have room for every digit."""
    times = [name for name in ("submit_time", "start_time") if name in entry]
    return entry | {name: entry[name] - NOW_S for name in times}


@pytest.mark.parametrize("seed", [*FEW[:4], *MANY])
def test_the_order_of_the_file_decides_nothing(seed: int) -> None:
    state = drawn(seed)
    past = ap.generate_workload(jobs=40, jobs_per_hour=2.0, seed=seed)
    free = [{k: v for k, v in job.items() if k != "time_limit"} for job in state["jobs"]]
    one, other = (
        foretold({"now": NOW_S, "jobs": jobs}, past, "easy") for jobs in (free, free[::-1])
    )
    pd.testing.assert_frame_equal(one.table(), other.table().loc[one.table().index])
