"""What is true of jobs, and what schedulers are told, against books in dictionaries."""

from __future__ import annotations

import math
from statistics import geometric_mean

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.mechanism.scheduler import Gangs
from apportion.sim.beliefs import Agnostic, Told
from apportion.sim.engine import TrueState

GPUS = {"k80": 3, "v100": 5}


def drawn(rng: np.random.Generator, jobs: int) -> ap.Workload:
    speed = rng.uniform(0.5, 4, (jobs, 2))
    speed[rng.random(speed.shape) < 0.2] = 0.0
    speed[~speed.any(axis=1), 1] = 1.0
    kinds = [f"m{k}" for k in range(jobs)]
    table = pd.DataFrame(
        {
            "job_type": kinds,
            "scale_factor": rng.choice([1, 2, 3], jobs),
            "total_steps": rng.uniform(100, 1000, jobs),
            "arrival_s": np.sort(rng.choice([0.0, 10.3, 20.7, 30.0], jobs)),
            "weight": rng.choice([1.0, 2.5], jobs),
            "entity": rng.choice(["red", "blue"], jobs),
        }
    )
    index = pd.MultiIndex.from_frame(table[["job_type", "scale_factor"]])
    return ap.Workload("drawn", table, pd.DataFrame(speed, index, list(GPUS)))


def isolated_rate(load: ap.Workload, job: int, active: int) -> float:
    """Steps/s in a 1/n share of every type; more GPUs than it has are of no use to a gang."""
    gpus = int(load.jobs["scale_factor"].iloc[job])
    total = sum(GPUS.values())
    speed = load.throughputs.iloc[job]
    time = min(1.0, total / active / gpus)
    return sum(time * count / total * float(speed[name]) for name, count in GPUS.items())


@pytest.mark.parametrize("seed", range(20))
def test_books_are_those_kept_by_hand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    load = drawn(rng, int(rng.integers(1, 8)))
    truth = TrueState(load, ap.Cluster(GPUS, prices_per_gpu_hour={"k80": 1.0, "v100": 3.0}))
    jobs = load.jobs.reset_index(drop=True)
    left: dict[int, float] = dict(enumerate(jobs["total_steps"].tolist()))
    isolated_s, held_s = dict.fromkeys(left, 0.0), {(j, k): 0.0 for j in left for k in range(2)}
    active, done = list[int](), list[int]()
    for now_s in (0.0, 5.0, 10.3, 15.0, 20.7, 30.0, 40.0):
        new = [j for j in left if jobs["arrival_s"][j] <= now_s and j not in [*active, *done]]
        assert truth.admit(now_s).tolist() == new
        active += new
        later = [at for at in jobs["arrival_s"] if at > now_s]
        assert truth.next_arrival_s == min(later, default=math.inf)
        for job in active:
            steps, kind, seconds = left[job] * rng.uniform(0, 0.3), int(rng.integers(2)), now_s + 1
            times = int(rng.choice([1, 3]))
            truth.work(np.array([job]), np.array([steps]), times=times)
            truth.hold(
                *(np.array([job]), np.array([kind]), np.array([seconds])),
                np.array([2 * seconds]),
                times=times,
            )
            left[job] -= steps * times
            isolated_s[job] += steps * times / isolated_rate(load, job, len(active))
            held_s[job, kind] += seconds * times
        if rng.random() < 0.4 and active:
            gone = active.pop(int(rng.integers(len(active))))
            isolated_s[gone] += left[gone] / isolated_rate(load, gone, len(active) + 1)
            left[gone] = 0.0
            truth.complete(np.array([gone]), np.array([now_s]))
            assert truth.completion_s[gone] == now_s
            done.append(gone)
        assert truth.active.tolist() == truth.told.active.tolist() == sorted(active)
        assert (truth.done, truth.left, truth.idle) == (
            len(done),
            len(left) - len(done),
            not active,
        )
        share = [1 - left[j] / jobs["total_steps"][j] for j in [*active, *done]]
        assert truth.fraction_done == pytest.approx(sum(share) / len(left))
        np.testing.assert_allclose(truth.remaining, list(left.values()))
        np.testing.assert_allclose(truth.isolated_s, list(isolated_s.values()))
        np.testing.assert_allclose(truth.held_s.ravel(), list(held_s.values()))
        np.testing.assert_allclose(truth.gpu_s, 2 * truth.held_s)


def test_policies_are_told_of_active_jobs_only() -> None:
    load = drawn(np.random.default_rng(4), 6)
    truth = TrueState(load, ap.Cluster(GPUS))
    truth.admit(10.3)
    here = load.jobs.reset_index(drop=True).loc[lambda jobs: jobs["arrival_s"] <= 10.3]
    gone, first = here.index[0], here.index[1]
    truth.complete(np.array([gone]), np.array([11.0]))
    truth.work(np.array([first]), np.array([40.0]))
    truth.hold(np.array([first]), np.array([1]), np.array([90.0]), np.array([90.0]))
    here = here.drop(index=gone)
    columns = truth.told.columns(50.0)
    for name in ("arrival_s", "weight", "total_steps"):
        assert columns[name].tolist() == here[name].tolist()
    assert columns["elapsed_s"].tolist() == (50.0 - here["arrival_s"]).tolist()
    assert columns["order"].tolist() == here.index.tolist()
    left = here["total_steps"] - 40.0 * (here.index == first)
    np.testing.assert_allclose(columns["steps_remaining"], left)
    # Dally's priority: the least time of the steps done over the time that they took.
    fastest = load.throughputs.to_numpy().max(axis=1)[first]
    expected = [40.0 / fastest / 90.0 if job == first else 0.0 for job in here.index]
    np.testing.assert_allclose(columns["network_priority"], expected)
    names = [truth.told.entities[int(code)] for code in columns["entity"]]
    assert names == here["entity"].tolist()
    assert np.isnan(columns["deadline_s"]).all()


def test_arrivals_are_heard_of_at_ticks_and_not_before() -> None:
    load = drawn(np.random.default_rng(4), 6)
    truth = TrueState(load, ap.Cluster(GPUS), tick_s=0.5)
    at_once = int((load.jobs["arrival_s"] == 0).sum())
    assert truth.admit(0.0).size == at_once
    assert truth.next_arrival_s in (10.5, 21.0)
    assert truth.admit(truth.next_arrival_s - 1e-6).size == 0
    assert truth.admit(truth.next_arrival_s).size > 0


@pytest.mark.parametrize("seed", range(5))
def test_who_knows_no_types_believes_the_geometric_mean(seed: int) -> None:
    load = drawn(np.random.default_rng(seed), 6)
    cluster = ap.Cluster(GPUS)
    truth = TrueState(load, cluster)
    told = Told().start(truth, load, cluster)
    np.testing.assert_array_equal(told.speed, load.throughputs.to_numpy())
    blind = Agnostic().start(truth, load, cluster)
    for true, believed in zip(truth.speed.tolist(), blind.speed.tolist(), strict=True):
        mean = geometric_mean([speed for speed in true if speed])
        assert believed == pytest.approx([mean if speed else 0.0 for speed in true])
    one = np.zeros(1, dtype=np.intp)
    for beliefs in (told, blind):
        before = beliefs.speed.copy()
        gangs = Gangs(one, one, one, one + 1)
        assert beliefs.observe(gangs, np.array([9.0]), np.array([60.0])).size == 0
        np.testing.assert_array_equal(beliefs.speed, before)
        assert not beliefs.spread(np.arange(6)).any()
