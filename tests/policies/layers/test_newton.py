"""Optima of curved programs to rounding errors: closed forms, and what interior points stop at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.policies.solving.canonical import canonicalise
from apportion.policies.solving.highs import optimise
from apportion.policies.solving.solvers.clarabel_interior_point import PowerChain
from apportion.policies.solving.solvers.newton import polish

if TYPE_CHECKING:
    from collections.abc import Callable

Case = tuple[cp.Variable, cp.Problem, Any]


def roots(a: Any) -> Case:
    """The most of ``sum sqrt(x)`` on ``a'x <= 1``: x in proportion to 1/a**2."""
    x = cp.Variable(a.size)
    return x, cp.Problem(cp.Maximize(cp.sum(cp.sqrt(x))), [a @ x <= 1]), a**-2.0 / (1 / a).sum()


def powers(a: Any) -> Case:
    """The same of fourth roots, as power cones: x in proportion to a**(-4/3)."""
    x = cp.Variable(a.size)
    goal = cp.sum(cp.power(x, 0.25, approx=False))
    best = a ** (-4 / 3)
    return x, cp.Problem(cp.Maximize(goal), [a @ x <= 1]), best / (a @ best)


def _all(*constraints: Any) -> list[Any]:
    """Return constraints, which type checkers take for truths."""
    return list(constraints)


def logarithms(a: Any) -> Case:
    """The most of ``sum a log(x)`` on the simplex: x in proportion to a."""
    x = cp.Variable(a.size)
    return x, cp.Problem(cp.Maximize(a @ cp.log(x)), _all(cp.sum(x) <= 1, x >= 0)), a / a.sum()


def ball(a: Any) -> Case:
    """The most of ``a'x`` in a ball: its multiple on the boundary."""
    x = cp.Variable(a.size)
    return x, cp.Problem(cp.Maximize(a @ x), [cp.norm2(x) <= 1]), a / np.linalg.norm(a)


def cube(a: Any) -> Case:
    """The least ``sum (a x)**3`` with sum 1: x in proportion to a**(-3/2)."""
    x = cp.Variable(a.size)
    goal = cp.sum(cp.power(cp.multiply(a, x), 3))
    best = a**-1.5
    return x, cp.Problem(cp.Minimize(goal), _all(cp.sum(x) == 1, x >= 0)), best / best.sum()


def determinant(a: Any) -> Case:
    """The most of ``log det diag(x)`` on ``a'x <= 1``: x in proportion to 1/a."""
    x = cp.Variable(a.size)
    return x, cp.Problem(cp.Maximize(cp.log_det(cp.diag(x))), [a @ x <= 1]), 1 / a / a.size


def eigenvalue(a: Any) -> Case:
    """The most of the least eigenvalue of ``diag(a x)`` with sum 1: all are equal."""
    x = cp.Variable(a.size)
    goal = cp.lambda_min(cp.diag(cp.multiply(a, x)))
    return x, cp.Problem(cp.Maximize(goal), _all(cp.sum(x) == 1, x >= 0)), 1 / a / (1 / a).sum()


def squares(a: Any) -> Case:
    """The nearest point of a simplex to one of which some are below zero."""
    x, far = cp.Variable(a.size), a - a.mean()
    ordered = np.sort(far)[::-1]
    over = (np.cumsum(ordered) - 1) / np.arange(1, a.size + 1)
    best = np.maximum(far - over[np.flatnonzero(ordered > over)[-1]], 0)
    return x, cp.Problem(cp.Minimize(cp.sum_squares(x - far)), _all(cp.sum(x) == 1, x >= 0)), best


@pytest.mark.parametrize("seed", each_seed(2, 20))
@pytest.mark.parametrize(
    "posed", [roots, powers, logarithms, ball, cube, determinant, eigenvalue, squares]
)
def test_closed_forms_are_met_to_rounding_errors(posed: Callable[[Any], Case], seed: int) -> None:
    a = np.random.default_rng(seed).uniform(0.3, 3.0, 4)
    x, problem, best = posed(a)
    program = canonicalise(problem)
    found = polish(program, optimise(program))
    start = program.columns[x.id]
    np.testing.assert_allclose(found.x[start : start + 4], best, atol=1e-12)
    missing = program.P @ found.x + program.c + program.A.T @ found.y
    assert np.abs(missing).max() <= 1e-12


def test_what_a_linear_program_is_and_what_cannot_be_told_stay() -> None:
    x = cp.Variable(2, nonneg=True)
    linear = canonicalise(cp.Problem(cp.Maximize(cp.sum(x)), _all(x <= 1)))
    point = optimise(linear)
    assert polish(linear, point) is point
    curved = canonicalise(cp.Problem(cp.Maximize(cp.sum(cp.sqrt(x))), _all(cp.sum(x) <= 1)))
    elsewhere = optimise(curved).at(np.full(curved.c.size, -1.0), np.zeros(curved.b.size))
    assert polish(curved, elsewhere) is elsewhere


class LeastEigenvalue(ap.Policy):
    """A matrix that no idle share would change for the worse: what is left is to be spent."""

    name = "least_eigenvalue"
    source = "a test"

    def objective(self, p: Any) -> cp.Maximize:
        return cp.Maximize(cp.lambda_min(cp.diag(p.time) + 0.1))


def test_matrices_leave_nothing_idle() -> None:
    """Jobs that share a GPU decide on the least eigenvalue; who has one alone still gets it all."""
    speed = [[1.0, 0.0]] * 3 + [[0.0, 1.0]]
    found = ap.solve(LeastEigenvalue(), speed, workers=[1, 1])
    np.testing.assert_allclose(found.X, [[1 / 3, 0]] * 3 + [[0, 1]], atol=1e-9)


def test_power_cones_in_chains_have_the_same_optimum() -> None:
    """A geometric mean with weights, of which the best shares are known, as cones of two sides."""
    weight, price = np.array([3.0, 1.0, 2.0, 2.0]), np.array([1.0, 2.0, 0.5, 4.0])
    x = cp.Variable(4)
    goal = cp.geo_mean(x, weight.tolist(), approx=False)
    program = canonicalise(cp.Problem(cp.Maximize(goal), [price @ x <= 1]))
    chain = PowerChain.of(program)
    assert chain is not None
    assert {cone.size for cone in chain.program.cones} == {3}
    found = polish(program, chain.back(optimise(chain.program), program))
    start = program.columns[x.id]
    np.testing.assert_allclose(found.x[start : start + 4], weight / 8 / price, atol=1e-12)
    missing = program.c + program.A.T @ found.y
    assert np.abs(missing).max() <= 1e-12
    assert PowerChain.of(chain.program) is None
