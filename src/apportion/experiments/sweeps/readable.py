"""The summary of a sweep in human units, a table per workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.report.tables import human_table, longest_time_s
from apportion.statistics.typeset import HumanTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

_SHOWN = ("mean_jct_s", "p95_jct_s", "makespan_s", "utilization", "deadlines_met", "ftf_max")
_RANGE = ("lowest", "highest")


def readable_tables(summary: pd.DataFrame, runs: pd.DataFrame) -> dict[str, HumanTable]:
    """Return a table per workload, narrow enough for a terminal of 100 columns.

    Figures are means over the seeds; ``lowest`` and ``highest`` are the range of the mean
    completion time. Among the policies of each load the best are marked by the seeds that none of
    them failed at.

    Parameters
    ----------
    summary
        As `Sweep.summary` returns it.
    runs
        As `Sweep.table` returns it.
    """
    by_workload = {str(name): each for name, each in runs.groupby("workload", sort=False)}
    return {
        str(name): _table(rows, by_workload[str(name)])
        for name, rows in summary.groupby("workload", sort=False)
    }


def _table(rows: pd.DataFrame, runs: pd.DataFrame) -> HumanTable:
    """Put the loads of one workload under each other."""
    longest_s = longest_time_s(rows)
    means = _shown(rows, longest_s)
    ends = [_shown(rows, longest_s, f"_{end}").cells for end in _RANGE]
    point = [name for name in ("cluster", "load") if name in rows]
    marks = [
        each
        for at, here in rows.groupby(point, sort=False)
        for each in _shown(here, longest_s, runs=runs[(runs[point] == list(at)).all(axis=1)]).marks
    ]
    named = rows[point].assign(load=rows["load"].map("{:g}".format))
    cells = [
        (policy, *at, str(seeds), jct, low[1], high[1], *others)
        for (policy, jct, *others), low, high, at, seeds in zip(
            means.cells, *ends, named.to_numpy().tolist(), rows["seeds"], strict=True
        )
    ]
    (_, jct, *others), (_, unit, *units) = means.header, means.units
    blank = ("",) * (len(point) + 2)
    return HumanTable(
        header=("policy", *point, "seeds", jct, *_RANGE, *others),
        units=(*blank, unit, unit, unit, *units),
        cells=tuple(cells),
        marks=tuple((*blank, mark, "", "", *rest) for _, mark, *rest in marks),
        keys=len(blank),
    )


def _shown(
    rows: pd.DataFrame, longest_s: float, ending: str = "", runs: pd.DataFrame | None = None
) -> HumanTable:
    """Format the means, or with an ending the lowest or highest values, of what is shown.

    The runs, one per policy and seed, say which are best.
    """
    columns = {f"{name}{ending}": name for name in _SHOWN if f"{name}{ending}" in rows}
    named = rows[["policy", *columns]].rename(columns=columns)
    seeds = None if runs is None else by_seed(runs, list(rows["policy"]), list(columns))
    return human_table(named, longest_s=longest_s, replicates=seeds)


def by_seed(
    runs: pd.DataFrame, policies: Sequence[str], figures: Sequence[str]
) -> dict[str, NDArray[np.float64]]:
    """Return figures by policy and seed, of seeds at which no policy failed."""
    found = {}
    for figure in figures:
        table = runs.pivot_table(index="policy", columns="seed", values=figure, dropna=False)
        found[figure] = table.reindex(list(policies)).dropna(axis=1).to_numpy(dtype=float)
    return found
