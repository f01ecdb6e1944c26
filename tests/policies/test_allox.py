from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.policies import AlloX, Instance, Problem, solve_instance
from apportion.policies.allox import best_matching

if TYPE_CHECKING:
    from apportion.types import Floats


def instance(seed: int, jobs: int, gpus: list[int]) -> Instance:
    rng = np.random.default_rng(seed)
    speed = rng.uniform(1, 10, (jobs, len(gpus)))
    speed[rng.random(speed.shape) < 0.2] = 0.0
    speed[:, 0] = np.maximum(speed[:, 0], 0.5)
    columns = {"steps_remaining": rng.uniform(1e3, 1e5, jobs)}
    return Instance.of_jobs(speed, np.ones(jobs), gpus, columns=columns)


def matching_by_types(p: Problem, places: int) -> cp.Problem:
    """State the matching of jobs with places of types as a linear program."""
    alone = p.instance.alone
    cost = np.divide(p.steps_remaining[:, None], alone, out=np.zeros_like(alone), where=alone > 0)
    chosen = [cp.Variable(alone.shape, nonneg=True) for _ in range(places)]
    total = sum((place + 1) * cp.sum(cp.multiply(cost, chosen[place])) for place in range(places))
    gpus = p.instance.capacity[: p.instance.accelerators]
    constraints: list[Any] = [cp.sum(sum(chosen), axis=1) == 1]
    constraints += [cp.sum(each, axis=0) <= gpus for each in chosen]
    constraints += [cp.multiply(alone == 0, each) == 0 for each in chosen]
    return cp.Problem(cp.Minimize(total), constraints)


def durations(p: Problem) -> Floats:
    """Seconds that each job needs on each GPU."""
    gpus = p.instance.capacity[: p.instance.accelerators].astype(int)
    with np.errstate(divide="ignore"):
        duration = p.steps_remaining[:, None] / p.instance.alone
    return np.repeat(duration, gpus, axis=1)


def least_cost(d: Floats) -> float:
    """Cost of the matching that the Hungarian method finds."""
    row, column = best_matching(d)
    assert len(set(row)) == len(set(column)) == len(d)
    place, gpu = np.divmod(column, d.shape[1])
    return float(((place + 1) * d[row, gpu]).sum())


@pytest.mark.parametrize("seed", range(8))
def test_the_hungarian_method_solves_the_linear_program(seed: int) -> None:
    p = Problem(instance(seed, 6, [1, 2]))
    by_types = matching_by_types(p, places=6)
    by_types.solve(solver="HIGHS")
    assert least_cost(durations(p)) == pytest.approx(by_types.value, rel=1e-9)


def test_total_completion_time_is_the_least_of_all_schedules() -> None:
    p = Problem(instance(3, 5, [1, 1]))
    duration = p.steps_remaining[:, None] / np.maximum(p.instance.alone, 1e-12)
    best = np.inf
    for where in itertools.product(range(2), repeat=5):
        total = 0.0
        for gpu in range(2):
            own = np.sort([duration[job, gpu] for job in range(5) if where[job] == gpu])
            total += float(np.cumsum(own).sum())
        best = min(best, total)
    assert least_cost(durations(p)) == pytest.approx(best, rel=1e-9)


def test_only_the_first_of_each_queue_runs() -> None:
    X = solve_instance(AlloX(), instance(1, 9, [2, 1])).X
    np.testing.assert_allclose(X.sum(axis=0), [2, 1])
    assert set(np.unique(X.round(9))) == {0.0, 1.0}


def test_gangs_are_refused() -> None:
    wide = Instance.of_jobs([[1.0]], [2], [4], columns={"steps_remaining": np.ones(1)})
    with pytest.raises(ap.InputError, match="single-GPU"):
        solve_instance(AlloX(), wide)


def simulated(policy: AlloX, cluster: str) -> ap.Run:
    workload = ap.generate_workload(jobs=30, seed=2, jobs_per_hour=12)
    return ap.simulate(policy, workload, cluster)


@pytest.mark.thorough
def test_running_jobs_keep_their_type_until_they_are_complete() -> None:
    kept, moved = (
        simulated(AlloX(keeps_running=each), "v100=2,p100=2,k80=2") for each in (True, False)
    )
    assert kept.jobs["preemptions"].sum() == 0
    assert moved.jobs["preemptions"].sum() > 0


def test_the_rest_is_matched_with_the_gpus_that_are_left() -> None:
    """Two of three jobs run, one of them on the type on which it is slower."""
    speed = pd.DataFrame({"v": [10.0, 4.0, 8.0], "k": [1.0, 1.0, 2.0]}, index=list("abc"))
    jobs = pd.DataFrame({"steps_remaining": 1e4, "running_on": ["k", "", "v"]}, index=speed.index)
    X = ap.solve("allox", speed, workers="v=2,k=1", jobs=jobs).X
    assert X.to_numpy().tolist() == [[0, 1], [1, 0], [1, 0]]
    free = ap.solve("allox", speed, workers="v=2,k=1", jobs=jobs.drop(columns="running_on")).X
    # c waits behind a, for which k is too slow: 1,000 + 2,500 + 2,250 s.
    assert free.to_numpy().tolist() == [[1, 0], [1, 0], [0, 0]]
    with pytest.raises(ap.InputError, match="'running_on'"):
        ap.solve("allox", speed, workers="v=2,k=1", jobs=jobs.assign(running_on="z"))


def test_no_job_runs_where_it_cannot_though_nothing_else_is_free() -> None:
    speed = pd.DataFrame({"v": [1.0, 1.0], "k": [1.0, 0.0]}, index=list("ab"))
    jobs = pd.DataFrame({"steps_remaining": 1e4, "running_on": ["v", ""]}, index=speed.index)
    X = ap.solve("allox", speed, workers="v=1,k=1", jobs=jobs).X
    assert X.to_numpy().tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("seed", each_seed(6, 20))
def test_the_order_of_types_changes_nothing_though_jobs_are_equal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speed = pd.DataFrame(
        rng.integers(1, 4, (3, 3))[rng.integers(0, 3, 7)].astype(float), columns=list("xyz")
    )
    jobs = pd.DataFrame({"steps_remaining": 1e4}, index=speed.index)
    gpus = dict(zip("xyz", rng.permutation([1, 2, 3]).tolist(), strict=True))
    speed += [0.0, 0.25, 0.5]  # no two types are the same
    X = ap.solve("allox", speed, workers=gpus, jobs=jobs).X
    turned = ap.solve("allox", speed[list("zxy")], workers={k: gpus[k] for k in "zxy"}, jobs=jobs).X
    pd.testing.assert_frame_equal(turned[list("xyz")], X)
