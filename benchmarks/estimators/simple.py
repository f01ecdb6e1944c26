"""Simple ways to estimate pair throughputs, with what the estimators are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.estimators.estimate import draw_measurements

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

SIMPLE_PAIRS = ("constant", "additive", "nearest reference, no completion")


def simple_pairs(
    way: str, truth: Floats, references: Ints, share: float, noise: float, seed: int
) -> Floats:
    """Normalised throughputs of all pairs, every type unknown; the same draws as `estimate_pairs`.

    Parameters
    ----------
    way
        One of `SIMPLE_PAIRS`. Constant: the references' mean on each accelerator. Additive: plus
        what a job keeps and what its partner leaves, each a mean. Nearest: the values of the
        reference whose measured cells differ least in square.
    truth, references, share, noise, seed
        As in the benchmark of pairs.
    """
    rng = np.random.default_rng(seed)
    rng.permutation(len(truth))  # which references: drawn by the caller
    known = truth[np.ix_(references, references)]
    own, other = draw_measurements(truth, references, share, rng, noise)
    mean = known.mean(axis=(0, 1))
    if way == "constant":
        return np.broadcast_to(mean, truth.shape)
    if way == "additive":
        beside = known.mean(axis=0) - mean
        keeps = _mean(own - (mean + beside)[None])
        leaves = _mean(other - (mean + known.mean(axis=1) - mean)[None])
        return np.asarray(mean + keeps[:, None, None] + leaves[None, :, None])
    difference = _mean_square(own[:, None] - known[None])
    difference += _mean_square(other[:, None] - known.transpose(1, 0, 2)[None])
    nearest = difference.argmin(axis=1)
    return np.asarray(known[np.ix_(nearest, nearest)])


def _mean(values: Floats) -> Floats:
    """Mean of what is known of each job, 0 where nothing is."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=(1, 2))
    return np.asarray(total / np.maximum(known.sum(axis=(1, 2)), 1))


def _mean_square(values: Floats) -> Floats:
    """Mean square of what is known of each job against each reference."""
    known = ~np.isnan(values)
    total = np.where(known, values**2, 0.0).sum(axis=(2, 3))
    return np.asarray(total / np.maximum(known.sum(axis=(2, 3)), 1))
