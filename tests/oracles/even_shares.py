"""The choice among equal optima from its definition: linear programs of scipy, squares of cvxpy.

Each objective in turn is optimised over the optima of those before. Where a linear program has a
dual value, every optimum of it is tight (complementary slackness): such rows and columns are fixed
before the next one. What is left has one point with the least squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Floats = NDArray[np.float64]

__all__ = ["even_shares"]

_DUAL = 1e-7
"""Dual value, beside others around 1, that is none."""


@dataclass
class _Face:
    """Points z >= 0 with ``G z <= h``, some rows tight and some columns zero."""

    G: Floats
    h: Floats
    tight: NDArray[np.bool_]
    zero: NDArray[np.bool_]

    def keep(self, gain: Floats) -> None:
        """Keep those with the largest gain."""
        loose = ~self.tight
        found = linprog(
            -gain / np.abs(gain).max(),
            A_ub=self.G[loose],
            b_ub=self.h[loose],
            A_eq=self.G[self.tight],
            b_eq=self.h[self.tight],
            bounds=[(0, 0 if zero else None) for zero in self.zero],
        )
        assert found.status == 0, found.message
        self.zero |= found.lower.marginals > _DUAL
        self.tight[np.flatnonzero(loose)] = found.ineqlin.marginals < -_DUAL

    def least_squares(self, weight: Floats) -> Floats:
        """Return the point with the least weighted squares."""
        z = cp.Variable(weight.size)
        root = np.sqrt(weight)
        limits = [self.G[self.tight] @ z == self.h[self.tight], z[self.zero] == 0, z >= 0]
        limits += [self.G[~self.tight] @ z <= self.h[~self.tight]]
        problem = cp.Problem(cp.Minimize(cp.sum_squares(cp.multiply(root, z))), limits)
        small = {f"tol_{name}": 1e-12 for name in ("feas", "gap_abs", "gap_rel")}
        problem.solve(cp.CLARABEL, **small, max_iter=500)
        assert problem.status == "optimal", problem.status
        return np.asarray(z.value, dtype=float)


def even_shares(
    speed: Floats, gpus: Floats, capacity: Floats, need: Floats, worth: Floats
) -> Floats:
    """Return the shares that a policy about the worst off job gives, shape of `speed`.

    Parameters
    ----------
    speed, gpus, capacity
        Steps/s, shape (jobs, types); GPUs of a job, and of a type.
    need
        Steps/s of each job at level 1; the level is to be as high as can be.
    worth
        Steps/s of each job that count 1 in the total that is spent then.
    """
    jobs, types = speed.shape
    cells = jobs * types
    own = np.kron(np.eye(jobs), np.ones((1, types)))
    fastest = speed.max(axis=1)
    unit = (need / fastest).max()
    made = own * (speed / fastest[:, None]).ravel()
    held = np.kron(gpus[None, :], np.eye(types)) / capacity[:, None]
    none = np.zeros
    of_level = np.concatenate([need / fastest / unit, none(jobs + types)])
    G = np.asarray(np.column_stack([np.vstack([-made, own, held]), of_level]), dtype=float)
    h = np.concatenate([none(jobs), np.ones(jobs + types)])
    runs = np.append(speed.ravel() > 0, True)
    face = _Face(G, h, none(h.size, dtype=bool), ~runs)
    face.keep(np.append(none(cells), 1.0))
    face.keep(np.append((speed / worth[:, None]).ravel(), 0.0))
    weight = np.append((gpus[:, None] / capacity).ravel(), 0.0)
    return face.least_squares(weight)[:-1].reshape(jobs, types)
