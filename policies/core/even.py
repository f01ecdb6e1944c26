"""The most even of several optima: the least sum of ``GPUs * X**2 / capacity``, exactly.

Dual values tell the face of all optima (complementary slackness): cells that may be used, and
limits that hold with equality. On it the least squares are unique, whichever vertex a solver found.
They are found by taking limits as equalities until the signs of the multipliers confirm it; where
that does not end, by an interior point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from apportion.policies.core.canonical import unscaled
from apportion.policies.core.conic import interior_point

if TYPE_CHECKING:
    from apportion.policies.core.jobs import Jobs
    from apportion.types import Bools, Floats

_ZERO = 1e-11
"""Shares and room up to this count as none."""


def most_even(
    jobs: Jobs,
    X: Floats,
    free: Bools,
    tight: Bools,
    need: Floats | None = None,
) -> Floats:
    """Return the most even shares among the optima.

    Parameters
    ----------
    jobs
        The problem.
    X
        One optimum, (rows, options).
    free
        Cells that may have time in an optimum.
    tight
        Limits that are equalities in all optima: resources, time of each row, needs of each.
    need
        Steps/s that each job needs, (rows,); ``None`` for none.
    """
    n, resources = jobs.n, jobs.capacity.size
    of_time = tight[resources : resources + n]
    of_need = tight[resources + n :] if need is not None else np.zeros(n, bool)
    T = jobs.T / np.maximum(jobs.fastest, 1e-300)[:, None]
    cells, equations = free.sum(axis=1), of_time.astype(int) + of_need
    spread = np.where(free, T, -np.inf).max(axis=1) - np.where(free, T, np.inf).min(axis=1)
    settled = (cells == 1) & (equations >= 1) | (cells == 2) & (equations == 2) & (spread > 1e-9)
    job, option = np.nonzero(free & ~settled[:, None])
    if not job.size:
        return X
    open_rows, own = np.unique(job, return_inverse=True)
    cell, many = np.arange(job.size), open_rows.size
    A = np.zeros((resources + 2 * many, job.size))
    held = (jobs.count[:, None] * jobs.held / jobs.capacity[jobs.kind])[job, option]
    A[jobs.kind[option], cell] = held
    for place, each in enumerate(jobs.extra, jobs.types):
        A[place] = jobs.count[job] * each[job, option] / jobs.capacity[place]
    A[resources + own, cell] = 1.0
    if need is not None:
        A[resources + many + own, cell] = -T[job, option]
    floor = np.zeros(n) if need is None else need / np.maximum(jobs.fastest, 1e-300)
    left = 1.0 - jobs.used(np.where(settled[:, None], X, 0.0)) / jobs.capacity
    b = np.concatenate([left, np.ones(many), -floor[open_rows]])
    equal = np.concatenate([tight[:resources], of_time[open_rows], of_need[open_rows]])
    some = A.any(axis=1)
    A, b, equal, at = A[some], b[some], equal[some], X[job, option]
    b = np.where(equal, A @ at, np.maximum(b, A @ at))  # what the vertex has, rounding and all
    x = least_squares(held, A, b, equal, at)
    even = X.copy()
    even[job, option] = x
    return even


def least_squares(q: Floats, A: Floats, b: Floats, equal: Bools, at: Floats) -> Floats:
    """Return x >= 0 with ``A x <= b``, some of them equal, and least ``sum(q * x**2)``.

    `at` where that is not found.
    """
    order = np.argsort(~equal, kind="stable")
    A, b, many = A[order], b[order], int(equal.sum())
    x = _with_active(q, A, b, many)
    if x is not None:
        return x
    point = interior_point(
        unscaled(
            sparse.csc_array(sparse.diags_array(q)),
            sparse.csc_array(A),
            b,
            np.arange(b.size) < many,
            np.zeros(q.size),
        )
    )
    return np.maximum(point.x, 0.0) if point.status == "optimal" else at


def _with_active(q: Floats, A: Floats, b: Floats, many: int) -> Floats | None:
    """Take what is violated as equalities; ``None`` unless signs confirm it."""
    rows, zero = np.arange(b.size) < many, np.zeros(q.size, dtype=bool)
    for _ in range(8):
        B = A[rows][:, ~zero]
        K, right = (B * (1.0 / q[~zero])[None]) @ B.T, b[rows]
        try:  # limits that depend on each other make K singular; what its diagonal gets is put back
            factor = cho_factor(K + 1e-10 * np.diag(np.diag(K) + 1e-300), check_finite=False)
        except LinAlgError:
            return None
        y = cho_solve(factor, right, check_finite=False)
        for _ in range(3):
            y += cho_solve(factor, right - K @ y, check_finite=False)
        x = np.zeros(q.size)
        x[~zero] = (y @ B) / q[~zero]
        negative, over = x < -_ZERO, A @ x - b > _ZERO
        if not (negative.any() or over[many:].any()):
            met = np.abs(A[:many] @ x - b[:many]).max(initial=0.0) <= 10 * _ZERO
            signed = (y[np.flatnonzero(rows) >= many] <= 1e-9).all()
            confirmed = met and signed and (y @ A[rows][:, zero] <= 1e-9).all()
            return np.maximum(x, 0.0) if confirmed else None
        zero, rows = zero | negative, rows | over
    return None
