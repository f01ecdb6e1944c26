"""The most even of the ways in which jobs that are indifferent fill what is left of each type.

At prices at which several options are worth the same to a job it may mix them as it likes, as long
as it makes its demand. Who is indifferent between two options moves along a line; all jobs of one
model may be indifferent between three and more, and rest. The choice is the least sum of
``gpus * X**2 / capacity``, by active sets: where it is known which shares are 0 each is
``capacity * (number of the type + nu * speed + tau)``, with one number for each type and two of
each job. Where no mix fills what is left, a way of the prices along which all become dearer shows
it (`Indifferent.dearest`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import lapack

if TYPE_CHECKING:
    from apportion.types import Bools, Floats, Ints

_ROUNDS, _HOPED = 40, 2
"""How often what holds with equality is tried, and how often without a look at what mixes hold."""
_ZERO = 1e-13
"""Part of a share, of a type or of what a share weighs, that is a rounding error."""
_RANK = 1e-12
"""Part of the largest singular value below which a mix of types is none."""
_MET = 1e-10
"""Part of a type by which what is left of it may be missed."""
_MOST_TRIED = 12
_EVEN, _APART = 1e-12, 1e-9
"""By how much costs that are the same may differ, and less of a difference is none."""


@cache
def _pairs(points: int) -> tuple[Ints, Ints]:
    """List pairs of points; one with itself makes more than is wanted."""
    low, up = np.triu_indices(points)
    return low, up


@cache
def _workspace(size: int) -> tuple[int, int]:
    """Return how much room the least squares of a square system take, in floats and integers."""
    floats, integers, _ = lapack.dgelsd_lwork(size, size, 1, _RANK)  # pyright: ignore[reportAttributeAccessIssue]
    return int(floats), int(integers)


def _least_squares(matrix: Floats, right: Floats) -> Floats:
    """Return what `numpy.linalg.lstsq` does, whose Python takes longer than a few types."""
    if not right.size:
        return right
    solve = lapack.dgelsd  # pyright: ignore[reportAttributeAccessIssue]
    found, _, _, failed = solve(matrix, right, *_workspace(right.size), cond=_RANK)
    if failed:
        raise np.linalg.LinAlgError("Singular values were not found.")
    return np.asarray(found).ravel()


class _Equalities(NamedTuple):
    """What holds with equality: which shares may be above 0, whose demand, and which types."""

    free: Bools
    exact: Bools
    held: Bools

    def key(self) -> bytes:
        """Return what tells it from others of the same shapes."""
        return self.free.tobytes() + self.exact.tobytes() + self.held.tobytes()


class Indifferent(NamedTuple):
    """Jobs that may be at several points.

    Attributes
    ----------
    row
        Speeds at each point, rest first, shape (jobs, options + 1).
    wanted
        What each job must make, shape (jobs,).
    gpus
        GPUs that a job holds wherever it runs, shape (jobs,).
    may
        At which points a job may be, shape (jobs, options + 1).
    freed
        Who may make more, shape (jobs,).
    """

    row: Floats
    wanted: Floats
    gpus: Floats
    may: Bools
    freed: Bools

    def evenest(
        self, type_of: Floats, capacity: Floats, left: Floats, full: Bools
    ) -> Floats | None:
        """Share what is left of each type most evenly.

        Parameters
        ----------
        type_of
            1 where an option is of a type, rest first, shape (options + 1, types).
        capacity
            GPUs that there are at each point, 0 for rest, shape (options + 1,).
        left, full
            GPUs of each type that may be held, and of which types they are to be, shape (types,).

        Returns
        -------
        Floats
            Shares of time at each point, shape (jobs, options + 1); ``None`` if none are found.
        """
        fixed = _Equalities(self.may, ~self.freed, full)
        tried = [fixed.key()]
        for done in range(_ROUNDS):
            if done == _HOPED and not self._reaches(type_of, left, full):
                return None
            found = self._round(fixed, type_of, capacity, left, full)
            if found is None:
                return None
            X, fixed = found
            if (key := fixed.key()) == tried[-1]:
                held = fixed.held
                return self._checked(np.maximum(X, 0.0), type_of[:, held], left[held])
            if key in tried:  # it goes round for ever
                return None
            tried.append(key)
        return None

    def _round(
        self, fixed: _Equalities, type_of: Floats, capacity: Floats, left: Floats, full: Bools
    ) -> tuple[Floats, _Equalities] | None:
        """Return shares and what is to hold at these, if there are any."""
        found = self._where(fixed, type_of, capacity, left)
        if found is None:
            return None
        X, pull, nu, number = found
        size = np.maximum.reduce(np.abs(pull[:, 1:]), axis=1, initial=1e-300, keepdims=True)
        free = np.where(fixed.free, X >= -_ZERO, self.may & (pull > _ZERO * size))
        exact, held = fixed.exact, fixed.held
        if self.freed.any():
            less = (X * self.row).sum(axis=1) < self.wanted - _ZERO
            exact = ~self.freed | np.where(exact, nu >= 0, less)
        if not full.all():
            most = _ZERO * np.abs(left).max(initial=0.0)
            beyond = self.gpus @ X @ type_of > left + most
            held = full | np.where(held, number <= 0, beyond)
        return X, _Equalities(free, exact, held)

    def _reaches(self, type_of: Floats, left: Floats, full: Bools) -> bool:
        """Whether mixes may hold what is left of each type by itself: quicker than no shares."""
        corners, may = self._corners()
        holds = self.gpus[:, None, None] * (corners @ type_of)
        low = np.where(may[:, :, None], holds, np.inf).min(axis=1)
        high = np.where(may[:, :, None], holds, 0.0).max(axis=1)
        both = (
            self.may[:, :, None] & self.may[:, None] & (self.row[:, :, None] == self.row[:, None])
        )
        alike = (both.sum(axis=(1, 2)) > self.may.sum(axis=1)) | ~may.any(axis=1)
        low[alike], high[alike] = 0.0, self.gpus[alike, None]  # at points that are no corners
        least, most = low.sum(axis=0), high.sum(axis=0)
        missed = _MET * np.maximum(np.abs(left), 1.0)
        return bool(((least <= left + missed) & ~(full & (most < left - missed))).all())

    def _where(
        self, fixed: _Equalities, type_of: Floats, capacity: Floats, left: Floats
    ) -> tuple[Floats, Floats, Floats, Floats] | None:
        """Return shares, what pulls each up from 0, nu of each job and the number of each type."""
        row, (free, exact, held) = self.row, fixed
        rest, total = free[:, 0], np.add.reduce
        weight = np.where(free, capacity, 0.0)
        by_row = weight * row
        squares, sums, all_of = total(by_row * row, 1), total(by_row, 1), total(weight, 1)
        det = squares * all_of - sums * sums
        both = ~rest & exact & (det > _ZERO * squares * all_of)
        det = np.where(both, det, np.where(exact, squares, np.where(rest, 1.0, all_of)))
        if not det.all():
            return None
        # What a job has to make, and all of its time where it does not rest, settle nu and tau.
        made = np.where(both, all_of, exact) / det
        time = np.where(both, squares, ~exact & ~rest) / det
        cross = np.where(both, -sums, 0.0) / det
        nu, tau = made * self.wanted + cross, cross * self.wanted + time
        of_nu = made[:, None] * by_row + cross[:, None] * weight
        of_tau = cross[:, None] * by_row + time[:, None] * weight
        holds, of_held = self.gpus[:, None] * weight, type_of[:, held]
        holds_row = holds * row
        moves = holds_row.T @ of_nu + holds.T @ of_tau
        of_point = self.gpus @ weight
        given = nu @ holds_row + tau @ holds
        system = of_held.T @ (of_point[:, None] * of_held - moves @ of_held)
        number = np.zeros(left.size)
        number[held] = _least_squares(system, left[held] - given @ of_held)
        by_point = type_of @ number
        nu, tau = nu - of_nu @ by_point, tau - of_tau @ by_point
        pull = by_point + nu[:, None] * row + tau[:, None]
        X = weight * pull
        X[:, 0] = np.where(rest, 1.0 - total(X[:, 1:], 1), 0.0)
        return X, pull, nu, number

    def _checked(self, X: Floats, type_of: Floats, left: Floats) -> Floats | None:
        """Return shares that are as they should be."""
        off = (X * self.row).sum(axis=1) - self.wanted
        off = np.abs([np.where(self.freed, np.minimum(off, 0.0), off), X.sum(axis=1) - 1.0])
        short = np.abs(self.gpus @ X @ type_of - left)
        met = (short <= _MET * np.maximum(np.abs(left), 1.0)).all() and (off <= _MET).all()
        return X if met else None

    def dearest(
        self, type_of: Floats, ways: Floats, left: Floats, rank: Ints
    ) -> tuple[int | None, bool]:
        """Return along which way of prices all mixes become dearer most than what is left.

        Parameters
        ----------
        type_of
            As for `evenest`.
        ways
            Of length 1, or 0 for none, shape (ways, types).
        left
            Of each type, shape (types,).
        rank
            In how many directions jobs are to stay indifferent, shape (ways,).

        Returns
        -------
        way
            ``None`` if there is none.
        inside
            Whether what is left lies inside of what mixes may hold, in all directions.
        """
        corners, may = self._corners()
        X, one = corners @ type_of, np.arange(len(may))
        cost = np.where(may[:, :, None], X @ ways.T, np.inf)
        least = cost.min(axis=1)
        dearer = self.gpus @ least - ways @ left
        for way in np.argsort(-dearer)[:_MOST_TRIED].tolist():
            if dearer[way] <= _MET * left.max():
                break
            even = cost[:, :, way] <= least[:, way, None] + _EVEN
            differ = X - X[one, cost[:, :, way].argmin(axis=1)][:, None]
            if np.linalg.matrix_rank(differ[even], _APART) == rank[way]:
                return int(way), False
        apart = (X - X[one, may.argmax(axis=1)][:, None])[may]
        wide = np.linalg.matrix_rank(apart, _APART) > rank.max()
        there = ways.any(axis=1)
        return None, bool(wide and (dearer[there] < -_APART * left.max()).all())

    def _corners(self) -> tuple[Floats, Bools]:
        """Return mixes of one or two points, shape (jobs, mixes, points), and which each may."""
        low, up = _pairs(self.row.shape[1])
        span, alone = self.row[:, up] - self.row[:, low], low == up
        over = self.wanted[:, None] - self.row[:, low]
        part = np.divide(over, span, out=np.zeros_like(span), where=span != 0)
        may = self.may[:, low] & self.may[:, up] & (part >= -_ZERO) & (part <= 1.0 + _ZERO)
        may &= np.where(alone, self.freed[:, None] & (over <= _ZERO), span != 0)
        X, mixes = np.zeros((*span.shape, self.row.shape[1])), np.arange(low.size)
        X[:, mixes, low] = 1.0 - part
        X[:, mixes, up] += part
        return X, may
