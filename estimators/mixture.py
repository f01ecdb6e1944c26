"""Completion of rows by mixtures of complete ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import nnls

from apportion.checks import number
from apportion.errors import InputError
from apportion.estimators.imputer import BaseImputer

if TYPE_CHECKING:
    from apportion.types import Floats


def _complete_rows(imputer: BaseImputer, X: Floats) -> Floats:
    """Return the rows without missing entries."""
    complete = ~np.isnan(X).any(axis=1)
    if not complete.any():
        raise InputError(
            f"{type(imputer).__name__} needs at least one row without missing entries; none of the "
            f"{X.shape[0]} rows is complete. AlternatingLeastSquares needs none."
        )
    return X[complete]


_SUM_TO_ONE = 10.0
"""Weight of the equation that the shares sum to one, in units of an entry's."""

_RIDGES = (1e-9, 1e-6, 1e-3)
"""Least penalties of a share squared, the second and third for where the first one fails."""


class MixtureImputer(BaseImputer):
    """Estimate a row as the mixture of complete rows that fits its known entries best.

    Shares are >= 0 and sum to one, so estimates stay within the range of the complete rows, and a
    row that equals a complete one where it is known takes all of it. A row with nothing known is
    their mean.

    Parameters
    ----------
    proximity
        Weight of a penalty on using rows that are far: the share squared, times the row's mean
        squared distance over the known entries. 0 for plain non-negative least squares.

    Notes
    -----
    After `fit`: ``rows_``, the complete rows, and ``scale_``, their largest entry by size. The
    kinship is with archetypal analysis (Cutler and Breiman, Technometrics 1994), where the
    archetypes are learned; here they are the rows known.
    """

    rows_: Floats
    scale_: float

    def __init__(self, proximity: float = 1.0) -> None:
        self.proximity = proximity

    def _fit(self, X: Floats) -> None:
        number("proximity", self.proximity)
        self.rows_ = _complete_rows(self, X)
        # Shares do not hang on the unit of the entries: they are reckoned in the rows' own size.
        largest = float(np.abs(self.rows_).max())
        self.scale_ = largest if largest > 0 else 1.0

    def _complete(self, X: Floats) -> Floats:
        return np.stack([self._shares(row) @ self.rows_ for row in X])

    def _shares(self, row: Floats) -> Floats:
        """Shares of the complete rows in one row, shape (complete rows,)."""
        known = ~np.isnan(row)
        count = len(self.rows_)
        if not known.any():
            return np.full(count, 1.0 / count)
        entries = self.rows_[:, known].T / self.scale_
        wanted = row[known] / self.scale_
        distance = np.mean((entries - wanted[:, None]) ** 2, axis=0)
        target = np.concatenate([wanted, [_SUM_TO_ONE], np.zeros(count)])
        for ridge in _RIDGES:
            # The tiny addition picks one solution where several fit alike.
            penalty = np.diag(np.sqrt(self.proximity * distance + ridge))
            equations = np.vstack([entries, np.full((1, count), _SUM_TO_ONE), penalty])
            try:
                shares = nnls(equations, target, maxiter=30 * count)[0]
            except RuntimeError:  # it went in circles
                continue
            return np.asarray(shares / shares.sum(), dtype=np.float64)
        nearest = np.argmin(distance)
        return np.asarray(np.arange(count) == nearest, dtype=np.float64)
