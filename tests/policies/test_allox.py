from __future__ import annotations

import itertools

import numpy as np
import pytest

import apportion as ap
from apportion.policies import AlloX, Instance, Problem, solve_instance
from apportion.policies.allox import best_matching, matching_problem


def instance(seed: int, jobs: int, gpus: list[int]) -> Instance:
    rng = np.random.default_rng(seed)
    speed = rng.uniform(1, 10, (jobs, len(gpus)))
    speed[rng.random(speed.shape) < 0.2] = 0.0
    speed[:, 0] = np.maximum(speed[:, 0], 0.5)
    columns = {"steps_remaining": rng.uniform(1e3, 1e5, jobs)}
    return Instance.of_jobs(speed, np.ones(jobs), gpus, columns=columns)


@pytest.mark.parametrize("seed", range(8))
def test_matching_equals_its_linear_program(seed: int) -> None:
    p = Problem(instance(seed, 6, [1, 2]))
    problem = matching_problem(p, places=6)
    problem.solve(solver="HIGHS")
    cost, _ = best_matching(p)
    assert cost == pytest.approx(problem.value, rel=1e-9)


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
    assert best_matching(p)[0] == pytest.approx(best, rel=1e-9)


def test_only_the_first_of_each_queue_runs() -> None:
    X = solve_instance(AlloX(), instance(1, 9, [2, 1])).X
    np.testing.assert_allclose(X.sum(axis=0), [2, 1])
    assert set(np.unique(X.round(9))) == {0.0, 1.0}


def test_gangs_are_refused() -> None:
    wide = Instance.of_jobs([[1.0]], [2], [4], columns={"steps_remaining": np.ones(1)})
    with pytest.raises(ap.InputError, match="single-GPU"):
        solve_instance(AlloX(), wide)
