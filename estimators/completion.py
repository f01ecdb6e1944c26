"""Low-rank matrix completion: alternating least squares and soft-impute.

Both estimate a matrix by the means of its columns plus ``U @ components_`` of low rank, and choose
rank or regularisation by the error on entries that they hold out.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np

from apportion.errors import InputError
from apportion.estimators.imputer import column_means
from apportion.estimators.low_rank import LowRankImputer, ridge_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]
    Auto = Literal["auto"]

__all__ = ["AlternatingLeastSquares", "SoftImpute"]

_AUTO_RANKS = (1, 2, 3, 4, 6, 8)
_AUTO_REGULARIZATIONS = (1.0, 0.1, 0.01)
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
        ranks: Sequence[int] = _AUTO_RANKS if self.rank == "auto" else (_rank(self.rank),)
        least = min(X.shape)
        ranks = [rank for rank in ranks if rank <= least] or [least]
        auto = self.regularization == "auto"
        ridges = _AUTO_REGULARIZATIONS if auto else (_positive(self, self.regularization),)
        return list(product(ranks, ridges))

    def _factorize(self, Y: Floats, known: Mask, rank: int, ridge: float) -> tuple[Floats, Floats]:
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
    """Matrix completion by singular values shrunk towards zero: the nuclear norm's proximal step.

    Parameters
    ----------
    shrinkage
        What is taken off every singular value, relative to the largest one of the matrix with
        zeros for missing entries; or ``"auto"``: chosen by the error on held-out entries.
    seed, low, high, tol, max_iter
        As for `AlternatingLeastSquares`.

    Notes
    -----
    Mazumder, Hastie and Tibshirani, "Spectral regularization algorithms for learning large
    incomplete matrices" (JMLR 2010), algorithm 1.
    """

    def __init__(
        self,
        shrinkage: float | Auto = "auto",
        *,
        seed: int = 0,
        low: float | None = None,
        high: float | None = None,
        tol: float = 1e-3,
        max_iter: int = 200,
    ) -> None:
        self.shrinkage = shrinkage
        self.seed = seed
        self.low = low
        self.high = high
        self.tol = tol
        self.max_iter = max_iter

    def _candidates(self, X: Floats) -> Sequence[tuple[int, float]]:
        auto = self.shrinkage == "auto"
        parts = _AUTO_SHRINKAGES if auto else (_positive(self, self.shrinkage),)
        largest = np.linalg.norm(np.where(np.isnan(X), 0.0, X - column_means(X)), 2)
        return [(min(X.shape), float(part * largest)) for part in parts]

    def _factorize(self, Y: Floats, known: Mask, rank: int, ridge: float) -> tuple[Floats, Floats]:
        offset, scores, components = _shrunk(Y, ridge)
        filled = Y
        for iteration in range(1, self.max_iter + 1):
            self.n_iter_ = iteration
            previous = filled
            filled = np.asarray(np.where(known, Y, offset + scores @ components))
            offset, scores, components = _shrunk(filled, ridge)
            if np.linalg.norm(filled - previous) <= self.tol * np.linalg.norm(filled):
                break
        self.rank_ = len(components)
        return offset, components


def _shrunk(Y: Floats, ridge: float) -> tuple[Floats, Floats, Floats]:
    """Column means and the two factors of a matrix, its singular values less by `ridge`."""
    offset = np.asarray(Y.mean(axis=0), dtype=np.float64)
    u, singular, vt = np.linalg.svd(Y - offset, full_matrices=False)
    rank = max(1, int(np.count_nonzero(singular > ridge)))
    root = np.sqrt(np.maximum(singular[:rank] - ridge, 0.0))
    return offset, np.asarray(u[:, :rank] * root), np.asarray(root[:, None] * vt[:rank])


def _rank(rank: object) -> int:
    if isinstance(rank, (int, np.integer)) and not isinstance(rank, bool) and rank >= 1:
        return int(rank)
    raise InputError(f"rank is {rank!r}; it must be a whole number >= 1 or 'auto'.")


def _positive(imputer: LowRankImputer, value: object) -> float:
    if isinstance(value, (int, float, np.number)) and np.isfinite(value) and value >= 0:
        return float(value)
    raise InputError(
        f"{imputer!r}: {value!r} is no regularisation; it must be a number >= 0 or 'auto'."
    )
