"""What the imputers of this package share: scikit-learn's conventions, without scikit-learn.

Low-rank ones share the choice by hold-out, and estimates of rows.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from apportion.checks import LARGEST_NUMBER, number, whole
from apportion.checks import seed as check_seed
from apportion.errors import InputError, unknown_name
from apportion.table_checks import float_array
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from apportion.types import Bools, Floats, Ints


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


_HELD_OUT = 0.2


class LowRankImputer(BaseImputer):
    """Column means plus a product of low rank; rows are fitted by ridge regression.

    After `fit`: ``means_`` (columns,), ``components_`` (rank, columns), ``rank_`` and
    ``regularization_`` as chosen, ``n_iter_`` the iterations of the last fit, ``scale_`` the root
    mean square of what is left of the known entries without the means: components are in its unit.
    """

    seed: int
    low: float | None
    high: float | None
    tol: float
    max_iter: int
    means_: Floats
    components_: Floats
    rank_: int
    regularization_: float
    n_iter_: int
    scale_: float
    _comparing: bool = False

    @abstractmethod
    def _candidates(self, X: Floats) -> Sequence[tuple[int, float]]:
        """Pairs of rank and regularisation to choose among, the simplest first."""

    @abstractmethod
    def _factorize(self, Y: Floats, known: Bools, rank: int, ridge: float) -> tuple[Floats, Floats]:
        """Offsets of the columns and components of a matrix.

        `Y` is what is left of its known entries without the columns' means, 0 where missing.
        """

    def _fit(self, X: Floats) -> None:
        self._check_options()
        candidates = self._candidates(X)
        chosen = candidates[0]
        if len(candidates) > 1:
            self._comparing = True
            chosen = candidates[int(np.argmin(self._held_out_errors(X, candidates)))]
        self._comparing = False
        self._learn(X, *chosen)

    def _check_options(self) -> None:
        whole("max_iter", self.max_iter, 1)
        number("tol", self.tol, strict=True)
        check_seed(self.seed)
        check_bounds(self.low, self.high)

    def _learn(self, X: Floats, rank: int, ridge: float) -> None:
        known = ~np.isnan(X)
        self.rank_, self.regularization_ = rank, ridge
        means = column_means(X)
        rest = np.where(known, X - means, 0.0)
        self.scale_ = size_of(rest, known)
        offset, self.components_ = self._factorize(rest / self.scale_, known, rank, ridge)
        self.means_ = means + self.scale_ * offset

    def _held_out_errors(self, X: Floats, candidates: Sequence[tuple[int, float]]) -> Floats:
        """Mean squared error of each candidate on a fifth of the known entries."""
        # Which entries are drawn hangs on what they are, not on the order of rows and columns.
        by_row, by_column = _order(X), _order(X.T)
        rows, columns = np.nonzero(~np.isnan(X[np.ix_(by_row, by_column)]))
        rng = np.random.default_rng(self.seed)
        test = rng.permutation(rows.size)[: max(1, int(_HELD_OUT * rows.size))]
        cells = by_row[rows[test]], by_column[columns[test]]
        if test.size == rows.size:
            return np.zeros(len(candidates))
        rest = X.copy()
        rest[cells] = np.nan
        errors = np.empty(len(candidates))
        for index, candidate in enumerate(candidates):
            self._learn(rest, *candidate)
            errors[index] = np.mean((self._complete(rest)[cells] - X[cells]) ** 2)
        return errors

    def _complete(self, X: Floats) -> Floats:
        known = ~np.isnan(X)
        centred = np.where(known, X - self.means_, 0.0) / self.scale_
        factors = ridge_rows(centred, known, self.components_, self.regularization_)
        estimate: Floats = self.means_ + self.scale_ * (factors @ self.components_)
        return np.clip(estimate, self.low, self.high)


def size_of(rest: Floats, known: Bools) -> float:
    """Root mean square of the known entries; 1 where they are all zero."""
    size = float(np.sqrt((rest**2).sum() / max(1, int(known.sum()))))
    return size if size > 0 else 1.0


def _order(X: Floats) -> Ints:
    """Order of rows that depends on the numbers in each, wherever those stand."""
    return np.lexsort(np.sort(X, axis=1).T[::-1])


def ridge_rows(Y: Floats, known: Bools, components: Floats, ridge: float) -> Floats:
    """Ridge regression of every row on the components, over its known entries."""
    rank = components.shape[0]
    # A vanishing ridge keeps rows with fewer known entries than components solvable.
    floor = max(ridge, 1e-12)
    gram = (components[None] * known[:, None, :]) @ components.T + floor * np.eye(rank)
    factors = np.linalg.solve(gram, (Y @ components.T)[..., None])[..., 0]
    return np.asarray(factors, dtype=np.float64)
