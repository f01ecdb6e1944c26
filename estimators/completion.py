"""Low-rank matrix completion: alternating least squares and soft-impute.

Both estimate a matrix by the means of its columns plus ``U @ components_`` of low rank, and choose
rank or regularisation by the error on entries that they hold out.
"""

from __future__ import annotations

import warnings
from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np

from apportion.checks import LARGEST_NUMBER, as_float, whole
from apportion.errors import InputError
from apportion.estimators.imputer import LowRankImputer, column_means, ridge_rows, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.types import Bools, Floats

    Auto = Literal["auto"]

_AUTO_RANKS = (1, 2, 3, 4, 6, 8)
_AUTO_REGULARIZATIONS = (1.0, 0.1, 0.01)
_STEP_OF_PATH, _LONGEST_PATH = 0.4, 12
_ROUGHLY, _FEW = 1e-3, 30
"""Tolerance and most iterations at the shrinkages on the way, and while they are compared."""
_AUTO_SHRINKAGES = (0.3, 0.1, 0.05, 0.02, 0.01)


class AlternatingLeastSquares(LowRankImputer):
    """Matrix completion by ridge regression of rows on columns and columns on rows, in turn.

    Parameters
    ----------
    rank
        Rank of the product, or ``"auto"``: chosen by the error on held-out entries.
    regularization
        Weight of the squared factors against the squared error, or ``"auto"``.
    seed
        Draws the entries held out.
    low, high
        Bounds that estimates are clipped to; None for no bound.
    tol
        Stop when the estimates change by less than this part.
    max_iter
        Stop after this many rounds at the latest.

    Notes
    -----
    Zhou, Wilkinson, Schreiber and Pan, "Large-scale parallel collaborative filtering for the
    Netflix prize" (AAIM 2008), without their weights. The start is the singular value
    decomposition of the matrix with zeros for missing entries: no random start.
    """

    def __init__(
        self,
        rank: int | Auto = "auto",
        regularization: float | Auto = "auto",
        *,
        seed: int = 0,
        low: float | None = None,
        high: float | None = None,
        tol: float = 1e-3,
        max_iter: int = 100,
    ) -> None:
        self.rank = rank
        self.regularization = regularization
        self.seed = seed
        self.low = low
        self.high = high
        self.tol = tol
        self.max_iter = max_iter

    def _candidates(self, X: Floats) -> Sequence[tuple[int, float]]:
        ranks: Sequence[int] = _AUTO_RANKS if _auto(self.rank) else (whole("rank", self.rank, 1),)
        least = min(X.shape)
        ranks = [rank for rank in ranks if rank <= least] or [least]
        auto = _auto(self.regularization)
        ridges = _AUTO_REGULARIZATIONS if auto else (_positive(self, self.regularization),)
        return list(product(ranks, ridges))

    def _factorize(self, Y: Floats, known: Bools, rank: int, ridge: float) -> tuple[Floats, Floats]:
        _, singular, vt = np.linalg.svd(Y, full_matrices=False)
        components: Floats = np.sqrt(singular[:rank, None]) * vt[:rank]
        offset = np.zeros(Y.shape[1])
        estimate = np.zeros_like(Y)
        for iteration in range(1, self.max_iter + 1):
            self.n_iter_ = iteration
            factors = ridge_rows(known * (Y - offset), known, components, ridge)
            # The mean of the known entries is not that of the column: it is estimated alongside.
            design = np.column_stack([factors, np.ones(len(Y))])
            columns = ridge_rows(Y.T, known.T, design.T, ridge)
            components, offset = columns[:, :-1].T, columns[:, -1]
            previous, estimate = estimate, offset + factors @ components
            if np.linalg.norm(estimate - previous) <= self.tol * np.linalg.norm(estimate):
                break
        return offset, components


class SoftImpute(LowRankImputer):
    r"""Matrix completion by singular values shrunk towards zero: the nuclear norm's proximal step.

    Parameters
    ----------
    shrinkage
        What is taken off every singular value, relative to the largest one of the matrix with
        zeros for missing entries; or ``"auto"``: chosen by the error on held-out entries.
    seed, low, high
        As for `AlternatingLeastSquares`.
    tol
        Stop when a proximal step moves the estimates by less than this part.
    max_iter
        Stop after this many steps at the latest, with a warning.

    Notes
    -----
    The objective, with column means o and the sum over known entries,

    .. math:: \tfrac12 \sum (X_{ij} - o_j - M_{ij})^2 + \lambda \|M\|_*,

    is convex. It is minimised by proximal steps with momentum, for ever smaller shrinkage.
    Mazumder, Hastie and Tibshirani, "Spectral regularization algorithms for learning large
    incomplete matrices" (JMLR 2010), algorithm 1; Beck and Teboulle, "A fast iterative
    shrinkage-thresholding algorithm" (SIAM J. Imaging Sciences 2009).
    """

    def __init__(
        self,
        shrinkage: float | Auto = "auto",
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

    def _candidates(self, X: Floats) -> Sequence[tuple[int, float]]:
        auto = _auto(self.shrinkage)
        parts = _AUTO_SHRINKAGES if auto else (_positive(self, self.shrinkage),)
        known = ~np.isnan(X)
        rest = np.where(known, X - column_means(X), 0.0)
        largest = np.linalg.norm(rest, 2) / size_of(rest, known)
        return [(min(X.shape), float(part * largest)) for part in parts]

    def _factorize(self, Y: Floats, known: Bools, rank: int, ridge: float) -> tuple[Floats, Floats]:
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
        self.rank_ = len(components)
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


def _auto(value: object) -> bool:
    return isinstance(value, str) and value == "auto"


def _positive(imputer: LowRankImputer, value: object) -> float:
    if 0 <= as_float(value) <= LARGEST_NUMBER:
        return as_float(value)
    raise InputError(
        f"{imputer!r}: {value!r} is no regularisation; it must be a number >= 0 or 'auto'."
    )
