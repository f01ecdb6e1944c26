"""Maximise a sum of logarithms of speeds: an interior point first, then Newton's method.

``max k @ log(u)`` with ``u_i = S_i @ x_i``, ``sum_j x_ij <= 1`` and what all jobs hold at most the
capacity. An interior point tells which shares are zero, which jobs run all of their time and which
resources are scarce. Given these the conditions of optimality are equations, which Newton's method
solves to rounding errors. Speeds are unique at the optimum, shares need not be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

if TYPE_CHECKING:
    from apportion.policies.core.jobs import Jobs
    from apportion.types import Bools, Floats, Ints

_MOST_POINTS, _NEAR = 100, 1e-9
"""Steps of the interior point at most, and gap at which it ends."""
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
    bound
        Value of the dual problem at these prices, which no shares exceed.
    """

    X: Floats
    prices: Floats
    used: Bools
    busy: Bools
    bound: float


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

    def used(self, x: Floats) -> Floats:
        """Return what shares take of each resource."""
        by_type = np.bincount(self.jobs.kind, (self.held * x).sum(axis=0), self.jobs.types)
        return np.append(by_type, [float((each * x).sum()) for each in self.extra])

    def filled(self, x: Floats) -> Floats:
        """Return what shares take of each limit, in the same order."""
        return np.append(x.sum(axis=1), self.used(x))


def maximise_logarithms(jobs: Jobs, k: Floats) -> Logarithms:
    """Maximise ``k @ log(speed)``, where k > 0 counts all jobs of a row."""
    data = _Data(jobs, k)
    return _polished(data, *_near_optimum(data))


def _near_optimum(data: _Data) -> tuple[Floats, Floats]:
    """Return shares and prices by an interior point method that takes each row by itself.

    With w the worth of speed, y the price of time and p those of resources, products go to zero::

        w S - y - cost(p) + z = 0,   w u = k,   x z = tau k,   y idle = tau k,   p room = tau

    Changes of p decide those of a row, whose matrix is a diagonal and two ranks more. Each step is
    corrected for the products of changes (Mehrotra, SIAM Journal on Optimization, 1992).
    """
    k, S, able = data.k, data.S, data.able
    x = np.where(able, data.jobs.equal_shares() / 2, 0.0)
    u, idle, room = (S * x).sum(axis=1), 1.0 - x.sum(axis=1), 1.0 - data.used(x)
    w, y, p = k / u, k / idle, 1.0 / room
    z = np.divide(k[:, None], x, out=np.ones_like(x), where=able)
    shares, option = able * k[:, None], np.arange(x.shape[1])
    of_speed, of_time = S[:, :, None] * S[:, None], (able[:, :, None] & able[:, None]).astype(float)
    cost = np.array([np.where(able, data.cost(each), 0.0) for each in np.eye(p.size)])
    products = shares.sum() + 1.0 + p.size
    last = np.inf
    for _ in range(_MOST_POINTS):
        wrong = np.where(able, w[:, None] * S - y[:, None] - data.cost(p) + z, 0.0)
        gap = float((x * z).sum() + y @ idle + p @ room)
        error = gap + float(np.abs(wrong * x).sum())
        if error <= _NEAR or (
            error <= 1e3 * _NEAR and error > last / 2
        ):  # all that rounding leaves
            break
        H = (w / u)[:, None, None] * of_speed + (y / idle)[:, None, None] * of_time
        H[:, option, option] += np.divide(z, x, out=np.ones_like(x), where=able)
        inverse = np.linalg.inv(H)
        moved = np.einsum("ijk,rik->rij", inverse, cost)
        M = np.array([data.used(each) for each in moved]) + np.diag(room / p)
        x_ = np.where(able, x, 1.0)
        now, tau, add = (x, u, y, p, z, w, idle, room), 0.0, (0.0, 0.0, 0.0, 0.0)
        for corrected in (False, True):
            of_x, of_u = tau * shares - x * z - add[0], k - w * u - add[1]
            of_y, of_p = tau * k - y * idle - add[2], tau - p * room - add[3]
            pull = of_x / x_ + wrong + S * (of_u / u)[:, None] - (of_y / idle)[:, None]
            still = np.einsum("ijk,ik->ij", inverse, np.where(able, pull, 0.0))
            dp = np.linalg.solve(M, of_p / p + data.used(still))
            dx = still - np.tensordot(dp, moved, 1)
            du, taken = (S * dx).sum(axis=1), dx.sum(axis=1)
            dw, dy = (of_u - w * du) / u, (of_y + y * taken) / idle
            dz = dy[:, None] + data.cost(dp) - dw[:, None] * S - wrong
            moves = dx, du, dy, dp, np.where(able, dz, 0.0), dw, -taken, -data.used(dx)
            ends = [float((-d / np.where(v > 0, v, 1.0)).max()) for d, v in zip(moves, now)]
            size = min(1.0, 0.95 / max(*ends, 1e-300))
            if not corrected:
                part = max((1.0 - size) ** 3, 1e-6)
                tau = part * gap / products
                add = [
                    size**2 * each
                    for each in (dx * moves[4], du * dw, dy * moves[6], dp * moves[7])
                ]
        last = error
        x, u, y, p, z, w, idle, room = (v + size * d for d, v in zip(moves, now))
    return x, p


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
    y, p = np.maximum(y, 0.0), np.maximum(p, 0.0)
    each = np.full(S.shape, np.inf)  # the price of speed
    np.divide(y[:, None] + data.cost(p), S, out=each, where=data.able)
    least = each.min(axis=1) / np.maximum(data.jobs.fastest, 1e-300)
    bound = y.sum() + p.sum() + k @ (np.log(k / np.maximum(least, 1e-300)) - 1.0)
    prices = p / data.jobs.capacity * data.unit
    return Logarithms(x, prices, used, tight[: k.size], float(bound) * data.unit)


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
