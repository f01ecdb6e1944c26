"""The most even shares of tied jobs, against a quadratic program."""

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.policies.solving.solvers.even_ties import Indifferent


@pytest.mark.parametrize("seed", each_seed(15, 40))
def test_shares_are_the_most_even_that_fill_what_is_left(seed: int) -> None:
    rng = np.random.default_rng([41, seed])
    jobs, types = int(rng.integers(1, 7)), int(rng.integers(2, 5))
    row, may = np.zeros((jobs, types + 1)), rng.random((jobs, types + 1)) < 0.8
    row[:, 1:] = rng.choice([rng.uniform(0.2, 1.0, types), rng.uniform(0.2, 1.0, types)], jobs)
    gpus, room = rng.choice([1.0, 2.0, 4.0], jobs), rng.choice([2.0, 3.0, 8.0], types)
    may[np.arange(jobs), rng.integers(1, types + 1, jobs)] = True
    X = np.where(may, rng.exponential(size=may.shape) * (rng.random(may.shape) < 0.8) + 1e-3, 0.0)
    X /= X.sum(axis=1, keepdims=True)
    type_of, full = np.eye(types + 1)[:, 1:], np.ones(types, dtype=bool)
    wanted, left = (row * X).sum(axis=1), gpus @ X @ type_of
    there = np.append(0.0, room)
    exact = np.zeros(jobs, dtype=bool)
    found = Indifferent(row, wanted, gpus, may, exact).evenest(type_of, there, left, full)
    assert found is not None
    share = cp.Variable(may.shape, nonneg=True)
    uneven = cp.sum(cp.multiply(gpus[:, None] / room, cp.square(share[:, 1:])))
    limits = [cp.sum(share, axis=1) == 1, cp.sum(cp.multiply(row, share), axis=1) == wanted]
    limits += [gpus @ share @ type_of == left, cp.multiply(~may, share) == 0]
    cp.Problem(cp.Minimize(uneven), limits).solve(solver=cp.CLARABEL)
    assert share.value is not None
    np.testing.assert_allclose(found, share.value, rtol=0, atol=1e-5)
