from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pytest

from apportion.policies.core.even import least_squares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def numbers(value: Any) -> Floats:
    return np.asarray(value, dtype=float)


@pytest.mark.parametrize("seed", range(6))
def test_the_active_set_finds_the_least_squares_that_clarabel_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 12
    equal, below = rng.random((2, size)), rng.random((5, size))
    inside = rng.random(size) * (rng.random(size) < 0.6)
    weight = rng.uniform(0.1, 2.0, size)
    x = cp.Variable(size)
    shared: list[Any] = [x >= 0, equal @ x == equal @ inside, below @ x <= below @ inside + 0.05]
    A = np.vstack([equal, below])
    b, is_equal = np.append(equal @ inside, below @ inside + 0.05), np.arange(7) < 2
    found = least_squares(weight, A, b, is_equal, inside)
    cp.Problem(cp.Minimize(weight @ cp.square(x)), shared).solve(
        solver=cp.CLARABEL, tol_gap_rel=1e-12, tol_gap_abs=1e-12, tol_feas=1e-12
    )
    np.testing.assert_allclose(found, numbers(x.value), atol=1e-5)
    assert weight @ found**2 <= weight @ numbers(x.value) ** 2 + 1e-9
