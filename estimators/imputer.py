"""What the imputers of this package share: scikit-learn's conventions, without scikit-learn."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from apportion.checks import LARGEST_NUMBER, number
from apportion.errors import InputError, unknown_name
from apportion.table_checks import float_array
from apportion.threads import one_thread

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from apportion.types import Floats


class WithOptions:
    """Reads and changes the options of a class that stores them as given, under their names."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Options by name, as given to the class."""
        return {name: getattr(self, name) for name in _options(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Change options by name.

        Raises
        ------
        InputError
            For an option that the class does not have, with the nearest one.
        """
        for name, value in params.items():
            if name not in _options(type(self)):
                raise unknown_name(f"option of {type(self).__name__}", name, _options(type(self)))
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({options})"


def _options(kind: type) -> list[str]:
    return [name for name in inspect.signature(kind).parameters if name != "self"]


class Imputer(Protocol):
    """Anything that fills the NaN of a matrix, scikit-learn's imputers included."""

    def fit_transform(self, X: Any, /) -> Any:
        """Return the matrix with its missing entries filled."""


class BaseImputer(WithOptions, ABC):
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


def check_bounds(low: float | None, high: float | None) -> None:
    """Check what estimates are clipped to.

    Raises
    ------
    InputError
        For bounds that are neither numbers nor None, or in the wrong order.
    """
    for name, bound in (("low", low), ("high", high)):
        if bound is not None:
            number(name, bound, least=-LARGEST_NUMBER)
    if low is not None and high is not None and low > high:
        raise InputError(f"low is {low!r} and high {high!r}; low must be the lower.")


def column_means(X: Floats) -> Floats:
    """Mean of the known entries of each column; of the whole matrix where a column has none."""
    known = ~np.isnan(X)
    total = np.where(known, X, 0.0).sum(axis=0)
    count = known.sum(axis=0)
    means = np.where(count > 0, total / np.maximum(count, 1), total.sum() / count.sum())
    return np.asarray(means, dtype=np.float64)


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
