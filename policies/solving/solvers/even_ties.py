"""The most even of the ways in which jobs that are indifferent fill what is left of each type.

At prices at which several options are worth the same to a job it may mix them as it likes, as long
as it makes its demand. Who is indifferent between two options moves along a line; all jobs of one
model may be indifferent between three and more, and rest. The choice is the least sum of
``gpus * X**2 / capacity``, by active sets: where it is known which shares are 0 each is
``capacity * (number of the type + nu * speed + tau)``, with one number for each type and two of
each job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Bools, Floats

_ROUNDS = 40
_ZERO = 1e-13
"""Part of a share, or of what it weighs, that is a rounding error."""
_RANK = 1e-12
"""Part of the largest singular value below which a mix of types is none."""
_MET = 1e-10
"""Part of a type by which what is left of it may be missed."""


class Indifferent(NamedTuple):
    """Jobs that may be at several points.

    Attributes
    ----------
    row
        Speeds at each point, rest first, shape (jobs, options + 1).
    wanted
        What each job must make, exactly, shape (jobs,).
    gpus
        GPUs that a job holds wherever it runs, shape (jobs,).
    may
        At which points a job may be, shape (jobs, options + 1).
    """

    row: Floats
    wanted: Floats
    gpus: Floats
    may: Bools

    def evenest(self, type_of: Floats, capacity: Floats, left: Floats) -> Floats | None:
        """Share what is left of each type most evenly.

        Parameters
        ----------
        type_of
            1 where an option is of a type, rest first, shape (options + 1, types); the types that
            are to be full only.
        capacity
            GPUs that there are at each point, 0 for rest, shape (options + 1,).
        left
            GPUs of each type that are to be held, shape (types,).

        Returns
        -------
        Floats
            Shares of time at each point, shape (jobs, options + 1); ``None`` if none are found.
        """
        free = self.may
        for _ in range(_ROUNDS):
            found = self._where(free, type_of, capacity, left)
            if found is None:
                return None
            X, pull = found
            size = np.abs(pull[:, 1:]).max(axis=1, initial=1e-300)[:, None]
            now = np.where(free, X >= -_ZERO, self.may & (pull > _ZERO * size))
            if np.array_equal(now, free):
                return self._checked(np.maximum(X, 0.0), type_of, left)
            free = now
        return None

    def _where(
        self, free: Bools, type_of: Floats, capacity: Floats, left: Floats
    ) -> tuple[Floats, Floats] | None:
        """Return shares if those that are not free are 0, and what pulls each up from there."""
        row, gpus, rest = self.row, self.gpus[:, None], free[:, 0]
        weight = np.where(free, capacity, 0.0)
        by_row = weight * row
        squares, sums, all_of = (by_row * row).sum(axis=1), by_row.sum(axis=1), weight.sum(axis=1)
        det = squares * all_of - sums * sums
        full = ~rest & (det > _ZERO * squares * all_of)
        det = np.where(full, det, squares)
        if not det.all():
            return None
        # What a job has to make, and all of its time where it does not rest, settle nu and tau.
        made, time, cross = np.where(full, [all_of, squares, -sums], [[1.0], [0.0], [0.0]]) / det
        nu, tau = made * self.wanted + cross, cross * self.wanted + time
        of_nu = made[:, None] * by_row + cross[:, None] * weight
        of_tau = cross[:, None] * by_row + time[:, None] * weight
        held, held_row = gpus * weight, gpus * by_row
        moves = np.diag(held.sum(axis=0)) - held_row.T @ of_nu - held.T @ of_tau
        given = held_row.T @ nu + held.T @ tau
        system, short = type_of.T @ moves @ type_of, left - given @ type_of
        number = type_of @ np.linalg.lstsq(system, short, rcond=_RANK)[0]
        tau = tau - of_tau @ number
        pull = number + (nu - of_nu @ number)[:, None] * row + tau[:, None]
        X = weight * pull
        X[:, 0] = np.where(rest, 1.0 - X[:, 1:].sum(axis=1), 0.0)
        return X, pull

    def _checked(self, X: Floats, type_of: Floats, left: Floats) -> Floats | None:
        """Return shares that are as they should be."""
        off = np.abs([(X * self.row).sum(axis=1) - self.wanted, X.sum(axis=1) - 1.0])
        short = np.abs(self.gpus @ X @ type_of - left)
        met = (short <= _MET * np.maximum(np.abs(left), 1.0)).all() and (off <= _MET).all()
        return X if met else None
