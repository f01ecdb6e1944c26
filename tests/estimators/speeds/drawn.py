"""Tables of speeds drawn from known distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

COLUMNS = [(name, gpus) for name in ("v100", "p100", "k80") for gpus in (1, 2, 4, 8)]


def drawn_covariance(
    rng: np.random.Generator, size: int = len(COLUMNS), factors: int = 3
) -> Floats:
    loadings = rng.normal(size=(size, factors))
    return 0.3 / factors * loadings @ loadings.T + 0.02 * np.eye(size)


def drawn_rows(
    rng: np.random.Generator, count: int, covariance: Floats, mean: Floats, noise: float = 0.05
) -> tuple[Floats, Floats]:
    """Logarithms of true speeds, and of what is measured of them."""
    size = len(mean)
    scale = 3 * rng.normal(size=(count, 1))
    # By the factor of Cholesky, which is one only: singular vectors hang on the processor.
    truth = (
        mean + scale + rng.multivariate_normal(np.zeros(size), covariance, count, method="cholesky")
    )
    return truth, truth + noise * rng.normal(size=truth.shape)


def with_holes(rng: np.random.Generator, rows: Floats, share: float, least: int = 1) -> Floats:
    """Rows with a share of their cells hidden, and at least some left."""
    rank = rng.random(rows.shape).argsort(axis=1).argsort(axis=1)
    hidden = (rng.random(rows.shape) < share) & (rank >= least)
    return np.where(hidden, np.nan, rows)
