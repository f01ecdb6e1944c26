"""The summary of a sweep in human units, a table per workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.report.tables import HumanTable, human_table, longest_time_s

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["readable_tables"]

_SHOWN = ("mean_jct_s", "p95_jct_s", "makespan_s", "utilization", "deadlines_met", "ftf_max")
_RANGE = ("lowest", "highest")


def readable_tables(summary: pd.DataFrame) -> dict[str, HumanTable]:
    """Return a table per workload, narrow enough for a terminal of 100 columns.

    Figures are means over the seeds; ``lowest`` and ``highest`` are the range of the mean
    completion time. Best values are marked among the policies of each load.

    Parameters
    ----------
    summary
        As `Sweep.summary` returns it.
    """
    return {str(name): _table(rows) for name, rows in summary.groupby("workload", sort=False)}


def _table(rows: pd.DataFrame) -> HumanTable:
    """Put the loads of one workload under each other."""
    longest_s = longest_time_s(rows)
    means = _shown(rows, longest_s)
    ends = [_shown(rows, longest_s, f"_{end}").cells for end in _RANGE]
    best = [
        marks
        for _, at_load in rows.groupby("load", sort=False)
        for marks in _shown(at_load, longest_s).best
    ]
    cells = [
        (policy, f"{load:g}", str(seeds), jct, low[1], high[1], *others)
        for (policy, jct, *others), low, high, load, seeds in zip(
            means.cells, *ends, rows["load"], rows["seeds"], strict=True
        )
    ]
    (_, jct, *others), (_, unit, *units) = means.header, means.units
    return HumanTable(
        header=("policy", "load", "seeds", jct, *_RANGE, *others),
        units=("", "", "", unit, unit, unit, *units),
        cells=tuple(cells),
        best=tuple((False, False, False, mark, False, False, *rest) for _, mark, *rest in best),
        keys=3,
    )


def _shown(rows: pd.DataFrame, longest_s: float, ending: str = "") -> HumanTable:
    """Format the means, or with an ending the lowest or highest values, of what is shown."""
    columns = {f"{name}{ending}": name for name in _SHOWN if f"{name}{ending}" in rows}
    named = rows[["policy", *columns]].rename(columns=columns)
    return human_table(named, longest_s=longest_s)
