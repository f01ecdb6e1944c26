"""Speeds of jobs that were hardly measured: the model, with scikit-learn's calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from apportion.checks import LARGEST_NUMBER, number, yes_no
from apportion.estimators.speeds.posterior import posterior
from apportion.estimators.speeds.prior import learn_prior
from apportion.estimators.speeds.tables import OfTables, read_counts
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from apportion.estimators.speeds.prior import SpeedPrior


_MOST_NOISE = 10.0
"""Most standard deviations of a logarithm: beyond it, measurements say nothing."""

_LEAST_NOISE = 1e-4
"""Least standard deviation reckoned with: it keeps covariances away from singular ones."""


class SpeedModel(OfTables):
    r"""Predict steps/s on columns (accelerator, GPUs[, tier]) from a few measured ones.

    The logarithm of the speed of job i on column c is

    .. math:: y_{ic} = \mu_c + b_i + f_{ic} + e_{ic}, \qquad e_{ic} \sim N(0, s^2).

    Ratios between columns :math:`\mu` are those of the references. The scale b has a flat prior: a
    row times a constant gives predictions times that constant. The deviations f are drawn one half
    from N(0, S), one half from around the references, :math:`N(f_r, \rho S)`, each alike.

    * :math:`\mu` is estimated by generalised least squares, under the weak prior
      :math:`0.8 \ln g`;
    * S in two steps: four variances of accelerators and of scaling by restricted maximum
      likelihood, then expectation-maximisation without structure, in which that start counts for
      12 rows, or for 24, 48 or 96 if every row is likelier by it given the others; times 1 + 1/R,
      as :math:`\mu` is known from R rows only;
    * :math:`\rho` out of {.02, .05, .1, .2, .4} by the likelihood of every reference given the
      others.

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
