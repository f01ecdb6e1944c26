"""Refinement brings an optimum that is met to 1e-9 to rounding errors."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from apportion.policies.solving.solvers.cone_program import canonicalise
from apportion.policies.solving.solvers.highs import PersistentHighs
from apportion.policies.solving.solvers.iterative_refinement import refine


@pytest.mark.parametrize("error", [1e-9, -1e-9, 1e-7])
def test_optimum_by_hand_is_found_to_the_last_bits(error: float) -> None:
    """The lines x + 2 y = 1 and 3 x + y = 1 meet at (1/5, 2/5); their prices are 2/5 and 1/5."""
    v = cp.Variable(2)
    limits = [np.array([[1.0, 2.0], [3.0, 1.0]]) @ v <= 1, v >= 0]
    program = canonicalise(cp.Problem(cp.Maximize(cp.sum(v)), limits))
    point = PersistentHighs(program).solve()
    off = replace(point, x=point.x + error * np.array([1.0, -2.0]), y=point.y * (1 + error))
    found = refine(program, off)
    np.testing.assert_allclose(found.x, [0.2, 0.4], rtol=1e-13)
    np.testing.assert_allclose(found.y[:2], [0.4, 0.2], rtol=1e-13)
