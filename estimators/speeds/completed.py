"""A throughput tensor out of a table with holes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_NUMBER, mapping, number
from apportion.errors import InputError, written
from apportion.estimators.speeds.columns import SpeedColumns
from apportion.estimators.speeds.model import noise_level
from apportion.estimators.speeds.posterior import posterior
from apportion.estimators.speeds.prior import learn_prior
from apportion.estimators.speeds.tables import read_speeds
from apportion.tensor import ThroughputTensor
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.problem_inputs import Jobs, Workers


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
    seen = (asked.speeds > 0).astype(np.float64)
    mean, sd = posterior(prior, np.nan_to_num(asked.logs), seen)
    unmeasured = ~(seen > 0).any(axis=1) & wanted.any(axis=1)
    _warn(frame.index[np.flatnonzero(unmeasured)])
    missing = np.isnan(asked.speeds)
    guess = np.exp(np.minimum(mean + hope * sd, np.log(LARGEST_NUMBER)))
    speeds = asked.like_given(np.where(missing, guess, asked.speeds))
    spread = asked.like_given(np.where(missing, sd, np.where(seen > 0, level, 0.0)))
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
