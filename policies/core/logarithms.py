"""Maximise a sum of logarithms of speeds: a first point by Clarabel's cones, then Newton's method.

``max k @ log(u)`` with ``u_i = S_i @ x_i``, ``sum_j x_ij <= 1`` and what all jobs hold at most the
capacity. An interior point tells which shares are zero, which jobs run all of their time and which
resources are scarce. Given these the conditions of optimality are equations, which Newton's method
solves to rounding errors. Speeds are unique at the optimum, shares need not be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import clarabel
import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from apportion.errors import SolveError

if TYPE_CHECKING:
    from apportion.policies.core.jobs import Jobs
    from apportion.types import Bools, Floats, Ints

_MOST_ROUNDS = 15
"""Steps of Newton's method, or changes of what is used, at most."""
_STILL, _SIGN = 1e-11, 1e-9
"""Relative moves of speeds by which steps end; numbers up to this size have no sign."""
_LITTLE = 1e-11
"""Added where several shares or prices are optimal, so that equations have one solution."""


class Logarithms(NamedTuple):
    """An optimum.

    Attributes
    ----------
    X
        Shares of time, (rows, options).
    prices
        Of a unit of each resource.
    used
        Cells that may have time in an optimum, (rows, options).
    busy
        Rows that run all of their time in every optimum.
    """

    X: Floats
    prices: Floats
    used: Bools
    busy: Bools


class _Data:
    """The problem in parts of capacities and of the fastest speeds, k in sum 1."""

    def __init__(self, jobs: Jobs, k: Floats) -> None:
        self.jobs, self.able, self.unit = jobs, jobs.T > 0, float(k.sum())
        self.k = k / self.unit
        self.S = jobs.T / np.maximum(jobs.fastest, 1e-300)[:, None]
        count, most = jobs.count[:, None], jobs.capacity
        self.held = count * jobs.held / most[jobs.kind]
        further = zip(jobs.extra, most[jobs.types :], strict=True)
        self.extra = [np.asarray(count * each / limit) for each, limit in further]

    def cost(self, p: Floats) -> Floats:
        """Return what all time under each option costs, (rows, options)."""
        cost = self.held * p[self.jobs.kind]
        for each, price in zip(self.extra, p[self.jobs.types :], strict=True):
            cost = cost + price * each
        return np.asarray(cost)

    def limits(self, row: Ints, option: Ints) -> tuple[Ints, Ints, Floats]:
        """Return entries (limit, cell, amount) of cells: the time of each row, then resources."""
        n, cell = self.k.size, np.arange(row.size)
        limit = [row, n + self.jobs.kind[option]]
        amount = [np.ones(row.size), self.held[row, option]]
        for place, each in enumerate(self.extra, n + self.jobs.types):
            limit.append(np.full(row.size, place))
            amount.append(each[row, option])
        return np.concatenate(limit), np.tile(cell, len(limit)), np.concatenate(amount)

    def filled(self, x: Floats) -> Floats:
        """Return what shares take of each limit, in the same order."""
        row, option = np.nonzero(self.able)
        limit, cell, amount = self.limits(row, option)
        most = self.k.size + self.jobs.capacity.size
        return np.asarray(np.bincount(limit, amount * x[row, option][cell], most), dtype=float)


def maximise_logarithms(
    jobs: Jobs, k: Floats, start: tuple[Floats, Floats] | None = None
) -> Logarithms:
    """Maximise ``k @ log(speed)``, where k > 0 counts all jobs of a row.

    Parameters
    ----------
    start
        Shares and prices of a point near the optimum, in place of Clarabel's.

    Raises
    ------
    SolveError
        If Clarabel finds no optimum.
    """
    data = _Data(jobs, k)
    X, prices = _by_cones(data) if start is None else start
    return _polished(data, X, prices * jobs.capacity / data.unit)


def _by_cones(data: _Data) -> tuple[Floats, Floats]:
    """Return shares and prices by Clarabel: ``max k @ t`` with ``(t_i, 1, u_i)`` in its cone."""
    row, option = np.nonzero(data.able)
    n, cells, resources = data.k.size, row.size, data.jobs.capacity.size
    limit, of_cell, amount = data.limits(row, option)
    own, job, start = np.arange(cells), np.arange(n), cells + n + resources
    entries = [
        (own, own, -np.ones(cells)),
        (cells + limit, of_cell, amount),
        (start + 3 * row + 2, own, -data.S[row, option]),
        (start + 3 * job, cells + job, -np.ones(n)),
    ]
    A = _matrix(entries, (start + 3 * n, cells + n))
    one = np.tile([0.0, 1.0, 0.0], n)
    b = np.concatenate([np.zeros(cells), np.ones(n + resources), one])
    c = np.append(np.zeros(cells), -data.k * n)
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    cones = [clarabel.NonnegativeConeT(cells + n + resources)] + [clarabel.ExponentialConeT()] * n
    P = sparse.csc_matrix((c.size, c.size))
    found = clarabel.DefaultSolver(P, c, A, b, cones, settings).solve()
    if found.status not in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
        raise SolveError(f"clarabel: {found.status}")
    X = np.zeros(data.able.shape)
    X[row, option] = np.maximum(np.array(found.x)[:cells], 0.0)
    p = np.maximum(np.array(found.z)[cells + n : cells + n + resources], 0.0) / n
    return X, p / data.jobs.capacity * data.unit


def _polished(data: _Data, x: Floats, p: Floats) -> Logarithms:
    """Solve the conditions of optimality from a point near it.

    Cells whose share turns negative are dropped, those worth more than they cost join.
    """
    k, S = data.k, data.S
    u = np.maximum((S * x).sum(axis=1), 1e-300)
    worth = (k / u)[:, None] * S - data.cost(p)
    y = np.where(data.able, worth, 0.0).max(axis=1)
    loss = (y[:, None] - worth) * (u / k)[:, None]
    room = 1.0 - data.filled(x)
    used = data.able & (x > loss)
    used[np.arange(k.size), x.argmax(axis=1)] = True
    dual = np.append(y * u / k, p)  # of each limit: time of the rows, then resources
    tight = dual > room
    for _ in range(_MOST_ROUNDS):
        x, dual = np.where(used, x, 0.0), np.where(tight, np.append(y, p), 0.0)
        y, p = dual[: k.size], dual[k.size :]
        u = np.maximum((S * x).sum(axis=1), 1e-300)
        profit = (k / u)[:, None] * S - y[:, None] - data.cost(p)
        dx, du, dual[tight] = _step(data, used, tight, x, u, profit, dual[tight])
        size = min(1.0, 0.9 / max(-float(du.min()), 1e-300))
        x = x + size * dx
        y, p = dual[: k.size], dual[k.size :]
        if np.abs(du).max() > _STILL or size < 1.0:
            used &= ~(x < -_SIGN)
            continue
        w = k / np.maximum((S * x).sum(axis=1), 1e-300)
        profit = (w[:, None] * S - y[:, None] - data.cost(p)) / w[:, None]
        right = data.able & np.where(used, x >= -_SIGN, profit > _SIGN)
        least = np.append(-_SIGN * w, np.full(p.size, -_SIGN))
        held = np.where(tight, dual >= least, data.filled(x) > 1.0 + _SIGN)
        if (right == used).all() and (held == tight).all():
            break
        used, tight = right, held
    prices = np.maximum(p, 0.0) / data.jobs.capacity * data.unit
    return Logarithms(x, prices, used, tight[: k.size])


def _step(
    data: _Data, used: Bools, tight: Bools, x: Floats, u: Floats, profit: Floats, dual: Floats
) -> tuple[Floats, Floats, Floats]:
    """Take Newton's step: changes of shares, of speeds relatively, and new dual values."""
    row, option = np.nonzero(used)
    n, slope = row.size, data.S[row, option] / u[row]
    many = np.bincount(row, minlength=u.size)
    first = np.cumsum(many) - many
    of = np.repeat(np.arange(n), many[row])  # pairs of cells of one row
    beside = np.arange(of.size) - np.repeat(np.cumsum(many[row]) - many[row], many[row])
    beside += first[row[of]]
    limit, cell, amount = data.limits(row, option)
    on = tight[limit]
    limit, cell, amount = (n + np.cumsum(tight) - 1)[limit[on]], cell[on], amount[on]
    size = n + int(tight.sum())
    every = np.arange(size)
    entries = [
        (of, beside, data.k[row[of]] * slope[of] * slope[beside]),
        (limit, cell, amount),
        (cell, limit, amount),
        (every, every, np.where(every < n, _LITTLE, -_LITTLE)),
    ]
    room = (1.0 - data.filled(x))[tight]
    right = np.append(profit[row, option], room)
    # Job by job, and resources last: eliminated in this order, an arrow fills up nowhere else.
    of_job = np.append(row, np.flatnonzero(tight))
    place = np.argsort(np.argsort(of_job, kind="stable"))
    entries = [(place[i], place[j], value) for i, j, value in entries]
    moved = np.empty(size)
    moved[place] = right
    K = _matrix(entries, (size, size))
    found = splu(K, permc_spec="NATURAL", diag_pivot_thresh=1e-3).solve(moved)[place]
    dx = np.zeros_like(x)
    dx[row, option] = found[:n]
    return dx, (data.S * dx).sum(axis=1) / u, dual + found[n:]


def _matrix(entries: list[tuple[Ints, Ints, Floats]], shape: tuple[int, int]) -> sparse.csc_matrix:
    row, column, value = (np.concatenate(each) for each in zip(*entries, strict=True))
    return sparse.csc_matrix((value, (row, column)), shape=shape)
