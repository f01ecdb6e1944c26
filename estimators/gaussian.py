"""Completion of rows by complete ones: conditioned on a learnt normal distribution, or mixed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import nnls

from apportion.checks import number
from apportion.errors import InputError
from apportion.estimators.imputer import BaseImputer, check_bounds

if TYPE_CHECKING:
    from apportion.types import Bools, Floats


_WORTH = 12.0
_CLOSENESS = (0.02, 0.05, 0.1, 0.2, 0.4)
_FEWEST_ROWS = 3
_LEAST_VARIANCE = 1e-9
"""Part of the total: without noise at all the covariance of repeated measurements is singular."""


def _complete_rows(imputer: BaseImputer, X: Floats) -> Floats:
    """Return the rows without missing entries."""
    complete = ~np.isnan(X).any(axis=1)
    if not complete.any():
        raise InputError(
            f"{type(imputer).__name__} needs at least one row without missing entries; none of the "
            f"{X.shape[0]} rows is complete. AlternatingLeastSquares needs none."
        )
    return X[complete]


class _Conditional(NamedTuple):
    """Precision of the known entries, their log volume, and the gain from them to all entries."""

    precision: Floats
    log_volume: float
    gain: Floats


class GaussianImputer(BaseImputer):
    r"""Estimate a row as `SpeedModel` does, without a scale of its own.

    Rows are drawn one half from :math:`N(\mu, S)`, one half from around the R complete rows,
    :math:`N(x_r, \rho S)`, each alike. With F the complete rows less their mean :math:`\mu`,

    .. math:: S = \frac{12\, T + F^T F}{12 + R}, \qquad T = t_0 1 1^T + t_1 I,

    where :math:`t_0` is the variance of the rows' means and :math:`t_1` that of the rest;
    :math:`\rho` is chosen by the likelihood of every complete row given the others.

    Parameters
    ----------
    noise
        Standard deviation of a known entry, as a part of the root mean square of all entries.

    low, high
        Bounds that estimates are clipped to; None for no bound.

    Notes
    -----
    After `fit`: ``rows_``, the complete rows, ``mean_``, ``covariance_`` and ``closeness_``.
    """

    rows_: Floats
    mean_: Floats
    covariance_: Floats
    closeness_: float

    def __init__(
        self, noise: float = 0.02, *, low: float | None = None, high: float | None = None
    ) -> None:
        self.noise = noise
        self.low = low
        self.high = high

    def _fit(self, X: Floats) -> None:
        noise = number("noise", self.noise, most=10.0)
        check_bounds(self.low, self.high)
        self.rows_ = _complete_rows(self, X)
        self.mean_ = self.rows_.mean(axis=0)
        count, size = self.rows_.shape
        rest = self.rows_ - self.mean_
        own = rest.mean(axis=1, keepdims=True)
        total = float((self.rows_**2).mean()) or 1.0
        common = float((own**2).mean())
        each = max(float(((rest - own) ** 2).mean()), _LEAST_VARIANCE * total)
        structured = common * np.ones((size, size)) + each * np.eye(size)
        self.covariance_ = (_WORTH * structured + rest.T @ rest) / (_WORTH + count)
        self._variance = max(noise**2, _LEAST_VARIANCE) * total
        self.closeness_ = self._most_likely()

    def _most_likely(self) -> float:
        """Choose how close rows are to each other by the likelihood of each among the rest."""
        count = len(self.rows_)
        if count < _FEWEST_ROWS:
            return _CLOSENESS[-1]
        everything = np.ones(self.rows_.shape[1], dtype=bool)
        broad = self._log_density(self.rows_ - self.mean_, self._given(everything, 1.0))
        apart = self.rows_[:, None] - self.rows_[None]
        likelihood = []
        for closeness in _CLOSENESS:
            near = self._log_density(apart, self._given(everything, closeness))
            np.fill_diagonal(near, -np.inf)
            near -= np.log(count - 1)
            both = np.concatenate([broad[:, None], near], axis=1)
            likelihood.append(float(np.logaddexp.reduce(both, axis=1).sum()))
        # Equal up to rounding: the broadest of them, whatever the order of the rows.
        least = max(likelihood) - 1e-9 * (1.0 + abs(max(likelihood)))
        return max(
            each for each, found in zip(_CLOSENESS, likelihood, strict=True) if found >= least
        )

    def _complete(self, X: Floats) -> Floats:
        patterns, of_row = np.unique(~np.isnan(X), axis=0, return_inverse=True)
        place = of_row.reshape(-1)
        result = np.empty_like(X)
        for number_of, known in enumerate(patterns):
            rows = np.flatnonzero(place == number_of)
            result[rows] = self._mixed(X[np.ix_(rows, known)], known)
        return np.clip(result, self.low, self.high)

    def _mixed(self, values: Floats, known: Bools) -> Floats:
        """Return the expected rows of some that have the same known entries."""
        broad = self._given(known, 1.0)
        rest = values - self.mean_[known]
        mean = self.mean_ + rest @ broad.gain.T
        if len(self.rows_) < _FEWEST_ROWS or not known.any():
            return np.asarray(mean)
        near = self._given(known, self.closeness_)
        apart = values[:, None] - self.rows_[None, :, known]
        others = self._log_density(apart, near) - np.log(len(self.rows_))
        weight = np.concatenate([self._log_density(rest, broad)[:, None], others], axis=1)
        weight = np.exp(weight - weight.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        means = self.rows_[None] + apart @ near.gain.T
        mixed = weight[:, :1] * mean + np.einsum("ir,irc->ic", weight[:, 1:], means)
        return np.asarray(mixed, dtype=np.float64)

    def _given(self, known: Bools, closeness: float) -> _Conditional:
        """Condition the distribution on some entries."""
        covariance = closeness * self.covariance_
        inside = covariance[np.ix_(known, known)] + self._variance * np.eye(int(known.sum()))
        precision = np.asarray(np.linalg.inv(inside), dtype=np.float64)
        volume = float(np.linalg.slogdet(inside)[1])
        return _Conditional(precision, volume, covariance[:, known] @ precision)

    @staticmethod
    def _log_density(residual: Floats, given: _Conditional) -> Floats:
        square = ((residual @ given.precision) * residual).sum(axis=-1)
        return np.asarray(-0.5 * (square + given.log_volume), dtype=np.float64)


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
        self.rows_ = _complete_rows(self, X)
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
