"""Speeds of jobs that were hardly measured: the model, and tensors out of tables with holes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_NUMBER, mapping, number, yes_no
from apportion.errors import InputError, written
from apportion.estimators.speeds.columns import SpeedColumns
from apportion.estimators.speeds.prior import learn_prior, noise_level, posterior
from apportion.estimators.speeds.tables import read_speeds
from apportion.tensor import ThroughputTensor
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from apportion.estimators.speeds.prior import SpeedPrior
    from apportion.estimators.speeds.tables import SpeedTable
    from apportion.problem_inputs import Jobs, Workers
    from apportion.types import Floats


class SpeedModel:
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

    columns_: tuple[Hashable, ...]
    prior_: SpeedPrior
    _columns: SpeedColumns

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
        named = None if self.columns is None else SpeedColumns.of(self.columns)
        read = read_speeds("The table of speeds", table, named)
        self.prior_ = learn_prior(read.logs, read.columns, noise)
        self._columns, self.columns_ = read.columns, read.columns.labels
        return self

    @one_thread
    def predict(self, rows: Any, *, return_std: bool = False) -> Any:
        """Complete rows; what was measured, and what cannot run (0), is returned as it is.

        Parameters
        ----------
        rows
            Steps/s, NaN where wanted. A DataFrame may have the columns in any order, and lack some.
        return_std
            Whether to return standard deviations too.

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
        if not hasattr(self, "columns_"):
            raise InputError("The SpeedModel has not been fitted yet: call fit first.")
        read = read_speeds("The rows", rows, self._columns)
        speeds, sd = _completed(read, self.prior_, 0.0)
        if return_std:
            return read.like_given(speeds), read.like_given(sd)
        return read.like_given(speeds)


def _completed(read: SpeedTable, prior: SpeedPrior, optimism: float) -> tuple[Floats, Floats]:
    """Return steps/s and the standard deviations of their logarithms, what is measured as it is."""
    measured, missing = read.speeds > 0, np.isnan(read.speeds)
    mean, sd = posterior(prior, np.nan_to_num(read.logs), measured.astype(np.float64))
    guess = np.exp(np.minimum(mean + optimism * sd, np.log(LARGEST_NUMBER)))
    spread = np.where(missing, sd, np.where(measured, prior.noise, 0.0))
    return np.where(missing, guess, read.speeds), spread


@dataclass(frozen=True, eq=False, repr=False)
class EstimatedThroughputs(ThroughputTensor):
    """A throughput tensor, part of which is estimated.

    Parameters
    ----------
    values, workers, jobs_table
        As in `ThroughputTensor`.
    spread
        Standard deviation of the natural logarithm of each throughput: of the measurement where it
        was measured, 0 where a job cannot run. One row per job, one column per option.
    estimated
        Whether a throughput is estimated, of the same shape.
    """

    spread: pd.DataFrame = field(default_factory=pd.DataFrame)
    estimated: pd.DataFrame = field(default_factory=pd.DataFrame)


@one_thread
def estimate_speeds(
    measured: pd.DataFrame | Mapping[Any, Mapping[Any, float]],
    references: pd.DataFrame | None = None,
    *,
    noise: float = 0.05,
    optimism: float = 0.0,
    workers: Workers | None = None,
    jobs: Jobs | None = None,
) -> EstimatedThroughputs:
    r"""Fill the holes of a table of speeds, so that policies can be solved on it.

    What was measured is kept. The model is that of `SpeedModel`; the jobs of the table teach it
    ratios between columns beside the references.

    Parameters
    ----------
    measured
        Steps/s, one row per job; columns are accelerators, (accelerator, GPUs) or (accelerator,
        tier). NaN where not measured, 0 where a job cannot run.
    references
        Steps/s of other jobs, with any columns.
    noise
        Standard deviation of the logarithm of a measurement.
    optimism
        Standard deviations :math:`\kappa` that are added to what is estimated: throughputs are
        :math:`\exp(m + \kappa\, sd)`.
    workers, jobs
        As for `ThroughputTensor.of`.

    Returns
    -------
    EstimatedThroughputs
        A `ThroughputTensor` that knows how sure it is.

    Raises
    ------
    InputError
        For what is no table of finite numbers >= 0 and NaN, labels that stand twice, and jobs that
        run nowhere.

    Warns
    -----
    UserWarning
        If a job has no measurement at all: only the ratios of its throughputs mean anything then,
        and policies that ask for seconds are misled.

    Examples
    --------
    >>> import apportion as ap
    >>> references = pd.DataFrame({"v100": [40.0, 30, 9], "k80": [5.0, 4, 4]})
    >>> known = pd.DataFrame({"v100": [80.0, None], "k80": [None, 2.0]}, index=["a", "b"])
    >>> tensor = ap.estimate_speeds(known, references)
    >>> allocation = ap.solve("max_min_fairness", tensor, workers={"v100": 1, "k80": 1})
    """
    frame = _frame(measured)
    level = noise_level(noise)
    hope = number("optimism", optimism, most=10.0)
    asked = read_speeds("The measured speeds", frame, None)
    columns, known = asked.columns, np.empty((0, len(asked.columns)))
    if references is not None:
        theirs = read_speeds("The references", references, None)
        others = [each for each in theirs.columns.labels if each not in columns.labels]
        columns = SpeedColumns.of([*columns.labels, *others])
        known = read_speeds("The references", references, columns).logs
        asked = read_speeds("The measured speeds", frame, columns)
    wanted = np.isnan(asked.speeds[:, asked.order])
    prior = learn_prior(np.concatenate([known, asked.logs]), columns, level)
    unmeasured = ~(asked.speeds > 0).any(axis=1) & wanted.any(axis=1)
    _warn(frame.index[np.flatnonzero(unmeasured)])
    speeds, spread = map(asked.like_given, _completed(asked, prior, hope))
    tensor = ThroughputTensor.of(speeds, workers=workers, jobs=jobs)
    estimated = pd.DataFrame(wanted, index=frame.index, columns=spread.columns)
    return EstimatedThroughputs(
        tensor.values, tensor.workers, tensor.jobs_table, spread=spread, estimated=estimated
    )


def _frame(measured: Any) -> pd.DataFrame:
    """Return the table as a DataFrame with a row per job."""
    if not isinstance(measured, pd.DataFrame):
        valid = "a DataFrame, or a mapping such as {'job': {'v100': 4.0}}"
        rows = {
            job: mapping(f"The speeds of job {written(job)}", row, "a mapping by column")
            for job, row in mapping("measured", measured, valid).items()
        }
        columns = SpeedColumns.of(
            list(dict.fromkeys(label for row in rows.values() for label in row))
        )
        cells = [[row.get(label, np.nan) for label in columns.labels] for row in rows.values()]
        labels = pd.Index(list(rows), tupleize_cols=False)
        measured = pd.DataFrame(cells, index=labels, columns=columns.index())
    frame: pd.DataFrame = measured
    if frame.index.nlevels != 1:
        raise InputError(
            "The measured speeds have rows of several levels; they need one row per job. Pairs of "
            "jobs are estimated by `estimate_pairs`."
        )
    return frame


def _warn(unmeasured: pd.Index) -> None:
    """Say which jobs have no measurement."""
    if len(unmeasured):
        more = f" and {len(unmeasured) - 1} more" if len(unmeasured) > 1 else ""
        warnings.warn(
            f"Job {written(unmeasured[0])}{more} has no measured speed: only the ratios of its "
            f"throughputs mean anything, not steps/s.",
            UserWarning,
            stacklevel=4,
        )
