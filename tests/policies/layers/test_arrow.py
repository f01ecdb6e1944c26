# pyright: reportAttributeAccessIssue=false
# clarabel is a compiled module without stubs.
from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import clarabel
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog
from tests.seeds import each_seed

from apportion.policies import (
    FinishTimeFairness,
    Instance,
    Makespan,
    MaxMinFairness,
    solve_instance,
)
from apportion.policies.solving.solvers.arrow_corner import only_corner
from apportion.policies.solving.solvers.arrow_interior_point import further, solve_arrow
from apportion.policies.solving.solvers.arrow_kkt import (
    PAIRS,
    ArrowPoint,
    ArrowProgram,
    Eliminated,
    Residuals,
)
from apportion.policies.solving.worst_off.arrow_share import ArrowShare
from apportion.policies.solving.worst_off.common_share import DeclaredShare

if TYPE_CHECKING:
    from tests.policies.conftest import Bench

Floats = NDArray[np.float64]


def unlike(seed: int, jobs: int, types: int, *, heavy: bool = False) -> Instance:
    """Jobs of 26 kinds whose throughputs all differ by some percent."""
    rng = np.random.default_rng(seed)
    speed = rng.uniform(1, 20, (26, types)) * 10.0 ** rng.uniform(-1, 1, (26, 1))
    speed[rng.random((26, types)) < 0.1] = 0.0
    speed[:, 0] += 1.0
    speed = speed[rng.integers(0, 26, jobs)] * rng.uniform(0.9, 1.1, (jobs, types))
    gpus = rng.choice([1.0, 2.0, 4.0, 8.0], jobs, p=[0.7, 0.1, 0.15, 0.05])
    steps = 10.0 ** rng.uniform(0, 9, jobs) if heavy else rng.uniform(1e3, 1e5, jobs)
    columns = {"steps_remaining": steps, "weight": rng.choice([1.0, 2.0, 5.0], jobs)}
    return Instance.of_jobs(speed, gpus, np.full(types, gpus.sum() / types / 3), columns=columns)


def program_of(instance: Instance, demand: Floats) -> ArrowProgram:
    fastest = instance.fastest_throughput
    rate = demand / fastest
    return ArrowProgram(
        throughput=(instance.throughput / fastest[:, None]).T.copy(),
        usage=instance.columns["scale_factor"] / instance.capacity[:, None],
        resource=np.arange(instance.options),
        base=np.zeros(instance.jobs),
        rate=rate / rate.max(),
        reward=float(rate.sum() / rate.max()),
    )


def kkt_matrix(program: ArrowProgram, at: ArrowPoint) -> Floats:
    """Build the system as the module displays it, dense: needs, times, prices, the level."""
    options, jobs = program.throughput.shape
    own = np.eye(jobs)
    D = np.diag((1 / (at.cost / at.x + program.squares)).ravel())
    T, E = (np.hstack([own * row for row in rows]) for rows in (program.throughput, at.x * 0 + 1))
    U = np.zeros((program.resources, options * jobs))
    for option, resource in enumerate(program.resource):
        U[resource, option * jobs : (option + 1) * jobs] = program.usage[option]
    V, W, R = (np.diag(part) for part in (at.met / at.need, at.idle / at.time, at.free / at.price))
    nothing = np.zeros((jobs, 1)), np.zeros((program.resources, 1))
    rate = program.rate[:, None]
    return np.block(
        [
            [T @ D @ T.T + V, -T @ D @ E.T, -T @ D @ U.T, -rate],
            [E @ D @ T.T, -(E @ D @ E.T + W), -E @ D @ U.T, nothing[0]],
            [U @ D @ T.T, -U @ D @ E.T, -(U @ D @ U.T + R), nothing[1]],
            [rate.T, nothing[0].T, nothing[1].T, np.zeros((1, 1))],
        ]
    )


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_steps_solve_the_system_that_is_displayed(seed: int, shared: bool) -> None:
    rng = np.random.default_rng(seed)
    options, jobs = 4, 6
    resource = np.array([0, 1, 1, 0]) if shared else np.arange(options)
    cells, resources = (options, jobs), int(resource.max()) + 1
    throughput, usage = rng.uniform(0, 1, cells), rng.uniform(0.1, 1, cells)
    program = ArrowProgram(
        throughput=throughput,
        usage=usage,
        resource=resource,
        base=np.zeros(jobs),
        rate=rng.uniform(0.1, 1, jobs),
        squares=rng.uniform(0, 1, cells),
        reward=1.0,
    )
    x, cost = (rng.uniform(0.1, 1, cells) for _ in range(2))
    met, idle, need, time = (rng.uniform(0.1, 1, jobs) for _ in range(4))
    free, price = (rng.uniform(0.1, 1, resources) for _ in range(2))
    at = ArrowPoint(x, 0.7, met, idle, free, need, time, price, cost)
    need, time, capacity, stationary = (
        rng.normal(size=size) for size in (jobs, jobs, resources, cells)
    )
    missing = Residuals(need, time, capacity, stationary, 0.3)
    products = [rng.normal(size=getattr(at, a).shape) for a, _ in PAIRS]
    step = Eliminated(program, at).solve(missing, products)
    D = 1 / (at.cost / at.x + program.squares)
    pull = D * (missing.stationary + products[0] / at.x)
    right = [
        missing.need + products[1] / at.need - (throughput * pull).sum(axis=0),
        missing.time - products[2] / at.time - pull.sum(axis=0),
        missing.capacity - products[3] / at.price - program.held(usage * pull),
        [missing.level],
    ]
    solved = np.linalg.solve(kkt_matrix(program, at), np.concatenate(right))
    got = np.concatenate([step.need, step.time, step.price, [step.level]])
    np.testing.assert_allclose(got, solved, rtol=1e-8)
    slacks = zip(PAIRS, products, strict=True)
    for (slack, dual), product in slacks:  # the linearised products
        here = getattr(at, slack) * getattr(step, dual) + getattr(at, dual) * getattr(step, slack)
        np.testing.assert_allclose(here, product, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("types", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_levels_are_those_of_scipy(seed: int, types: int, bench: type[Bench]) -> None:
    problem = bench.random(seed, jobs=12, types=types)
    need = problem.columns["steps_remaining"]
    point = solve_arrow(program_of(problem.instance, need))
    unit = float((need / problem.fastest).max())
    assert point.error <= 1e-9
    assert point.level / unit == pytest.approx(problem.level(need), rel=1e-8)


@pytest.mark.parametrize("heavy", [False, True], ids=["even", "heavy-tailed"])
def test_thousands_of_unlike_jobs_are_solved_to_the_last_digits(heavy: bool) -> None:
    # The direct form of a job's block, which is not centred, breaks down on these.
    instance = unlike(0, 4096, 6, heavy=heavy)
    demand = instance.columns["steps_remaining"]
    found = ArrowShare(instance).optimum(demand / (demand / instance.fastest_throughput).max())
    assert found.bound - found.share <= 1e-8 * found.bound
    assert (found.X >= 0).all()
    assert (instance.columns["scale_factor"] @ found.X <= instance.capacity * (1 + 1e-9)).all()


def test_both_ways_to_a_common_share_agree(bench: type[Bench]) -> None:
    for seed in range(4):
        instance = replace(bench.random(seed, jobs=9, types=3), gpus=np.ones(9)).instance
        instance = replace(instance, capacity=np.array([1.0, 1.0, 2.0]))
        demand = instance.fastest_throughput * np.random.default_rng(seed).uniform(0.5, 1, 9)
        arrow, declared = ArrowShare(instance), DeclaredShare(instance, "highs")
        one, other = arrow.optimum(demand), declared.optimum(demand)
        assert one.share == pytest.approx(other.share, rel=1e-8)
        assert one.bound == pytest.approx(other.bound, rel=1e-8)
        np.testing.assert_allclose(one.prices, other.prices, atol=1e-6)
        np.testing.assert_allclose(arrow.chosen(), declared.chosen(), atol=1e-8)


def test_other_demands_are_written_into_the_compiled_problem(bench: type[Bench]) -> None:
    problem = bench.random(2, jobs=6, types=2)
    problem = replace(problem, gpus=np.ones(6), capacity=np.ones(2))
    share = DeclaredShare(problem.instance, "highs")
    for need in (problem.fastest, problem.equal_share):
        expected = min(problem.level(need), 1.0)
        assert share.optimum(need).share == pytest.approx(expected, rel=1e-8)


def test_a_share_of_demands_that_can_all_be_met_is_one(bench: type[Bench]) -> None:
    problem = replace(bench.random(3, jobs=5, types=2), capacity=np.array([90.0, 90.0]))
    for share in (ArrowShare(problem.instance), DeclaredShare(problem.instance, "auto")):
        found = share.optimum(problem.fastest * 0.5)
        assert found.share == pytest.approx(1.0, abs=1e-9)
        np.testing.assert_allclose(found.prices, 0.0, atol=1e-9)


def test_gains_and_squares_are_those_of_a_plain_quadratic_program() -> None:
    instance = unlike(1, 15, 3)
    program = program_of(instance, instance.fastest_throughput)
    rng = np.random.default_rng(0)
    program = replace(
        program,
        rate=np.zeros(15),
        base=np.full(15, 0.05),
        reward=0.0,
        gain=rng.uniform(0, 1, (3, 15)),
        squares=rng.uniform(0.1, 1, (3, 15)),
    )
    point = solve_arrow(program)
    np.testing.assert_allclose(point.x, _by_clarabel(program), atol=5e-5)


def _by_clarabel(program: ArrowProgram) -> Floats:
    options, jobs = program.throughput.shape
    cells = options * jobs
    own = sparse.hstack([sparse.eye_array(jobs)] * options)
    made = sparse.hstack([sparse.diags_array(row) for row in program.throughput])
    held = sparse.block_diag([row[None, :] for row in program.usage])
    A = sparse.csc_array(sparse.vstack([-made, own, held, -sparse.eye_array(cells)]))
    b = np.concatenate([-program.base, np.ones(jobs), np.ones(options), np.zeros(cells)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    P = sparse.csc_array(sparse.diags_array(np.asarray(program.squares).ravel()))
    cones = [clarabel.NonnegativeConeT(b.size)]
    solver = clarabel.DefaultSolver(P, -np.asarray(program.gain).ravel(), A, b, cones, settings)
    return np.asarray(solver.solve().x, dtype=float).reshape(options, jobs)


def test_options_that_draw_on_one_resource_share_it() -> None:
    # Two tiers of one type: 3 GPUs in all, whichever tier they serve.
    speed = np.array([[4.0, 2.0], [4.0, 1.0]])
    program = ArrowProgram(
        throughput=(speed / 4.0).T.copy(),
        usage=np.full((2, 2), 1.0),
        resource=np.zeros(2, dtype=np.intp),
        base=np.zeros(2),
        rate=np.ones(2),
        reward=2.0,
    )
    assert solve_arrow(program).level == pytest.approx(0.5, rel=1e-8)


@pytest.mark.parametrize("policy", [MaxMinFairness, Makespan])
def test_many_unlike_jobs_take_the_arrow_and_get_what_others_find(
    policy: type[MaxMinFairness | Makespan],
) -> None:
    instance = unlike(2, 450, 3)
    arrow = solve_instance(policy(), instance)
    assert arrow.stats["solver"] == "arrow"
    declared = solve_instance(policy(), instance, solver="highs")
    assert declared.stats["solver"] == "highs"
    assert arrow.objective == pytest.approx(declared.objective, rel=1e-8)
    assert arrow.gap <= 1e-8
    total, expected = (
        (solution.throughput / instance.equal_share_throughput).sum()
        for solution in (arrow, declared)
    )
    assert total == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(arrow.X, declared.X, atol=1e-9)
    np.testing.assert_allclose(arrow.prices, declared.prices, rtol=1e-4, atol=1e-8)


def test_the_arrow_is_asked_by_name(bench: type[Bench]) -> None:
    problem = bench.random(1, jobs=6, types=3)
    columns = problem.columns | {"elapsed_s": np.zeros(6), "isolated_elapsed_s": np.zeros(6)}
    problem = replace(problem, columns=columns)
    for policy in (MaxMinFairness(), Makespan(), FinishTimeFairness()):
        arrow = solve_instance(policy, problem.instance, solver="arrow")
        assert arrow.stats["solver"] == "arrow"
        other = solve_instance(policy, problem.instance)
        assert arrow.objective == pytest.approx(other.objective, rel=1e-8)
        np.testing.assert_allclose(arrow.X, other.X, atol=1e-8)


def mixed(seed: int) -> Instance:
    """Jobs that are all different, that repeat each other, or whose speeds tie."""
    rng = np.random.default_rng([7, seed])
    jobs, types = int(rng.integers(1, 40)), int(rng.integers(1, 6))
    speed = (
        rng.uniform(0.5, 20, (jobs, types)) * 10.0 ** rng.uniform(-4, 4, (jobs, 1)),
        rng.integers(1, 4, (jobs, types)).astype(float),
        rng.uniform(1, 5, (4, types))[rng.integers(0, 4, jobs)],
        rng.uniform(1, 5, (jobs, 1)) * rng.uniform(0.5, 2, types),
    )[seed % 4]
    gpus = rng.choice([1.0, 2.0, 4.0], jobs)
    capacity = rng.choice([4.0, 8.0, 100.0], types)
    columns = {"steps_remaining": 10.0 ** rng.uniform(2, 6, jobs)}
    return Instance.of_jobs(speed, gpus, capacity, columns=columns)


def ends_of_the_optima(program: ArrowProgram, toward: Floats) -> tuple[Floats, Floats]:
    """Optima of the level that lie farthest in a direction, and farthest against it, by scipy."""
    options, jobs = program.throughput.shape
    own = np.eye(jobs)
    T, E = (np.hstack([own * row for row in rows]) for rows in (program.throughput, toward * 0 + 1))
    U = np.kron(np.eye(options), np.ones(jobs)) * program.usage.ravel()
    A = np.block(
        [[-T, program.rate[:, None]], [E, np.zeros((jobs, 1))], [U, np.zeros((options, 1))]]
    )
    b = np.concatenate([np.zeros(jobs), np.ones(jobs + options)])
    exact: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    best: Any = linprog(np.append(np.zeros(toward.size), -1.0), A, b, options=exact)
    assert best.status == 0
    held = -best.ineqlin.marginals > 1e-9
    zero = best.lower.marginals > 1e-9
    bounds = [(0.0, 0.0 if each else None) for each in zero]
    found = []
    for sign in (1.0, -1.0):
        cost = np.append(sign * toward.ravel(), 0.0)
        end: Any = linprog(cost, A[~held], b[~held], A[held], b[held], bounds, options=exact)
        assert end.status == 0
        found.append(end.x[:-1].reshape(options, jobs))
    return found[0], found[1]


@pytest.mark.parametrize("seed", each_seed(12, 40))
def test_a_corner_that_is_found_is_the_only_optimum(seed: int) -> None:
    instance = mixed(seed)
    program = program_of(instance, instance.fastest_throughput)
    x = only_corner(program, solve_arrow(program))
    toward = np.random.default_rng(seed).uniform(0.5, 1.0, program.throughput.shape)
    one, other = ends_of_the_optima(program, toward)
    if x is not None:
        np.testing.assert_allclose(x, one, atol=1e-8)
        np.testing.assert_allclose(one, other, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_of_unlike_jobs_the_corner_is_found(seed: int) -> None:
    instance = unlike(seed, 200, 4)
    program = program_of(instance, instance.equal_share_throughput)
    assert only_corner(program, solve_arrow(program)) is not None


@pytest.mark.parametrize("seed", range(5))
def test_a_rough_point_leads_to_the_corner_in_a_few_steps(seed: int) -> None:
    instance = unlike(seed, 200, 4)
    program = program_of(instance, instance.equal_share_throughput)
    rough = solve_arrow(program, 1e-2)
    assert only_corner(program, rough) is None
    corners = (only_corner(program, at) for at in further(program, rough))
    x = next(each for each in corners if each is not None)
    np.testing.assert_allclose(x, ends_of_the_optima(program, x)[0], atol=1e-8)
