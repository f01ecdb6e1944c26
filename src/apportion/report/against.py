"""By how much policies are earlier or later than one of them, such as the log's own schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.jobs import most_at_once
from apportion.report.tables import time_unit
from apportion.statistics.typeset import HumanTable

if TYPE_CHECKING:
    import pandas as pd

    from apportion.cluster import Cluster

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
    most, there = most_at_once(jobs), int(cluster.counts.sum())
    if most > there:
        notes.append(
            f"{RECORDED}: the log had up to {most:,} GPUs in use at once, and the cluster has "
            f"{there:,}: what others lose to it is not their doing"
        )
    return notes
