"""The corner with which levels of many jobs begin: it is one, next to the optimum."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.policies import Instance, get_policy, solve_instance
from apportion.policies.problem import Problem
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.cone import ConeProgram, rows_that_are_bounds
from apportion.policies.solving.demands import pose
from apportion.policies.solving.highs import PRIMAL, SIMPLEX, LoadedHighs
from apportion.policies.solving.solvers.first_basis import first_basis


def drawn(rng: np.random.Generator, jobs: int) -> Instance:
    """Draw jobs that are all different, of which some cannot run on some types."""
    types = int(rng.integers(1, 6))
    speed = rng.uniform(1.0, 50.0, (jobs, types)) * (rng.random((jobs, types)) > 0.15)
    speed[:, 0] += 1.0
    gpus = rng.choice([1.0, 2.0, 4.0, 8.0], jobs)
    room = rng.integers(0, 3 * jobs // types, types).astype(float)
    room[0] += 8.0
    steps = 10 ** rng.uniform(3.0, 5.0, jobs)
    return Instance.of_jobs(speed, gpus, room, columns={"steps_remaining": steps})


def program_of(instance: Instance) -> ConeProgram:
    """Compile the makespan."""
    return Compiled.of(*pose(get_policy("makespan"), instance)).program


@pytest.mark.parametrize("seed", each_seed(10, 300))
def test_it_is_a_corner_of_the_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = program_of(drawn(rng, int(rng.integers(100, 200))))
    bounds, _, _ = rows_that_are_bounds(program)
    found = first_basis(program, bounds)
    assert found is not None
    assert found.columns.sum() == found.tight.sum()
    system = program.A[np.flatnonzero(found.tight)][:, np.flatnonzero(found.columns)].toarray()
    x = np.zeros(program.c.size)
    x[found.columns] = np.linalg.solve(system, program.b[found.tight])
    left = program.b - program.A @ x
    assert left[~program.equality].min() >= -1e-9
    assert np.abs(left[program.equality]).max(initial=0.0) <= 1e-9


@pytest.mark.parametrize("seed", each_seed(10, 300))
def test_the_optimum_is_that_from_shares_of_zero_and_nearer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = program_of(drawn(rng, int(rng.integers(100, 200))))
    begun = LoadedHighs(program, options=PRIMAL)
    plain = LoadedHighs(program, options={**SIMPLEX, "presolve": "off"})
    one, other = begun.solve(), plain.solve()
    assert one.status == other.status == "optimal"
    assert program.c @ one.x == pytest.approx(program.c @ other.x, rel=1e-9)


def test_it_saves_most_of_the_pivots(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = drawn(np.random.default_rng(0), 200)
    pivots = list[int]()
    for known in (True, False):
        if not known:
            place = "apportion.policies.solving.highs.first_basis"
            monkeypatch.setattr(place, lambda *_: None)
        highs = LoadedHighs(program_of(instance), options=PRIMAL)
        highs.solve()
        pivots.append(highs._solver.getInfo().simplex_iteration_count)
    assert pivots[0] < 0.6 * pivots[1]


def test_other_programs_have_none() -> None:
    rng = np.random.default_rng(0)
    many = drawn(rng, 150)
    p = Problem(many)
    floors = p.throughput >= 1e-3 * many.fastest_throughput
    least = cp.Maximize(cp.min(p.throughput))
    others = [
        Compiled.of(p, least, [floors]).program,
        Compiled.of(Problem(many), cp.Maximize(cp.sum(p.X)), []).program,
    ]
    for program in others:
        assert first_basis(program, rows_that_are_bounds(program)[0]) is None


def test_shares_do_not_depend_on_the_order_of_jobs() -> None:
    rng = np.random.default_rng(3)
    told, policy = drawn(rng, 150), get_policy("makespan")
    order = rng.permutation(150)
    turned = told.subset(order, np.ones(150))
    one, other = solve_instance(policy, told), solve_instance(policy, turned)
    np.testing.assert_allclose(other.X, one.X[order], atol=1e-10)
