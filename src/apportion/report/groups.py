"""What each user, entity or partition had, beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from apportion.report.series import natural
from apportion.report.tables import Measure, human_table

if TYPE_CHECKING:
    from apportion.experiments import Comparison
    from apportion.statistics.typeset import HumanTable

_MEASURES = (
    Measure("jobs", "jobs", "", 1.0, "", 0),
    Measure("gpu_seconds", "GPU time", "GPU h", 3600.0, "", 1),
    Measure("share", "share", "%", 0.01, "", 1),
    Measure("weight", "weight", "", 1.0, ""),
    Measure("queueing_s", "wait", "h", 3600.0, ""),
    Measure("mean_jct_s", "mean JCT", "h", 3600.0, ""),
    Measure("p95_jct_s", "p95 JCT", "h", 3600.0, ""),
    Measure("ftf_mean", "mean FTF", "", 1.0, ""),
    Measure("ftf_max", "max FTF", "", 1.0, ""),
    Measure("deadlines_met", "in time", "%", 0.01, "", 1),
    Measure("jain_index", "Jain", "", 1.0, ""),
    Measure("weighted_jain_index", "weighted", "", 1.0, ""),
)


def group_table(table: pd.DataFrame, keys: int = 2, *, most: int | None = None) -> HumanTable:
    """Put what groups had into human units.

    Parameters
    ----------
    table
        As `Comparison.by` returns it.
    keys
        Columns at its start that say what a row is about, the last of them whose jobs.
    most
        No more than so many groups, those of most GPU-seconds; all by default.
    """
    names = list(table.columns[:keys])
    if most is not None:
        held = table.groupby(names[-1], dropna=False)["gpu_seconds"].sum()
        table = table[table[names[-1]].isin(held.nlargest(most).index)]
    if len(names) > 1:  # within what is before them, in the order in which that comes
        first = table.groupby(names[:-1], sort=False, dropna=False).ngroup().tolist()
        last = [natural(name) for name in table[names[-1]]]
        table = table.iloc[sorted(range(len(table)), key=lambda row: (first[row], last[row]))]
    return human_table(table, keys=names, measures=_MEASURES)


def columns_of_groups(comparison: Comparison) -> list[str]:
    """Return the columns of texts in which several jobs of a workload say the same, types last.

    One that repeats another, as an entity that is the user, is left out.
    """
    if not comparison.runs:
        return []
    jobs = next(iter(comparison.runs.values())).jobs
    names = [
        str(name)
        for name in comparison.workload.jobs
        if name in jobs
        and name != "job_type"
        and pd.api.types.is_string_dtype(jobs[name])
        and jobs[name].nunique() < len(jobs)
    ]
    names.append("job_type")
    return [
        name
        for place, name in enumerate(names)
        if not any(jobs[name].equals(jobs[other]) for other in names[:place])
        and jobs[name].nunique() > 1
    ]
