"""Optima of curved objectives to rounding errors: closed forms, and what interior points leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import each_seed

import apportion as ap

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Sum(ap.Policy):
    """The most of a sum over jobs of a curve of their throughput."""

    name = "sum_of_curves"
    curve: Callable[[Any], Any] = cp.sqrt

    def objective(self, p: Any) -> cp.Maximize:
        return cp.Maximize(p.total(self.curve(p.throughput)))


@pytest.mark.parametrize("seed", each_seed(3, 20))
@pytest.mark.parametrize(
    ("curve", "power"),
    [
        (cp.sqrt, 1.0),
        (lambda u: cp.power(u, 0.25, approx=False), 1 / 3),
        (cp.log, 0.0),
        (lambda u: -cp.inv_pos(u), -0.5),
    ],
    ids=["roots", "powers", "logarithms", "inverses"],
)
def test_closed_forms_are_met_to_rounding_errors(
    curve: Callable[[Any], Any], power: float, seed: int
) -> None:
    """Jobs share a GPU so that a little more time is worth as much to each."""
    speed = np.random.default_rng(seed).uniform(0.3, 3.0, 4)
    found = ap.solve(Sum(curve), speed[:, None].tolist(), workers=[1])
    share = speed**power / (speed**power).sum()
    np.testing.assert_allclose(found.X.to_numpy()[:, 0], share, atol=1e-10)


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
