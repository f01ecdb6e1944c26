"""Imputers of matrices, called as scikit-learn's, and completion by mixtures of complete rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from scipy.optimize import nnls

from apportion.checks import number
from apportion.errors import InputError
from apportion.table_checks import float_array
from apportion.threads import one_thread

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from apportion.types import Floats


class Imputer(Protocol):
    """Anything that fills the NaN of a matrix, scikit-learn's imputers included."""

    def fit_transform(self, X: Any, /) -> Any:
        """Return the matrix with its missing entries filled."""


class BaseImputer(ABC):
    """Fills missing entries (NaN) of a matrix; options are stored as given and checked by `fit`."""

    n_features_in_: int

    @abstractmethod
    def _fit(self, X: Floats) -> None:
        """Learn from a checked matrix."""

    @abstractmethod
    def _complete(self, X: Floats) -> Floats:
        """Estimate every entry of a checked matrix."""

    @one_thread
    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn from a matrix, shape (rows, columns), NaN where missing.

        Raises
        ------
        InputError
            If it is not a matrix of finite numbers and NaN, or holds no number at all.
        """
        matrix = _matrix(X)
        if np.isnan(matrix).all():
            raise InputError(
                f"Nothing to learn from: the matrix of shape {matrix.shape} has no number in it."
            )
        self.n_features_in_ = matrix.shape[1]
        self._fit(matrix)
        return self

    @one_thread
    def transform(self, X: ArrayLike) -> Floats:
        """Fill the missing entries of rows with the columns seen by `fit`; keep all others.

        Raises
        ------
        InputError
            Before `fit`, and for another number of columns.
        """
        if not hasattr(self, "n_features_in_"):
            raise InputError(f"{type(self).__name__} has not been fitted yet: call fit first.")
        matrix = _matrix(X)
        if matrix.shape[1] != self.n_features_in_:
            raise InputError(
                f"The matrix has {matrix.shape[1]} columns; {type(self).__name__} was fitted with "
                f"{self.n_features_in_}."
            )
        return np.where(np.isnan(matrix), self._complete(matrix), matrix)

    def fit_transform(self, X: ArrayLike, y: None = None) -> Floats:
        """Learn from a matrix and fill its missing entries."""
        return self.fit(X).transform(X)


_LARGEST_ENTRY = 1e100
"""Squares of entries, and sums of them, stay finite."""


def _matrix(X: ArrayLike) -> Floats:
    """Check that there are two axes and no infinities."""
    matrix = float_array("X", X)
    if matrix.ndim != 2 or not matrix.size:
        raise InputError(f"Expected a matrix (rows, columns) with entries; got {matrix.shape}.")
    if np.isinf(matrix).any():
        row, column = np.argwhere(np.isinf(matrix))[0]
        raise InputError(
            f"Entry ({row}, {column}) of the matrix is infinite; missing entries are NaN."
        )
    if (np.abs(matrix) > _LARGEST_ENTRY).any():
        row, column = np.argwhere(np.abs(matrix) > _LARGEST_ENTRY)[0]
        raise InputError(
            f"Entry ({row}, {column}) of the matrix is {matrix[row, column]:g}; the largest number "
            f"is {_LARGEST_ENTRY:g}."
        )
    return matrix


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
        complete = ~np.isnan(X).any(axis=1)
        if not complete.any():
            raise InputError(
                f"MixtureImputer needs at least one row without missing entries; none of the "
                f"{X.shape[0]} rows is complete. SoftImpute needs none."
            )
        self.rows_ = X[complete]
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
