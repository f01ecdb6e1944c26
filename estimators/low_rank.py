"""The common part of low-rank imputers: choice by hold-out, and estimates of rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from apportion.checks import number, whole
from apportion.checks import seed as check_seed
from apportion.estimators.imputer import BaseImputer, check_bounds, column_means

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.types import Bools, Floats, Ints


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
