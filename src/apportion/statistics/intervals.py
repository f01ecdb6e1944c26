"""Intervals about one figure: Student's about a mean, by resampling about anything else."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from apportion.annotations import checked
from apportion.checks import number, whole
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from apportion.types import Floats


_AT_ONCE = 1_000_000
"""Numbers that are drawn at a time."""


class Interval(NamedTuple):
    """A figure, and between what it lies.

    Attributes
    ----------
    estimate, low, high
        The ends are NaN where one value alone tells nothing of the others.
    """

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"


def check_level(level: float) -> float:
    """Return the level of an interval, between 0 and 1."""
    return number("level", level, strict=True, most=1 - 1e-9)


def half_width(values: Floats, level: float) -> Floats:
    """Return half of Student's interval about means over the last axis; NaN for one value.

    ::

        t(n - 1, (1 + level) / 2) * standard deviation / sqrt(n)
    """
    count = values.shape[-1]
    if count < 2:
        return np.full(values.shape[:-1], np.nan)
    reach = stdtrit(count - 1, (1 + level) / 2) * values.std(axis=-1, ddof=1) / np.sqrt(count)
    return np.asarray(reach, dtype=float)


@checked
def mean_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Return the mean of independent values with Student's interval.

    Parameters
    ----------
    values
        Numbers, such as one figure at several seeds.
    level
        Of the interval.

    Raises
    ------
    InputError
        For no values, values that are not finite, and a level that is not between 0 and 1.
    """
    level, found = check_level(level), _finite(values)
    mean, half = float(found.mean()), float(half_width(found, level))
    return Interval(mean, mean - half, mean + half)


@checked
def bootstrap(
    values: ArrayLike,
    statistic: Callable[..., Floats] = np.mean,
    *,
    level: float = 0.95,
    blocks: int | None = None,
    draws: int = 4999,
    seed: int = 0,
) -> Interval:
    """Return any figure of some values with an interval by resampling (BCa, of scipy).

    Bias-corrected and accelerated percentiles of the figure over samples drawn with replacement
    (Efron 1987). Jobs that follow each other meet the same queue; with `blocks` whole blocks of
    consecutive values are drawn, which keeps what neighbours have in common.

    Parameters
    ----------
    values
        Numbers, in the order of arrival if there are blocks.
    statistic
        Takes an array and ``axis=`` and returns the figure along it: ``np.mean``, ``np.median``, or
        ``lambda x, axis: np.quantile(x, 0.95, axis=axis)``.
    level
        Of the interval.
    blocks
        How many blocks of equal length, up to one value, the values are parted into.
    draws
        How many samples.
    seed
        Of the draws.

    Raises
    ------
    InputError
        For no values, values that are not finite, fewer values than blocks, and arguments out of
        range.
    """
    from scipy import stats  # takes longer to import than all else here

    level, found = check_level(level), _finite(values)
    count = found.size if blocks is None else whole("blocks", blocks, least=2)
    if count > found.size:
        raise InputError(f"{found.size} values cannot be parted into {count} blocks.")
    whole("draws", draws, least=1)
    estimate = float(statistic(found, axis=0))
    if count < 2:
        return Interval(estimate, np.nan, np.nan)
    if np.ptp(found) == 0:
        return Interval(estimate, estimate, estimate)
    parts = np.array_split(found, count)

    def of(chosen: NDArray[np.intp], axis: int = -1) -> Any:
        if blocks is None:
            return statistic(found[chosen], axis=axis)
        rows = chosen.reshape(-1, chosen.shape[-1])
        each = [statistic(np.concatenate([parts[k] for k in row]), axis=0) for row in rows]
        return np.reshape(each, chosen.shape[:-1])

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        drawn = stats.bootstrap(
            *((np.arange(count),), of),
            n_resamples=draws,
            confidence_level=level,
            batch=max(_AT_ONCE // count, 1),
            rng=np.random.default_rng(seed),
        )
    ends = drawn.confidence_interval
    if np.isnan(ends.low) or np.isnan(ends.high):  # a figure of which BCa knows no acceleration
        tails = np.array([1 - level, 1 + level]) / 2
        low, high = np.quantile(drawn.bootstrap_distribution, tails)
        return Interval(estimate, float(low), float(high))
    return Interval(estimate, float(ends.low), float(ends.high))


def _finite(values: ArrayLike) -> Floats:
    """Return values as an array, of which there is one at least."""
    found = np.asarray(values, dtype=float)
    if found.ndim != 1 or not found.size or not np.isfinite(found).all():
        raise InputError("An interval is about one row of finite numbers, one at least.")
    return found


BATCHES = 10
"""Batches that the jobs of a workload are parted into, in their order of arrival."""

_MEANS: Mapping[str, str] = {
    "mean_jct_s": "jct_s",
    "queueing_s": "queueing_s",
    "communication_s": "communication_s",
    "deadlines_met": "met_deadline",
    "cost": "cost",
    "preemptions": "preemptions",
    "restarts": "restarts",
    "paused_s": "paused_s",
}
"""Figures of a summary that are means or sums over jobs, and the columns of jobs tables."""


def batch_figures(jobs: Mapping[str, pd.DataFrame]) -> dict[str, NDArray[np.float64]]:
    """Return what batches of consecutive jobs contribute to the figures of several runs.

    Jobs that arrive together meet the same queue, so that single jobs are no independent
    replicates; batches nearly are. It is the method of batch means (Law, Simulation Modeling and
    Analysis, chapter 9).

    Parameters
    ----------
    jobs
        Jobs tables of runs of the same jobs, by policy.

    Returns
    -------
    dict
        By the name of the figure, shape (policies, `BATCHES`), with the mean of each row that of
        all jobs; nothing with fewer than two jobs a batch.
    """
    tables = list(jobs.values())
    if not tables or len(tables[0]) < 2 * BATCHES:
        return {}
    order = tables[0].sort_values("arrival_s", kind="stable").index
    parts = np.array_split(np.arange(len(order)), BATCHES)
    starts = [int(part[0]) for part in parts]
    found = {}
    for figure, column in _MEANS.items():
        if all(column in table for table in tables):
            values = np.array([table.loc[order, column].to_numpy(dtype=float) for table in tables])
            found[figure] = np.add.reduceat(values, starts, axis=1) * (BATCHES / len(order))
    return found


def growing(jobs: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return the policies under which waits grow from the first job to the last.

    Then jobs come faster than they are done, and the longer a workload is, the larger are the
    means. Growth is more than noise where the regression of the mean waits of batches on time has a
    slope above 0, at a level of 1 % (Student's t of the correlation).

    Parameters
    ----------
    jobs
        As for `batch_figures`.
    """
    waits_s = batch_figures(jobs).get("queueing_s", np.empty((0, BATCHES)))
    least = stdtrit(BATCHES - 2, 0.99)
    least /= np.hypot(least, np.sqrt(BATCHES - 2))
    times = np.arange(BATCHES)
    return [
        policy
        for policy, row in zip(jobs, waits_s, strict=False)
        if np.ptp(row) and np.corrcoef(times, row)[0, 1] > least
    ]
