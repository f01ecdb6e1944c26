"""Speeds of jobs that were hardly measured: the model, and imputers called like it.

Calls are those of scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from apportion.checks import LARGEST_NUMBER, number, yes_no
from apportion.errors import InputError, written
from apportion.estimators.imputer import BaseImputer
from apportion.estimators.mixture import MixtureImputer
from apportion.estimators.speeds.posterior import posterior
from apportion.estimators.speeds.prior import learn_prior
from apportion.estimators.speeds.tables import (
    CompletesTables,
    OfTables,
    nothing_to_learn,
    read_counts,
)
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from apportion.estimators.speeds.prior import SpeedPrior
    from apportion.estimators.speeds.tables import SpeedTable
    from apportion.types import Floats


_MOST_NOISE = 10.0
"""Most standard deviations of a logarithm: beyond it, measurements say nothing."""

_LEAST_NOISE = 1e-4
"""Least standard deviation reckoned with: it keeps covariances away from singular ones."""


class SpeedModel(OfTables):
    r"""Predict steps/s on columns (accelerator, GPUs[, tier]) from a few measured ones.

    The logarithm of the speed of job i on column c is

    .. math:: y_{ic} = \mu_c + b_i + f_{ic} + e_{ic}, \qquad e_{ic} \sim N(0, s^2).

    Ratios between columns :math:`\mu` are those of the references. The scale b has a flat prior: a
    row times a constant gives predictions times that constant. The deviations f are drawn from
    N(0, S).

    * :math:`\mu` is estimated by generalised least squares, under the weak prior
      :math:`0.8 \ln g`;
    * S by expectation-maximisation, in which a prior by accelerators and scaling counts for 12
      rows (`apportion.estimators.speeds.prior`); times 1 + 1/R, as :math:`\mu` is known from R
      rows only.

    Predictions are exact conditional means and standard deviations (`posterior`).

    Parameters
    ----------
    columns
        Labels of the columns: ``"v100"``, ``("v100", 4)``, ``("v100", "rack")`` or ``("v100", 4,
        "rack")``. Those of the table if left out.
    noise
        s, standard deviation of the logarithm of a measurement.

    Attributes
    ----------
    columns_
        Labels of the columns.
    prior_
        What was learnt, see `SpeedPrior`.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"v100": [40.0, 30, 9], "p100": [20.0, 16, 8], "k80": [5.0, 4, 4]})
    >>> model = SpeedModel().fit(table)
    >>> job = pd.DataFrame({"v100": [80.0], "p100": [42.0], "k80": [None]}, index=["new"])
    >>> speeds, sd = model.predict(job, return_std=True)
    """

    prior_: SpeedPrior

    def __init__(self, columns: Iterable[Hashable] | None = None, *, noise: float = 0.05) -> None:
        self.columns = columns
        self.noise = noise

    @one_thread
    def fit(self, table: Any, y: None = None) -> Self:
        """Learn from reference jobs.

        Parameters
        ----------
        table
            Steps/s, a DataFrame or an array, one row per reference; NaN where not measured, 0
            where it cannot run (both say nothing). No rows at all are allowed.
        y
            Not used; there for pipelines.

        Raises
        ------
        InputError
            For what is no table of finite numbers >= 0, and for options out of range.
        """
        noise = noise_level(self.noise)
        read = self._read_table(table)
        self.prior_ = learn_prior(read.logs, read.columns, noise)
        self._learnt(read.columns)
        return self

    @one_thread
    def predict(self, rows: Any, *, return_std: bool = False, counts: Any = None) -> Any:
        """Complete rows; what was measured, and what cannot run (0), is returned as it is.

        Parameters
        ----------
        rows
            Steps/s, NaN where wanted. A DataFrame may have the columns in any order, and lack some.
        return_std
            Whether to return standard deviations too.
        counts
            How many measurements each speed is the geometric mean of; 1 if left out.

        Returns
        -------
        DataFrame or array, or two of them
            The shape of `rows`: steps/s, and standard deviations of their natural logarithm (that
            of the measurement for measured cells, 0 where a row cannot run). Of a row without a
            measurement only the ratios are meant: its scale is the references' mean.

        Raises
        ------
        InputError
            Before `fit`, for columns that it did not see, and values that are no speeds.
        """
        return_std = yes_no("return_std", return_std)
        read = self._read_rows(rows)
        many = read_counts(counts, read)
        mean, sd = posterior(self.prior_, np.nan_to_num(read.logs), many)
        guess = np.exp(np.minimum(mean, np.log(LARGEST_NUMBER)))
        speeds = np.where(np.isnan(read.speeds), guess, read.speeds)
        own = self.prior_.noise / np.sqrt(np.maximum(many, 1e-300))
        sd = np.where(many > 0, own, np.where(read.speeds == 0, 0.0, sd))
        if return_std:
            return read.like_given(speeds), read.like_given(sd)
        return read.like_given(speeds)


def noise_level(noise: Any) -> float:
    """Check the standard deviation of measurements, and keep it from being none at all."""
    return max(number("noise", noise, most=_MOST_NOISE), _LEAST_NOISE)


class ColumnMeans(CompletesTables):
    """Predict for every row the geometric mean of each column over the references.

    Nothing of a row changes what is predicted for its other cells: this is what `SpeedModel` is to
    be compared with. A column that no reference was measured on gets 0.8 ln g above the mean.

    Parameters
    ----------
    columns
        Labels of the columns, see `SpeedModel`.
    """

    def __init__(self, columns: Iterable[Hashable] | None = None) -> None:
        self.columns = columns

    def fit(self, table: Any, y: None = None) -> Self:
        """Learn from reference jobs, see `SpeedModel.fit`.

        Raises
        ------
        InputError
            For what is no table of finite numbers >= 0, and a table without a number.
        """
        read = self._read_table(table)
        known = ~np.isnan(read.logs)
        if not known.any():
            raise nothing_to_learn()
        count, total = known.sum(axis=0), np.where(known, read.logs, 0.0).sum(axis=0)
        usual = read.columns.usual
        level = np.where(known, read.logs - usual, 0.0).sum() / known.sum()
        self._mean = np.where(count > 0, total / np.maximum(count, 1), usual + level)
        self._learnt(read.columns)
        return self

    def _guess(self, read: SpeedTable) -> Floats:
        return np.asarray(np.exp(self._mean), dtype=float)


_SWEEPS = 50


class ImputedSpeeds(CompletesTables):
    r"""Predict steps/s by a scale for every row, a ratio for every column, and an imputer.

    Logarithms of speeds are :math:`b_i + \mu_c` by least squares, and what is left of them is
    completed by the imputer. `SpeedModel` is more exact nearly everywhere (see the documentation);
    this is what it is to be compared with.

    Parameters
    ----------
    imputer
        A `BaseImputer`, `MixtureImputer` by default; ``"additive"`` for none: what is left is 0.
    columns
        Labels of the columns, see `SpeedModel`.
    """

    def __init__(
        self, imputer: BaseImputer | str | None = None, columns: Iterable[Hashable] | None = None
    ) -> None:
        self.imputer = imputer
        self.columns = columns

    @one_thread
    def fit(self, table: Any, y: None = None) -> Self:
        """Learn from reference jobs, see `SpeedModel.fit`.

        Raises
        ------
        InputError
            For what is no table of finite numbers >= 0, and a table without a number.
        """
        imputer = MixtureImputer() if self.imputer is None else self.imputer
        plain = isinstance(imputer, str) and imputer == "additive"
        if not (plain or isinstance(imputer, BaseImputer)):
            raise InputError(
                f"imputer is {written(imputer)}; it must be an imputer of this package such as "
                f"MixtureImputer(), or 'additive'."
            )
        read = self._read_table(table)
        rows = read.logs[~np.isnan(read.logs).all(axis=1)]
        if not len(rows):
            raise nothing_to_learn()
        self._ratios = _ratios(rows, read.columns.usual)
        self._imputer = imputer if isinstance(imputer, BaseImputer) else None
        if self._imputer is not None:
            rest = rows - self._ratios
            rest = rest - np.nanmean(rest, axis=1, keepdims=True)
            # References with holes are as the ratios say there: mixtures need complete rows.
            mixed = isinstance(imputer, MixtureImputer)
            self._imputer.fit(np.nan_to_num(rest) if mixed else rest)
        self._learnt(read.columns)
        return self

    def _guess(self, read: SpeedTable) -> Floats:
        rest = read.logs - self._ratios
        many = np.count_nonzero(~np.isnan(rest), axis=1)
        scale = np.nan_to_num(rest).sum(axis=1, keepdims=True) / np.maximum(many, 1)[:, None]
        guess = np.broadcast_to(scale + self._ratios, rest.shape)
        if self._imputer is not None and len(rest):
            guess = guess + self._imputer.transform(rest - scale)
        return np.asarray(np.exp(np.minimum(guess, np.log(LARGEST_NUMBER))), dtype=float)


def _ratios(rows: Floats, usual: Floats) -> Floats:
    """Ratios between columns by least squares; the usual ones for columns nobody measured."""
    known = ~np.isnan(rows)
    filled, count = np.where(known, rows, 0.0), known.sum(axis=0)
    ratios = usual
    for _ in range(_SWEEPS):
        scale = np.where(known, filled - ratios, 0.0).sum(axis=1) / known.sum(axis=1)
        total = np.where(known, filled - scale[:, None], 0.0).sum(axis=0)
        ratios = np.where(count > 0, total / np.maximum(count, 1), usual)
    return np.asarray(ratios, dtype=np.float64)
