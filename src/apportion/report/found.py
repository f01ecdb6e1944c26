"""What a comparison has found: sentences with intervals, who is earlier, and groups of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.report.series import natural
from apportion.report.tables import Measure, human_table, time_unit
from apportion.sim.traces.recorded_times import too_few
from apportion.statistics.typeset import HumanTable

if TYPE_CHECKING:
    from apportion.cluster import Cluster
    from apportion.experiments import Comparison


def findings(comparison: Comparison) -> list[str]:
    """Say who is best by mean completion time, who is worst, and to whom jobs matter most.

    Intervals are paired, of batches of jobs (`apportion.statistics`), at 95 %.

    Parameters
    ----------
    comparison
        Of two policies that ran, or more; of fewer there is nothing to say.
    """
    ran = comparison.summary().set_index("policy").loc[comparison.comparable]
    if len(ran) < 2:
        return []
    mean = ran["mean_jct_s"]
    best = str(mean.idxmin())
    unit, seconds = time_unit(float(mean.max()))
    apart = comparison.differences(best)
    apart = apart[apart["figure"] == "mean_jct_s"].set_index("policy")
    apart = apart[apart.index.isin(ran.index)]
    return [
        best_in_words(best, mean, apart),
        _worst(best, mean, apart, unit, seconds),
        _fairest(ran),
    ]


def best_in_words(best: str, mean: pd.Series, apart: pd.DataFrame, of: str = "jobs") -> str:
    """Say who is best, and who cannot be told from it.

    Parameters
    ----------
    best
        The policy.
    mean
        Mean completion times by policy, seconds.
    apart
        By how much they differ from the best, by policy: ``difference``, ``low`` and ``high``.
    of
        What intervals are over.
    """
    unit, seconds = time_unit(float(mean.max()))
    said = f"{best} has the shortest mean completion time, {mean[best] / seconds:.4g} {unit}"
    if apart.empty or apart["low"].isna().all():
        return f"{said}; there are too few {of} for intervals."
    near = apart.index[apart["low"] <= 0].tolist()
    if not near:
        second = str(mean.drop(best).idxmin())
        more = _more(second, apart, unit, seconds)
        return f"{said}; the next is {second} with {more} more, which is more than chance."
    return f"{said}; chance cannot tell it from {', '.join(near)}."


def _worst(best: str, mean: pd.Series, apart: pd.DataFrame, unit: str, seconds: float) -> str:
    worst = str(mean.idxmax())
    said = f"The longest is that of {worst}, {mean[worst] / seconds:.4g} {unit}"
    low = apart["low"].astype(float).get(worst, np.nan)
    if worst == best or np.isnan(low):
        return f"{said}."
    more = _more(worst, apart, unit, seconds)
    chance = ", which chance explains as well" if low <= 0 else ""
    return f"{said}: {more} more{chance}."


def _more(policy: str, apart: pd.DataFrame, unit: str, seconds: float) -> str:
    """Write a difference with its interval."""
    found = apart.loc[policy, ["difference", "low", "high"]].to_numpy(float) / seconds
    return f"{found[0]:.3g} {unit} [{found[1]:.3g}, {found[2]:.3g}]"


def _fairest(ran: pd.DataFrame) -> str:
    """Say under whom the worst-off job fares best, and what preemptions that takes."""
    worst = ran["ftf_max"].astype(float)
    if worst.isna().all():
        return "How jobs fare beside an equal share of the cluster is not known here."
    fair, unfair = str(worst.idxmin()), str(worst.idxmax())
    times = f"{float(ran['preemptions'][fair]):,.0f}"
    return (
        f"The worst-off job takes {worst[fair]:.3g} times as long as in an equal share of the "
        f"cluster under {fair}, with {times} preemption{'s' * (times != '1')}, and "
        f"{worst[unfair]:.3g} times under {unfair}; one draw of jobs, so without an interval."
    )


RECORDED = "as_recorded"
"""The row of a log's own schedule."""

_FIGURES = {"mean_jct_s": "mean JCT", "queueing_s": "wait"}


def differences_table(
    differences: pd.DataFrame, sooner: pd.Series, longest_s: float
) -> HumanTable | None:
    """Put differences into words: what is below 0 is sooner.

    Parameters
    ----------
    differences
        As `Comparison.differences` returns them.
    sooner
        Share of jobs that were done sooner, by policy.
    longest_s
        The longest of the times that they are differences of, which decides their unit.

    Returns
    -------
    HumanTable or None
        A row per policy; None where there are too few jobs for intervals.
    """
    by_figure = {name: differences[differences["figure"] == name] for name in _FIGURES}
    if any(rows.empty for rows in by_figure.values()):
        return None
    unit, scale = time_unit(longest_s)
    figures = [
        [f"{each / scale:+,.2f}" for each in rows.set_index("policy").loc[sooner.index, end]]
        for rows in by_figure.values()
        for end in ("difference", "low", "high")
    ]
    share = [f"{100 * each:.0f}" for each in sooner]
    cells = list(zip(map(str, sooner.index), *figures, share, strict=True))
    header = [each for name in _FIGURES.values() for each in (name, "from", "to")]
    return HumanTable(
        ("policy", *header, "sooner"),
        ("", *[unit] * len(header), "% jobs"),
        tuple(cells),
        tuple(("",) * len(row) for row in cells),
    )


def notes_on_recorded(jobs: pd.DataFrame, cluster: Cluster) -> list[str]:
    """Say what the log's own schedule had that the cluster has not.

    Parameters
    ----------
    jobs
        Of the workload.
    cluster
        On which the others run.
    """
    notes = []
    if "recorded_on" in jobs:
        ran_on = [each for each in jobs["recorded_on"].unique() if each]
        absent = [str(each) for each in ran_on if each not in cluster.accelerators]
        if absent:
            notes.append(
                f"{RECORDED}: jobs ran on {', '.join(absent)}, which the cluster does not have, "
                f"and count as on the type of which it has most"
            )
        if len(cluster.accelerators) > 1 and ran_on and "runs_on" not in jobs:
            notes.append(
                f"others than {RECORDED} may run a job on any type, not on that of the log only; "
                f"--types recorded holds them to it"
            )
    for kind, most, there in too_few(jobs, cluster)[:1]:
        notes.append(
            f"{RECORDED}: the log had up to {most:,} {kind}GPUs in use at once, and the cluster "
            f"has {there:,}: what others lose to it is not their doing"
        )
    return notes


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
