"""Which policy is best, as far as paired figures can tell it from noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from apportion.checks import number
from apportion.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["BATCHES", "batch_figures", "differences_of", "growing", "marks_of"]

BATCHES = 10
"""Batches that the jobs of a workload are parted into, in their order of arrival."""

_LEVEL = 0.05
"""Probability that noise makes a best one out of equals, at most about."""

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


def marks_of(replicates: NDArray[np.float64], *, low: bool = True) -> list[str]:
    """Mark the best of some policies, and those that noise may have put behind it.

    The difference of each from the best is one number per replicate, as all have seen the same jobs
    there. It is noise where Student's interval about its mean includes 0, at a level of 5 % over
    all of them together (Bonferroni).

    Parameters
    ----------
    replicates
        Shape (policies, replicates).
    low
        Whether less is better.

    Returns
    -------
    list of str
        ``"*"`` for the best, if the others are worse by more than noise; else ``"~"`` for the best
        and for each that is worse by noise; nothing for the others. Nothing for all where a figure
        is not known, where there is nothing to compare, and where replicates do not differ.
    """
    policies, count = replicates.shape
    none = [""] * policies
    if policies < 2 or count < 2 or not np.isfinite(replicates).all():
        return none
    if not np.ptp(replicates, axis=1).any() or not np.ptp(replicates, axis=0).any():
        return none
    means = replicates.mean(axis=1) * (1 if low else -1)
    best = int(means.argmin())
    apart = (replicates - replicates[best]) * (1 if low else -1)
    error = apart.std(axis=1, ddof=1) / np.sqrt(count)
    reach = stdtrit(count - 1, 1 - _LEVEL / 2 / (policies - 1)) * error
    near = apart.mean(axis=1) <= reach
    if near.sum() == 1:
        return ["*" if row == best else "" for row in range(policies)]
    return ["~" if each else "" for each in near]


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


def differences_of(
    figures: Mapping[str, NDArray[np.float64]],
    policies: Sequence[str],
    against: str,
    level: float = 0.95,
) -> pd.DataFrame:
    """Return by how much policies differ from one of them, with paired intervals.

    Parameters
    ----------
    figures
        By name, shape (policies, replicates).
    policies, against
        Labels of the rows, and the one that the others are set against.
    level
        Of each interval by itself: Student's, about the mean of the differences.

    Returns
    -------
    DataFrame
        A row per figure and other policy: ``figure``, ``policy``, ``difference`` (its mean less
        that of `against`), ``low`` and ``high``, ``less``, the share of replicates in which it has
        less, and ``replicates``. Without an interval, for one replicate, ``low`` and ``high`` are
        NaN.

    Raises
    ------
    InputError
        For an unknown policy, and a level that is not between 0 and 1.
    """
    if against not in policies:
        raise unknown_name("policy that ran", against, policies)
    number("level", level, strict=True, most=1 - 1e-9)
    base = list(policies).index(against)
    rows = []
    for figure, values in figures.items():
        count = values.shape[1]
        for row, policy in enumerate(policies):
            apart = values[row] - values[base]
            reach = np.nan
            if count > 1:
                reach = stdtrit(count - 1, (1 + level) / 2) * apart.std(ddof=1) / np.sqrt(count)
            if row != base and count:
                mean = float(apart.mean())
                less = float((apart < 0).mean())
                rows.append((figure, policy, mean, mean - reach, mean + reach, less, count))
    columns = ["figure", "policy", "difference", "low", "high", "less", "replicates"]
    return pd.DataFrame(rows, columns=columns)


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
