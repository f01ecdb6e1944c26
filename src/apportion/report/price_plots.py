"""What one more GPU was worth to policies over time, of runs that kept the prices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.report.style import line_styles, new_figure, with_legend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from matplotlib.figure import Figure

    from apportion.sim import Run

_PANELS_PER_ROW = 3


def price_kinds_of(runs: Mapping[str, Run]) -> list[str]:
    """Return the names of the plots of `PRICE_PLOT_KINDS` if a run has prices."""
    return list(PRICE_PLOT_KINDS) if _priced(runs) else []


def _priced(runs: Mapping[str, Run]) -> dict[str, pd.DataFrame]:
    """Return times and the prices of each type, of runs that have any."""
    found = {}
    for policy, run in runs.items():
        table = run.tables.get("prices")
        if table is not None:
            types = [name for name in run.cluster.accelerators if name in table.columns]
            if types and table[types].notna().any(axis=None):
                found[policy] = table[["time_s", *types]]
    return found


def _prices(runs: Mapping[str, Run]) -> Figure:
    """Draw a panel for each policy, as each has an objective, and so a unit, of its own."""
    tables = _priced(runs)
    columns = min(len(tables), _PANELS_PER_ROW)
    rows = -(-len(tables) // columns)
    figure = new_figure(width=2.0 + 3.6 * columns, height=1.2 + 2.4 * rows)
    panels = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    types = list(dict.fromkeys(name for table in tables.values() for name in table.columns[1:]))
    styles = line_styles(types)
    for axes, (policy, table) in zip(panels, tables.items(), strict=False):
        end_s = float(runs[policy].jobs["completion_s"].max())
        hours = np.append(table["time_s"].to_numpy(float), end_s) / 3600
        for name in table.columns[1:]:
            prices = table[name].to_numpy(float)
            axes.step(hours, [*prices, prices[-1]], where="post", label=name, **styles[name])
        axes.set_title(policy)
        axes.set_ylim(bottom=min(0.0, float(np.nanmin(table.iloc[:, 1:].to_numpy(float)))))
        axes.set(xlabel="time (hours)", ylabel="worth of one more GPU")
    for axes in panels[len(tables) :]:
        axes.set_visible(False)
    figure.suptitle(
        "What one more GPU would have improved the objective by",
        x=0.01,
        ha="left",
        fontsize=10.5,
        fontweight="bold",
    )
    return with_legend(figure, panels[0])


PRICE_PLOT_KINDS: Mapping[str, Callable[[Mapping[str, Run]], Figure]] = {"prices": _prices}
"""Ways to draw prices, by name."""
