r"""Speeds of a row given those that were measured, in closed form.

The deviations of a row come from one of R + 1 normal distributions: one half from
:math:`N(0, S)`, the other half spread evenly over the references, :math:`N(f_r, \rho S)`. With a
flat prior of the scale and the cells o measured, n times each, component k has

.. math::

    A_k &= C_{k,oo} + \mathrm{diag}(s^2 / n), \qquad
    b_k = \frac{1^T A_k^{-1} (y_o - \mu_{k,o})}{1^T A_k^{-1} 1}, \\
    m_k &= \mu_k + b_k 1 + C_{k,\cdot o} Q_k (y_o - \mu_{k,o}), \\
    v_{k,c} &= C_{k,cc} - C_{k,co} Q_k C_{k,oc}
        + \frac{1 - 2 \cdot 1^T A_k^{-1} C_{k,oc}}{1^T A_k^{-1} 1},

the weight :math:`w_k \propto \pi_k p_k(y_o)` of `apportion.estimators.speeds.variances`, and the
row the mean :math:`m = \sum w_k m_k` and variance :math:`\sum w_k (v_k + m_k^2) - m^2`. One
measurement tells the scale and nothing of the ratios: then the references have no say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.estimators.speeds.prior import REFERENCES_HALF
from apportion.estimators.speeds.variances import contrasts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.estimators.speeds.prior import SpeedPrior
    from apportion.types import Bools, Floats, Ints


_SIZES = (0, 1, 4, 8, 16)
"""Patterns with more measured cells than one of these, and no more than the next, go together."""

_MANY = 100
"""So many patterns are sorted by their very number of measured cells."""

_FIRST: Ints = np.zeros(1, dtype=np.intp)
"""Place of the only pattern."""

_LEAST_COUNT = 1e-12
"""Measurements that a measured cell has at the least: older ones may have faded."""


class _Cells(NamedTuple):
    """Measured cells of patterns, shape (patterns, most cells): columns, those seen, and counts."""

    column: Ints
    seen: Bools
    many: Floats


class _Component(NamedTuple):
    """One covariance, for a stack of patterns of k measured cells each.

    Attributes
    ----------
    precision
        Q, shape (patterns, k, k).
    log_volume
        Shape (patterns,).
    gain
        From residuals to the row, scale included; shape (patterns, columns, k).
    variance
        Of every column, shape (patterns, columns).
    """

    precision: Floats
    log_volume: Floats
    gain: Floats
    variance: Floats


def posterior(prior: SpeedPrior, rows: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the logarithms of speeds.

    Parameters
    ----------
    prior
        Ratios, covariance and references.
    rows
        Mean logarithms of what was measured, anything where nothing was; shape (rows, columns).
    counts
        How many measurements each is the mean of, 0 where nothing was measured; the same shape.

    Returns
    -------
    NDArray[np.float64], NDArray[np.float64]
        The shape of `rows`, measured cells included. Where a row has no measurement, its scale is
        the references' mean and the standard deviation that of its deviations.
    """
    if len(rows) == 1 and counts.any():  # as when one job was measured: nothing to sort
        column = counts[0].nonzero()[0][None]
        many = np.maximum(counts[:, column[0]], _LEAST_COUNT)
        return _given(prior, rows, _Cells(column, many > 0, many), _FIRST)
    patterns, of_row = np.unique(counts, axis=0, return_inverse=True)
    of_row = of_row.reshape(-1)
    mean = np.tile(prior.mean + prior.scale, (len(rows), 1))
    sd = np.tile(np.sqrt(np.diag(_covariances(prior, (1.0,))[0])), (len(rows), 1))
    kind = np.count_nonzero(patterns, axis=1)
    if len(patterns) < _MANY:
        kind = np.searchsorted(_SIZES, kind)
    # Patterns of much the same size are inverted in one stack.
    for each in np.unique(kind[kind > 0]).tolist():
        stack = np.flatnonzero(kind == each)
        chosen = np.flatnonzero(kind[of_row] == each)
        place = np.searchsorted(stack, of_row[chosen])
        cells = _cells(patterns[stack])
        mean[chosen], sd[chosen] = _given(prior, rows[chosen], cells, place)
    return mean, sd


def _cells(patterns: Floats) -> _Cells:
    """Put the measured cells of each pattern first, and leave out the rest as far as it goes."""
    size = int(np.count_nonzero(patterns, axis=1).max())
    column = np.argsort(patterns == 0, axis=1, kind="stable")[:, :size]
    counts = np.take_along_axis(patterns, column, axis=1)
    return _Cells(column, counts > 0, np.maximum(counts, _LEAST_COUNT))


def _given(prior: SpeedPrior, rows: Floats, cells: _Cells, place: Ints) -> tuple[Floats, Floats]:
    """Posterior of rows with some measured cells each; `place` is the pattern of each."""
    of_row, seen = cells.column[place], cells.seen[place]
    measured = np.where(seen, rows[np.arange(len(rows))[:, None], of_row], 0.0)
    level = measured.sum(axis=1, keepdims=True) / seen.sum(axis=1, keepdims=True)
    rest = np.where(seen, measured - level - prior.mean[of_row], 0.0)
    noise = prior.noise**2 / cells.many
    imitates = cells.column.shape[1] > 1 and len(prior.references) > 0
    shares = (1.0, prior.closeness) if imitates else (1.0,)
    kinds = _components(_covariances(prior, shares), cells, noise)
    mean = (kinds[0].gain[place] @ rest[:, :, None])[:, :, 0]
    variance = kinds[0].variance[place]
    if imitates:
        mean, variance = _mixed(prior, rest, of_row, place, kinds, (mean, variance))
    return prior.mean + mean + level, np.sqrt(np.maximum(variance, 0.0))


def _mixed(
    prior: SpeedPrior,
    rest: Floats,
    of_row: Ints,
    place: Ints,
    kinds: list[_Component],
    broad: tuple[Floats, Floats],
) -> tuple[Floats, Floats]:
    """Add the references to what the broad half says, by how likely each is."""
    kind_of_all, kind_of_one = kinds
    deviations = prior.references.T
    residual = rest[:, :, None] - deviations[of_row]
    near = kind_of_one.gain[place] @ residual + deviations
    fit = _misfit(rest[:, :, None], kind_of_all, place), _misfit(residual, kind_of_one, place)
    weights = _shares(*fit)
    first, others = weights[:, :1], weights[:, 1:, None]
    mean = first * broad[0] + (near @ others)[:, :, 0]
    near -= mean[:, :, None]
    near *= near
    apart = (near @ others)[:, :, 0] + first * (broad[0] - mean) ** 2
    within = first * broad[1] + (1.0 - first) * kind_of_one.variance[place]
    return mean, within + apart


def _covariances(prior: SpeedPrior, shares: Sequence[float]) -> Floats:
    """Shares of the covariance, and what is not known of the ratios, which no share makes less."""
    parts = np.array(shares)[:, None, None] * prior.covariance
    return parts if prior.unknown is None else parts + prior.unknown


def _components(covariances: Floats, cells: _Cells, noise: Floats) -> list[_Component]:
    """Condition covariances on every pattern of cells, all in one stack."""
    column = cells.column
    inside = covariances[:, column[:, :, None], column[:, None, :]]
    across = covariances[:, :, column].transpose(0, 2, 1, 3)
    inside += noise[:, :, None] * np.eye(column.shape[1])
    parts = contrasts(inside, cells.seen)
    weights = parts.weights[:, :, None, :]
    gain = across @ parts.precision
    explained = (across * (gain + 2.0 * weights)).sum(axis=3)
    gain += weights
    own = np.diagonal(covariances, axis1=1, axis2=2)[:, None]
    variance = own - explained + 1.0 / parts.total[:, :, None]
    found = zip(parts.precision, parts.log_volume, gain, variance, strict=True)
    return [_Component(*each) for each in found]


def _misfit(residual: Floats, kind: _Component, place: Ints) -> Floats:
    """Minus twice the log density of residuals (rows, k, components), up to a constant."""
    square = ((kind.precision[place] @ residual) * residual).sum(axis=1)
    return np.asarray(square + kind.log_volume[place, None], dtype=np.float64)


def _shares(of_all: Floats, of_each: Floats) -> Floats:
    """Weights of the components, shape (rows, 1 + references), from their misfits."""
    count = of_each.shape[1]
    log_weight = np.concatenate(
        [np.log(1.0 - REFERENCES_HALF) - of_all / 2, np.log(REFERENCES_HALF / count) - of_each / 2],
        axis=1,
    )
    log_weight -= log_weight.max(axis=1, keepdims=True)
    weights = np.exp(log_weight)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float64)
