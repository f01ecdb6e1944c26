from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

import apportion as ap
from apportion.estimators.goodput import GangConfiguration, goodput_table
from apportion.sim.elastic.lending import lending_value
from apportion.sim.inference import DiurnalRate, generate_requests


def serving(gpus: int = 6) -> ap.ServingRun:
    rate = DiurnalRate(0.2)
    return ap.serve(generate_requests(rate, length_s=7200.0, services=2, seed=1), gpus)


def training(arrivals: list[float], applications: list[str]) -> ap.ElasticWorkload:
    drawn = ap.generate_elastic_workload(len(arrivals))
    jobs = drawn.jobs.assign(arrival_s=arrivals, application=applications, gpus=1, batch=128)
    return replace(drawn, jobs=jobs)


def goodputs(workload: ap.ElasticWorkload, most: int) -> np.ndarray:
    """Samples/s of jobs that have just begun, shape (jobs, GPUs)."""
    gangs = [GangConfiguration(k, -(-k // 4), "gpu") for k in range(1, most + 1)]
    rows = {
        str(job): {"gpu": workload.applications[name].fitted(0)}
        for job, name in workload.jobs["application"].items()
    }
    return goodput_table(rows, gangs, "sampled").to_frame().to_numpy(dtype=float)


def best(speedup: np.ndarray, gpus: int) -> float:
    """Largest sum of speed-ups, over all ways to divide GPUs."""
    found = np.zeros(gpus + 1)
    for row in speedup:
        with_none = np.concatenate([[0.0], row])
        found = np.array(
            [max(found[g - k] + with_none[k] for k in range(g + 1)) for g in range(gpus + 1)]
        )
    return float(found[gpus])


def price(speedup: np.ndarray, gpus: int) -> tuple[float, float]:
    """What the next GPU, and one less, change the relaxation by."""
    jobs, most = speedup.shape
    rows = np.kron(np.eye(jobs), np.ones(most))
    use = np.tile(np.arange(1, most + 1), jobs)
    rooms = [[*np.ones(jobs), gpus + each] for each in (-1e-3, 0.0, 1e-3)]
    limits = np.vstack([rows, use])
    values = [-float(linprog(-speedup.ravel(), limits, room).fun or 0.0) for room in rooms]
    return (values[2] - values[1]) / 1e-3, (values[1] - values[0]) / 1e-3


@pytest.mark.thorough
def test_worth_to_jobs_that_have_just_begun() -> None:
    workload = training([3600.0] * 3, ["small_vision", "speech", "small_vision"])
    run, own = serving(), 5
    table = lending_value(run, workload, own)
    first, then = table.iloc[0], table.iloc[1]
    assert (first["jobs"], first["price"], first["gain"]) == (0, 0.0, 0.0)
    speed = goodputs(workload, own + run.gpus)
    speedup = speed / speed[:, [1]]  # a fair share is ceil(5 / 3) GPUs
    assert then["jobs"] == 3
    more = int(then["gpus"])
    assert more == int(then["idle_gpus"])
    assert then["gain"] == pytest.approx(best(speedup, own + more) - best(speedup, own), rel=1e-6)
    for name, gpus in (("price", own), ("last_price", own + more)):
        low, high = price(speedup, gpus)
        assert low - 1e-6 <= then[name] <= high + 1e-6
    valid_for_s = min(run.length_s, 7200.0) - 3600.0
    assert then["job_hours"] == pytest.approx(then["gain"] * valid_for_s / 3600)


def test_idle_gpus_add_up() -> None:
    run = serving()
    table = lending_value(run, training([0.0], ["small_vision"]), 2, interval_s=600.0)
    valid_for_s = np.minimum(600.0, run.length_s - table["from_s"])
    idle = run.gpu_hours[["free", "warm"]].sum()
    assert (table["idle_gpus"] * valid_for_s).sum() / 3600 == pytest.approx(idle)
    assert (table["erlangs"] * 600.0).sum() == pytest.approx(run.asked["duration_s"].sum())
    assert (table["gain"] >= 0).all()


def test_a_rigid_job_has_no_use_for_more() -> None:
    workload = training([3600.0], ["small_vision"])
    fixed = replace(workload, jobs=workload.jobs.assign(gpus=2, batch=128, rigid=True))
    run = serving()
    elastic, rigid = (lending_value(run, each, 2).iloc[1] for each in (workload, fixed))
    assert elastic["gain"] > 0
    assert (rigid["jobs"], rigid["gain"], rigid["price"]) == (1, 0.0, pytest.approx(0.0))


def test_what_cannot_be_lent() -> None:
    run, jobs = serving(), training([0.0], ["small_vision"])
    with pytest.raises(ap.InputError, match="gpus is 0"):
        lending_value(run, jobs, 0)
    with pytest.raises(ap.InputError, match="interval_s is 0"):
        lending_value(run, jobs, 1, interval_s=0)
    with pytest.raises(ap.InputError, match="gpus_per_node is 0"):
        lending_value(run, jobs, 1, gpus_per_node=0)


@pytest.mark.thorough
def test_speeds_told_by_type_are_those_of_the_gpus_that_train() -> None:
    asked = pd.DataFrame({"arrival_s": [3600.0], "service": ["a"], "duration_s": [1.0]})
    idle = ap.serve(asked, 3)
    jobs = pd.DataFrame({"arrival_s": [0.0], "application": ["x"], "total_steps": [5e3]})
    speeds = pd.DataFrame({"application": "x", "gpus": [1, 2, 3, 4], "a100": [1.0, 2.0, 3.0, 4.0]})
    mine = ap.ElasticWorkload.from_table(jobs, speeds)
    for gpus in (1, "a100=1", {"a100": 1}):
        found = lending_value(idle, mine, gpus)
        assert found["gpus"].iloc[0] == 3
        assert found["gain"].iloc[0] == pytest.approx(3.0)  # four times one GPU, less one
    two = ap.ElasticWorkload.from_table(jobs, speeds.assign(t4=0.5))
    with pytest.raises(ap.InputError, match="such as 'a100=1'"):
        lending_value(idle, two, 1)
    with pytest.raises(ap.InputError, match="as of one type"):
        lending_value(idle, two, "a100=1,t4=1")
