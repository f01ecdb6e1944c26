"""The choice among optima: spend what is left, then the most even shares, exactly."""
from __future__ import annotations

import clarabel
import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from apportion.policies.core.program import TIE


def choose(program, jobs, first, demand):
    """Return of the optima that spend most the most even one."""
    gain = jobs.count[:, None] * jobs.T / np.where(jobs.reference > 0, jobs.reference, np.inf)[:, None]
    try:
        second = program.spend(jobs, gain, first)
    except RuntimeError:
        return first.X
    if not (second.open and _open(jobs, first, second)):
        return second.X
    return even(program, jobs, first, second, demand)


def _open(jobs, *points):
    """Whether a cell that is not used could be, in all of the optima."""
    cells = np.all([p.reduced <= TIE for p in points], axis=0) & (points[-1].X <= TIE) & (jobs.T > 0)
    return bool(cells.any() or np.all([p.loose for p in points], axis=0).any())


def even(program, jobs, first, second=None, demand=None):
    """Return the least sum of GPUs * X**2 / capacity over the optimal face.

    The face is what dual values leave free (complementary slackness): cells of no reduced cost, and
    equalities where a limit has a price. Clarabel says which bounds hold there, and one solve of the
    optimality conditions with these as equalities gives the point without its tolerances.
    """
    points = [p for p in (first, second) if p is not None]
    X, n, m = points[-1].X, jobs.n, jobs.m
    free = np.all([p.reduced <= TIE for p in points], axis=0) & (jobs.T > 0)
    priced = lambda name: np.any([getattr(p, name) > TIE for p in points], axis=0)
    job, option = np.nonzero(free)
    cells = np.arange(job.size)
    T = jobs.T / np.maximum(jobs.fastest, 1e-300)[:, None]
    R = jobs.capacity.size
    use = [sparse.csr_array(((jobs.count * jobs.held.T).T[job, option] / program.scale[jobs.kind[option]], (jobs.kind[option], cells)), shape=(R - len(jobs.extra), cells.size))]
    use += [sparse.csr_array((jobs.count[job] * e[job, option] / program.scale[R - len(jobs.extra) + k])[None]) for k, e in enumerate(jobs.extra)]
    sums = sparse.csr_array((np.ones(cells.size), (job, cells)), shape=(n, cells.size))
    blocks, most, tight = use + [sums], [jobs.capacity / program.scale, np.ones(n)], [priced("prices"), priced("time")]
    if demand is not None:
        blocks.append(sparse.csr_array((-T[job, option], (job, cells)), shape=(n, cells.size)))
        most.append(-demand / np.maximum(jobs.fastest, 1e-300))
        tight.append(priced("need"))
    A, b, tight = sparse.csr_array(sparse.vstack(blocks)), np.concatenate(most), np.concatenate(tight)
    some = np.diff(A.indptr) > 0
    A, b, tight = A[some], b[some], tight[some]
    at = X[job, option]
    b = np.where(tight, A @ at, np.maximum(b, A @ at))  # what the vertex has, rounding and all
    q = (jobs.count[:, None] * jobs.held / program.scale[jobs.kind])[job, option]
    x = least_squares(q, A, b, tight, at)
    Y = np.zeros((n, m))
    Y[job, option] = x
    return Y


def least_squares(q, A, b, tight, at):
    """min sum q x**2, A x <= b (== where tight), x >= 0; `at` where that is not found.

    First by adding what is violated, one solve after another; where the signs of the multipliers do
    not confirm that, from what Clarabel says is active.
    """
    order = np.concatenate([np.flatnonzero(tight), np.flatnonzero(~tight)])
    A, b, e, k = A[order], b[order], int(tight.sum()), q.size
    dense = A.toarray()
    x, sure = _active(q, dense, b, e, np.arange(b.size) < e, np.zeros(k, bool))
    if sure:
        return x
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    cones = [clarabel.ZeroConeT(e)] * (e > 0) + [clarabel.NonnegativeConeT(b.size - e + k)]
    M = sparse.csc_matrix(sparse.vstack([A, -sparse.eye_array(k)]))
    r = clarabel.DefaultSolver(sparse.csc_matrix(sparse.diags_array(q)), np.zeros(k), M, np.append(b, np.zeros(k)), cones, settings).solve()
    if "Solved" not in str(r.status):
        return at
    holds = np.array(r.s) < np.array(r.z)
    holds[:e] = True
    x, _ = _active(q, dense, b, e, holds[: b.size], holds[b.size :])
    return np.maximum(np.array(r.x), 0.0) if x is None else x


def _active(q, A, b, e, rows, zero, most=8):
    """Solve with some limits as equalities, adding what is violated; and whether signs confirm it."""
    for _ in range(most):
        B = A[rows][:, ~zero]
        K, right = (B / q[~zero]) @ B.T, b[rows]
        try:  # dependent limits make K singular: a little on its diagonal, and what that costs put back
            factor = cho_factor(K + 1e-10 * np.diag(np.diag(K) + 1e-300))
            y = cho_solve(factor, right)
            for _ in range(4):
                y += cho_solve(factor, right - K @ y)
        except np.linalg.LinAlgError:
            return None, False
        x = np.zeros(q.size)
        x[~zero] = (y @ B) / q[~zero]
        negative, over = x < -1e-12, A @ x - b > 1e-11
        if not (negative.any() or over[e:].any()):
            if np.abs(A[:e] @ x - b[:e]).max(initial=0.0) > 1e-10:
                return None, False
            free = np.flatnonzero(rows) >= e
            sure = (y[free] <= 1e-9).all() and (y @ A[rows][:, zero] <= 1e-9).all()
            return np.maximum(x, 0.0), bool(sure)
        zero, rows = zero | negative, rows | over
    return None, False
