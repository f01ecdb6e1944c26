"""Low-rank matrix completion by soft-impute.

A matrix is estimated by offsets of its columns plus a product of low rank; rows are fitted by ridge
regression. The shrinkage is chosen by the error on entries that are held out.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal

import numpy as np

from apportion.checks import LARGEST_NUMBER, as_float, number, whole
from apportion.checks import seed as check_seed
from apportion.errors import InputError, written
from apportion.estimators.imputer import BaseImputer

if TYPE_CHECKING:
    from apportion.types import Bools, Floats, Ints


_STEP_OF_PATH, _LONGEST_PATH = 0.4, 12
_ROUGHLY, _FEW = 1e-3, 30
"""Tolerance and most iterations at the shrinkages on the way, and while they are compared."""
_AUTO_SHRINKAGES = (0.3, 0.1, 0.05, 0.02, 0.01)
_HELD_OUT = 0.2


class SoftImpute(BaseImputer):
    r"""Matrix completion by singular values shrunk towards zero: the nuclear norm's proximal step.

    Parameters
    ----------
    shrinkage
        What is taken off every singular value, relative to the largest one of the matrix with
        zeros for missing entries; or ``"auto"``: chosen by the error on held-out entries.
    seed
        Draws the entries held out.
    low, high
        Bounds that estimates are clipped to; None for no bound.
    tol
        Stop when a proximal step moves the estimates by less than this part.
    max_iter
        Stop after this many steps at the latest, with a warning.

    Attributes
    ----------
    means_, components_
        Offsets of the columns, and the components of rows in units of `scale_`; (rank, columns).
    regularization_
        Weight of the nuclear norm as chosen, in the same units.
    scale_
        Root mean square of what is left of the known entries without the columns' means.
    n_iter_
        Iterations of the last fit.

    Notes
    -----
    The objective, with column means o and the sum over known entries,

    .. math:: \tfrac12 \sum (X_{ij} - o_j - M_{ij})^2 + \lambda \|M\|_*,

    is convex. It is minimised by proximal steps with momentum, for ever smaller shrinkage.
    Mazumder, Hastie and Tibshirani, "Spectral regularization algorithms for learning large
    incomplete matrices" (JMLR 2010), algorithm 1; Beck and Teboulle, "A fast iterative
    shrinkage-thresholding algorithm" (SIAM J. Imaging Sciences 2009).
    """

    means_: Floats
    components_: Floats
    regularization_: float
    n_iter_: int
    scale_: float
    _comparing: bool = False

    def __init__(
        self,
        shrinkage: float | Literal["auto"] = "auto",
        *,
        seed: int = 0,
        low: float | None = None,
        high: float | None = None,
        tol: float = 1e-5,
        max_iter: int = 1000,
    ) -> None:
        self.shrinkage = shrinkage
        self.seed = seed
        self.low = low
        self.high = high
        self.tol = tol
        self.max_iter = max_iter

    def _fit(self, X: Floats) -> None:
        whole("max_iter", self.max_iter, 1)
        number("tol", self.tol, strict=True)
        check_seed(self.seed)
        self._check_bounds()
        candidates = self._candidates(X)
        chosen = candidates[0]
        if len(candidates) > 1:
            self._comparing = True
            chosen = candidates[int(np.argmin(self._held_out_errors(X, candidates)))]
        self._comparing = False
        self._learn(X, chosen)

    def _check_bounds(self) -> None:
        for name, bound in (("low", self.low), ("high", self.high)):
            if bound is not None:
                number(name, bound, least=-LARGEST_NUMBER)
        if self.low is not None and self.high is not None and self.low > self.high:
            raise InputError(f"low is {self.low!r} and high {self.high!r}; low must be the lower.")

    def _candidates(self, X: Floats) -> list[float]:
        """Weights of the nuclear norm to choose among, in units of the entries' size."""
        auto = isinstance(self.shrinkage, str) and self.shrinkage == "auto"
        if not (auto or 0 <= as_float(self.shrinkage) <= LARGEST_NUMBER):
            raise InputError(
                f"shrinkage is {written(self.shrinkage)}; it must be a number >= 0 or 'auto'."
            )
        parts = _AUTO_SHRINKAGES if auto else (as_float(self.shrinkage),)
        known = ~np.isnan(X)
        rest = np.where(known, X - _column_means(X), 0.0)
        largest = np.linalg.norm(rest, 2) / _size_of(rest, known)
        return [float(part * largest) for part in parts]

    def _learn(self, X: Floats, ridge: float) -> None:
        known = ~np.isnan(X)
        means = _column_means(X)
        rest = np.where(known, X - means, 0.0)
        self.regularization_, self.scale_ = ridge, _size_of(rest, known)
        offset, self.components_ = self._factorize(rest / self.scale_, known, ridge)
        self.means_ = means + self.scale_ * offset

    def _held_out_errors(self, X: Floats, candidates: list[float]) -> Floats:
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
            self._learn(rest, candidate)
            errors[index] = np.mean((self._complete(rest)[cells] - X[cells]) ** 2)
        return errors

    def _complete(self, X: Floats) -> Floats:
        known = ~np.isnan(X)
        centred = np.where(known, X - self.means_, 0.0) / self.scale_
        factors = _ridge_rows(centred, known, self.components_, self.regularization_)
        estimate: Floats = self.means_ + self.scale_ * (factors @ self.components_)
        return np.clip(estimate, self.low, self.high)

    def _factorize(self, Y: Floats, known: Bools, ridge: float) -> tuple[Floats, Floats]:
        """Offsets of the columns and components of what is left without the columns' means."""
        offset, _, components = _shrunk(Y, ridge)
        # Large shrinkage converges fast, and is a good start for the next smaller one.
        largest = max(float(np.linalg.norm(Y, 2)), ridge)
        path = [largest * _STEP_OF_PATH**step for step in range(1, _LONGEST_PATH)]
        estimate = np.zeros_like(Y)
        for shrinkage in (*(each for each in path if each > ridge), ridge):
            exact = shrinkage == ridge and not self._comparing
            tol, limit = (self.tol, self.max_iter) if exact else (_ROUGHLY, _FEW)
            fit, estimate, moved = self._descend(Y, known, shrinkage, estimate, tol, limit)
            offset, _, components = fit
        if moved > self.tol and not self._comparing:
            warnings.warn(
                f"SoftImpute did not converge in {self.max_iter} iterations: the last one moved "
                f"the estimates by {moved:.1e} of their size, tol is {self.tol:g}.",
                RuntimeWarning,
                stacklevel=2,
            )
        return offset, components

    def _descend(
        self, Y: Floats, known: Bools, shrinkage: float, estimate: Floats, tol: float, limit: int
    ) -> tuple[tuple[Floats, Floats, Floats], Floats, float]:
        """Take accelerated proximal steps until one moves the estimates by less than `tol`.

        Returns offset, scores and components, their estimates, and how far the last step moved.
        """
        ahead, momentum, moved = estimate, 1.0, np.inf
        for iteration in range(1, limit + 1):
            self.n_iter_ = iteration
            filled = np.where(known, Y, ahead)
            offset, scores, components = _shrunk(filled, shrinkage)
            previous, estimate = estimate, offset + scores @ components
            step = estimate - ahead
            size = max(float(np.linalg.norm(estimate)), 1e-12)
            moved = float(np.linalg.norm(step)) / size
            if moved <= tol:
                break
            # The momentum starts anew where it points away from where the step goes.
            if (step * (estimate - previous)).sum() < 0:
                momentum = 1.0
            after = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
            ahead = estimate + (momentum - 1.0) / after * (estimate - previous)
            momentum = after
        return (offset, scores, components), np.asarray(estimate), moved


def _shrunk(Y: Floats, ridge: float) -> tuple[Floats, Floats, Floats]:
    """Column means and the two factors of a matrix, its singular values less by `ridge`."""
    offset = np.asarray(Y.mean(axis=0), dtype=np.float64)
    centred = Y - offset
    wide = Y.shape[0] <= Y.shape[1]
    # The Gram matrix of the shorter side is small where the decomposition of all is not.
    squares, vectors = np.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
    singular = np.sqrt(np.maximum(squares[::-1], 0.0))
    rank = max(1, int(np.count_nonzero(singular > ridge)))
    vectors, singular = vectors[:, ::-1][:, :rank], singular[:rank]
    root = np.sqrt(np.maximum(singular - ridge, 0.0))
    # Of scores and components, one is read off the vectors and the other off the matrix.
    other = np.divide(root, singular, out=np.zeros(rank), where=root > 0)
    if wide:
        return offset, vectors * root, other[:, None] * (vectors.T @ centred)
    return offset, centred @ vectors * other, root[:, None] * vectors.T


def _column_means(X: Floats) -> Floats:
    """Mean of the known entries of each column; of the whole matrix where a column has none."""
    known = ~np.isnan(X)
    total = np.where(known, X, 0.0).sum(axis=0)
    count = known.sum(axis=0)
    means = np.where(count > 0, total / np.maximum(count, 1), total.sum() / count.sum())
    return np.asarray(means, dtype=np.float64)


def _size_of(rest: Floats, known: Bools) -> float:
    """Root mean square of the known entries; 1 where they are all zero."""
    size = float(np.sqrt((rest**2).sum() / max(1, int(known.sum()))))
    return size if size > 0 else 1.0


def _order(X: Floats) -> Ints:
    """Order of rows that depends on the numbers in each, wherever those stand."""
    return np.lexsort(np.sort(X, axis=1).T[::-1])


def _ridge_rows(Y: Floats, known: Bools, components: Floats, ridge: float) -> Floats:
    """Ridge regression of every row on the components, over its known entries."""
    rank = components.shape[0]
    # A vanishing ridge keeps rows with fewer known entries than components solvable.
    floor = max(ridge, 1e-12)
    gram = (components[None] * known[:, None, :]) @ components.T + floor * np.eye(rank)
    factors = np.linalg.solve(gram, (Y @ components.T)[..., None])[..., 0]
    return np.asarray(factors, dtype=np.float64)
