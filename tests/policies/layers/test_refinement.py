"""Linear programs beyond the tolerances of a solver: to rounding errors, and without any."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog
from tests.seeds import ranges_of_seeds

from apportion.errors import SolveError
from apportion.policies.solving.canonical import canonicalise
from apportion.policies.solving.solvers.highs import PersistentHighs
from apportion.policies.solving.solvers.iterative_refinement import refine
from apportion.policies.solving.worst_off.exact_filling import ExactSimplex
from apportion.policies.solving.worst_off.fixed_point import fixed, floats, product, quotient


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


@pytest.mark.parametrize("seeds", ranges_of_seeds(20, 500))
def test_the_exact_simplex_method_finds_what_scipy_does(seeds: range) -> None:
    """Drawn programs, some without any point; each is solved twice, from where the first ended."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        columns, rows, equal = (int(rng.integers(*ends)) for ends in ((1, 7), (1, 7), (0, 3)))
        A = rng.integers(-3, 6, (rows, columns)).astype(float)
        b, c = rng.integers(-2, 10, rows).astype(float), rng.integers(-3, 4, columns).astype(float)
        E = rng.integers(-2, 4, (equal, columns)).astype(float)
        f = rng.integers(0, 4, equal).astype(float)
        least = float(rng.choice([0.0, -5.0]))
        x, z = cp.Variable(columns), cp.Variable()
        limits = [A @ x <= b, z <= c @ x, x <= 10, x >= least, *([E @ x == f] if equal else [])]
        program = canonicalise(cp.Problem(cp.Maximize(z), limits))
        column = program.columns[z.id]
        simplex = ExactSimplex(program, column)
        entries = program.A[simplex.row][:, [column]].toarray().ravel()
        equations: Any = (E, f) if equal else (None, None)
        theirs: Any = linprog(-c, A, b, equations[0], equations[1], bounds=(least, 10))
        for _ in range(2):
            if theirs.status != 0:
                with pytest.raises(SolveError, match="No point"):
                    simplex.maximise(entries, fixed(program.b[simplex.row]))
                continue
            most, dual = simplex.maximise(entries, fixed(program.b[simplex.row]))
            assert floats(most)[0] == pytest.approx(-theirs.fun, abs=1e-9), seed
            assert floats(dual) @ program.b[simplex.row] == pytest.approx(-theirs.fun, abs=1e-9)
            assert (floats(dual)[~program.equality[simplex.row]] >= 0).all()


def test_fixed_point_numbers_are_floats_to_the_last_bit() -> None:
    numbers = np.array([1.5, -2.25, 0.1, 1e-30, -1e30, 0.0])
    np.testing.assert_array_equal(floats(fixed(numbers)), numbers)
    np.testing.assert_array_equal(floats(product(fixed(numbers), fixed(numbers))), numbers**2)
    halves = quotient(fixed(numbers), fixed(np.full(6, 2.0)))
    np.testing.assert_array_equal(floats(halves), numbers / 2)
