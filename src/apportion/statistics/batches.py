"""Batches of consecutive jobs as replicates of one run: the method of batch means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

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
