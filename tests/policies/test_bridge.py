from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pytest

from apportion.errors import InputError
from apportion.policies import WarmProblem
from apportion.policies.solving.canonical import canonicalise
from apportion.policies.solving.solvers.active_set_least_squares import least_squares

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
