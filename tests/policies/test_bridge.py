from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.errors import InputError
from apportion.policies.solving.canonical import canonicalise
from apportion.policies.solving.solvers.active_set_least_squares import least_squares
from apportion.policies.solving.solvers.highs import PersistentHighs
from apportion.policies.solving.solvers.parametric_program import ParametricProgram
from apportion.policies.solving.solvers.warm_highs import WarmProblem, WarmSolver

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.cone import ConeProgram, Point

    Floats = NDArray[np.float64]


def numbers(value: Any) -> Floats:
    return np.asarray(value, dtype=float)


class Mix:
    """A blending problem with parameters in the matrix, the limits and the cost."""

    def __init__(self, sense: type[cp.Maximize] | type[cp.Minimize] = cp.Maximize) -> None:
        self.rng = np.random.default_rng(3)
        self.use = cp.Parameter((6, 4), nonneg=True, value=self.rng.uniform(0.5, 1.5, (6, 4)))
        self.stock = cp.Parameter(6, value=self.rng.uniform(1.0, 2.0, 6))
        self.gain = cp.Parameter(4, value=self.rng.uniform(1.0, 2.0, 4))
        self.x = cp.Variable(4)
        least = cp.sum(self.x) >= 0.3
        self.constraints: list[Any] = [self.use @ self.x <= self.stock, self.x >= 0, least]
        self.constraints.append(self.x[0] + self.x[3] == 0.4)
        self.problem = cp.Problem(sense(self.gain @ self.x), self.constraints)

    def change(self) -> None:
        use, stock, gain = (
            numbers(each.value).copy() for each in (self.use, self.stock, self.gain)
        )
        use[self.rng.integers(6), self.rng.integers(4)] = self.rng.uniform(0.5, 1.5)
        stock[self.rng.integers(6)] = self.rng.uniform(1.0, 2.0)
        gain[self.rng.integers(4)] = self.rng.uniform(1.0, 2.0)
        self.use.value, self.stock.value, self.gain.value = use, stock, gain


def program_of(matrix: Any, limit: Any, cost: Any) -> ConeProgram:
    """Minimise cost x such that matrix x <= limit, x >= 0."""
    x = cp.Variable(len(cost))
    return canonicalise(cp.Problem(cp.Minimize(cost @ x), [matrix @ x <= limit, x >= 0]))


@pytest.mark.parametrize("sense", [cp.Maximize, cp.Minimize], ids=["max", "min"])
def test_values_and_duals_are_those_of_cvxpys_own_solve(
    sense: type[cp.Maximize] | type[cp.Minimize],
) -> None:
    mix = Mix(sense)
    warm = WarmProblem(mix.problem)
    for _ in range(8):
        value = warm.solve()
        x, duals = numbers(mix.x.value), [numbers(each.dual_value) for each in mix.constraints]
        assert mix.problem.status == cp.OPTIMAL
        assert mix.problem.value == value
        assert value == pytest.approx(mix.problem.solve(solver=cp.CLARABEL), rel=1e-7)
        np.testing.assert_allclose(x, numbers(mix.x.value), atol=1e-6)
        for own, each in zip(duals, mix.constraints, strict=True):
            np.testing.assert_allclose(own, numbers(each.dual_value), atol=1e-6)
        mix.change()


def test_new_values_are_a_few_changes_of_a_loaded_program() -> None:
    mix = Mix()
    warm = WarmProblem(mix.problem)
    warm.solve()
    assert warm.changed == -1
    warm.solve()
    assert warm.changed == 0
    mix.change()
    warm.solve()
    assert 1 <= warm.changed <= 3


def test_seconds_of_runs_before_do_not_count_against_a_budget() -> None:
    program = program_of(np.ones((1, 2)), [1.0], np.array([-1.0, -2.0]))
    highs, spent_s = PersistentHighs(program, presolve=False), 0.0
    for run in range(9):
        spent_s = highs._solver.getRunTime()
        highs.change_costs(np.array([run % 2]), np.array([-3.0 - run % 7]))
        assert highs.solve(budget_s=60.0).status == "optimal"
        assert highs._solver.getOptionValue("time_limit")[1] == spent_s + 60.0
    assert spent_s > 0.0


def test_a_run_that_is_out_of_time_says_so_and_another_method_has_a_try() -> None:
    rng = np.random.default_rng(0)
    program = program_of(rng.random((20, 10)), np.ones(20), -rng.random(10))
    assert PersistentHighs(program, presolve=False).solve(budget_s=0.0).status != "optimal"
    solver = WarmSolver(program)
    point = solver.solve(budget_s=0.0)
    assert (point.status, solver.restarts) == ("optimal", 1)
    exact = PersistentHighs(program).solve()
    assert program.value(point.x) == pytest.approx(program.value(exact.x), rel=1e-7)
    assert solver.solve().solver == "highs"


def test_entries_in_other_places_are_passed_on_with_the_basis() -> None:
    before = program_of(np.array([[1.0, 0.0, 2.0]]), [1.0], np.array([-1.0, -1.0, -3.0]))
    moved = program_of(np.array([[0.0, 1.0, 2.0]]), [1.0], np.array([-1.0, -1.0, -3.0]))
    moved = replace(moved, c=np.array([1.0, -1.0, -3.0]))
    highs = PersistentHighs(before, presolve=False)
    highs.solve()
    assert highs.update(moved) == -1
    assert highs.loads == 2
    assert moved.value(highs.solve().x) == pytest.approx(-1.5)


def test_an_optimum_that_is_none_is_noticed_and_solved_from_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    program = program_of(rng.random((5, 4)) + 0.1, np.ones(5), -rng.random(4))
    truthful, calls = PersistentHighs.solve, []

    def off_by_a_little(self: PersistentHighs, budget_s: float | None = None) -> Point:
        point = truthful(self, budget_s)
        calls.append(1)
        return replace(point, x=point.x * (1 - 1e-7)) if len(calls) == 1 else point

    monkeypatch.setattr(PersistentHighs, "solve", off_by_a_little)
    solver = WarmSolver(program)
    point = solver.solve()
    assert (len(calls), solver.restarts) == (2, 1)
    assert solver.error <= 1e-9
    np.testing.assert_allclose(point.x, PersistentHighs(program).solve().x)


@pytest.mark.parametrize("name", ["factor", "limit"])
def test_a_bound_that_stops_being_one_is_loaded_anew(name: str) -> None:
    factor, limit = cp.Parameter(value=1.0), cp.Parameter(value=0.0)
    x = cp.Variable(2)
    kept: list[Any] = [factor * x[0] >= limit, x[1] >= 0, x <= 3, x >= -2]
    problem = cp.Problem(cp.Minimize(x[0] + x[1]), kept)
    warm = WarmProblem(problem)
    assert warm.solve() == pytest.approx(0.0)
    if name == "factor":
        factor.value = -1.0
    else:
        limit.value = 0.5
    assert warm.solve() == pytest.approx(-2.0 if name == "factor" else 0.5)
    assert warm.changed == -1
    duals = [numbers(each.dual_value) for each in kept]
    problem.solve(solver=cp.CLARABEL)
    for own, each in zip(duals, kept, strict=True):
        np.testing.assert_allclose(own, numbers(each.dual_value), atol=1e-6)


def test_infeasible_and_unbounded_are_told_as_cvxpy_tells_them_and_pass() -> None:
    gain, limit = cp.Parameter(value=1.0), cp.Parameter(value=1.0)
    x = cp.Variable()
    problem = cp.Problem(cp.Minimize(gain * x), [x >= 0, x >= limit, x - cp.abs(0) <= 10 * gain])
    warm = WarmProblem(problem)
    assert warm.solve() == pytest.approx(1.0)
    limit.value = 20.0
    assert (warm.solve(), problem.status, x.value) == (np.inf, cp.INFEASIBLE, None)
    limit.value = 2.0
    assert warm.solve() == pytest.approx(2.0)
    free = cp.Variable()
    slope = cp.Parameter(value=1.0)
    line = cp.Problem(cp.Minimize(slope * free), [free >= 0])
    other = WarmProblem(line)
    assert other.solve() == pytest.approx(0.0)
    slope.value = -1.0
    assert (other.solve(), line.status) == (-np.inf, cp.UNBOUNDED)


def test_only_linear_programs_are_kept_warm() -> None:
    x = cp.Variable(2)
    with pytest.raises(InputError, match="linear program"):
        WarmProblem(cp.Problem(cp.Minimize(cp.sum_squares(x)), [x >= 1])).solve()
    whole = cp.Variable(2, integer=True)
    with pytest.raises(InputError, match="linear program"):
        WarmProblem(cp.Problem(cp.Minimize(cp.sum(whole)), [whole >= 1])).solve()


def test_what_is_set_aside_is_as_if_it_were_not_there() -> None:
    rng = np.random.default_rng(1)
    matrix, cost = rng.random((4, 3)) + 0.1, -rng.random(3) - 0.1
    whole = program_of(matrix, np.ones(4), cost)
    part = program_of(matrix[1:, [0, 2]], np.ones(3), cost[[0, 2]])
    highs = PersistentHighs(whole, presolve=False)
    before = highs.solve()
    highs.set_aside(np.array([1]), np.array([0, 5]))
    aside = highs.solve()
    np.testing.assert_allclose(aside.x[[0, 2]], PersistentHighs(part).solve().x, atol=1e-9)
    assert aside.x[1] == 0.0
    assert highs.optimality_error(aside)[0] <= 1e-9
    assert highs.there().A.shape == part.A.shape
    np.testing.assert_array_equal(highs.everywhere(highs.of_there(aside)).x, aside.x)
    highs.bring_back(np.array([1]), np.array([0, 5]))
    np.testing.assert_allclose(highs.solve().x, before.x, atol=1e-9)


def test_a_row_that_is_lifted_is_not_there_though_every_column_is() -> None:
    low = program_of(np.array([[1.0], [1.0]]), [1.0, 2.0], np.array([-1.0]))
    highs = PersistentHighs(low, presolve=False)
    highs.set_aside(np.zeros(0, dtype=int), np.array([0]))
    lifted = highs.solve()
    assert lifted.x == pytest.approx([2.0])
    there, inside = highs.there(), highs.of_there(lifted)
    assert (there.A @ inside.x <= there.b + 1e-9).all()
    assert inside.y.size == there.b.size == 2
    np.testing.assert_array_equal(highs.everywhere(inside).y, lifted.y)


def test_a_point_is_called_unique_only_where_no_other_is_as_good() -> None:
    corner = program_of(np.array([[1.0, 1.0]]), [1.0], np.array([-1.0, -2.0]))
    edge = program_of(np.array([[1.0, 1.0]]), [1.0], np.array([-1.0, -1.0]))
    assert PersistentHighs(corner).solve().unique
    assert not PersistentHighs(edge).solve().unique
    held = replace(edge, equality=np.array([False, True, False]))
    assert PersistentHighs(held).solve().unique


def test_a_parametric_program_is_what_cvxpy_makes_of_the_values() -> None:
    x, n = cp.Variable(4), cp.Parameter(3, nonneg=True, value=np.array([1.0, 2.0, 3.0]))
    matrix = np.arange(12.0).reshape(3, 4)
    limits: list[Any] = [
        x >= 0,
        cp.multiply(n, matrix @ x) <= n + 5,
        cp.sum(x) == 2,
        cp.min(x) >= -n[0],
    ]
    problem = cp.Problem(cp.Maximize(n @ (matrix @ x) + n[1]), limits)
    parametric = ParametricProgram.of(problem, n)
    for values in ([1.0, 2.0, 3.0], [4.0, 0.0, 7.5]):
        n.value = np.array(values)
        expected, found = canonicalise(problem), parametric.at(n.value)
        np.testing.assert_allclose(found.A.toarray(), expected.A.toarray(), atol=1e-12)
        np.testing.assert_allclose(found.b, expected.b, atol=1e-12)
        np.testing.assert_allclose(found.c, expected.c, atol=1e-12)
        assert found.offset == pytest.approx(expected.offset)


@pytest.mark.parametrize("seed", range(6))
def test_the_active_set_finds_the_least_squares_that_clarabel_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 12
    equal, below = rng.random((2, size)), rng.random((5, size))
    inside = rng.random(size) * (rng.random(size) < 0.6)
    weight = rng.uniform(0.1, 2.0, size)
    x = cp.Variable(size)
    shared: list[Any] = [x >= 0, equal @ x == equal @ inside, below @ x <= below @ inside + 0.05]
    program = canonicalise(cp.Problem(cp.Minimize(0), shared))
    found = least_squares(program, weight, inside)
    cp.Problem(cp.Minimize(weight @ cp.square(x)), shared).solve(
        solver=cp.CLARABEL, tol_gap_rel=1e-12, tol_gap_abs=1e-12, tol_feas=1e-12
    )
    assert found is not None
    np.testing.assert_allclose(found, numbers(x.value), atol=1e-5)
    assert weight @ found**2 <= weight @ numbers(x.value) ** 2 + 1e-9


@pytest.mark.parametrize("seed", each_seed(6, 20))
def test_columns_that_equalities_determine_change_nothing(seed: int) -> None:
    """Of a chain of equalities each determines a column; or one is told, and they follow."""
    rng = np.random.default_rng(seed)
    size, chained = 12, int(rng.integers(1, 6))
    chain = np.tril(rng.uniform(0.2, 1.0, (chained, size)), int(seed % 2))
    below, inside = rng.random((5, size)), rng.uniform(0.1, 1.0, size)
    weight = rng.uniform(0.1, 2.0, size)
    x = cp.Variable(size)
    shared: list[Any] = [x >= 0, chain @ x == chain @ inside, below @ x <= below @ inside + 0.05]
    told: list[Any] = [*shared, x[0] == inside[0]]
    for stated, known in ((told, None), (told, np.array([0])), (shared, np.array([0]))):
        program = canonicalise(cp.Problem(cp.Minimize(0), stated))
        found = least_squares(program, weight, inside, known=known)
        cp.Problem(cp.Minimize(weight @ cp.square(x)), told).solve(
            solver=cp.CLARABEL, tol_gap_rel=1e-12, tol_gap_abs=1e-12, tol_feas=1e-12
        )
        assert found is not None
        np.testing.assert_allclose(found, numbers(x.value), atol=1e-5)
        np.testing.assert_allclose(chain @ found, chain @ inside, atol=1e-12)
        assert weight @ found**2 <= weight @ numbers(x.value) ** 2 + 1e-9


def test_columns_told_that_miss_a_constraint_have_no_least_squares() -> None:
    x = cp.Variable(3)
    program = canonicalise(cp.Problem(cp.Minimize(0), [x >= 0, x[0] + x[1] == 1, x[1] <= 0.5]))
    told = np.array([2.0, 0.0, 0.0])
    assert least_squares(program, np.ones(3), told, known=np.array([0])) is None


def test_repeated_constraints_do_not_trouble_the_active_set() -> None:
    x = cp.Variable(3)
    twice: list[Any] = [x >= 0, cp.sum(x) == 1, 2 * cp.sum(x) == 2, cp.sum(x) <= 1]
    program = canonicalise(cp.Problem(cp.Minimize(0), twice))
    found = least_squares(program, np.ones(3), np.array([1.0, 0.0, 0.0]))
    assert found is not None
    np.testing.assert_allclose(found, 1 / 3, atol=1e-9)


def test_nothing_to_choose_is_solved_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    """LAPACK writes on the standard output that it does not like matrices without rows."""
    x = cp.Variable(3, nonneg=True)
    program = canonicalise(cp.Problem(cp.Minimize(0), [x <= 1]))
    assert least_squares(program, np.ones(3), np.zeros(3)) is not None
    assert capfd.readouterr() == ("", "")
