"""Over time: who holds how many GPUs, and what one more was worth where prices were kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.report.series import middles, natural, time_bins
from apportion.report.style import line_styles, new_figure, with_legend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from apportion.sim import Run
    from apportion.types import Floats


_PANELS_PER_ROW = 3
_MOST_RUNS = 6
_MOST_GROUPS = 6
_OTHERS = "all others"
_BINS = 80


def held_kinds_of(runs: Mapping[str, Run]) -> list[str]:
    """Return the names of the plots of `HELD_PLOT_KINDS` if a run has a schedule of devices."""
    return list(HELD_PLOT_KINDS) if _scheduled(runs) else []


def _scheduled(runs: Mapping[str, Run]) -> dict[str, Run]:
    """Return the first runs that tell who has which devices when."""
    found = {
        policy: run
        for policy, run in runs.items()
        if len(run.tables.get("schedule", ())) and "devices" in run.tables["schedule"]
    }
    return dict(list(found.items())[:_MOST_RUNS])


def _column(runs: Mapping[str, Run]) -> str:
    jobs = next(iter(runs.values())).jobs
    return "user" if "user" in jobs and jobs["user"].nunique() > 1 else "job_type"


def _largest(runs: Mapping[str, Run], column: str) -> list[str]:
    """Return the groups of most GPU time by name, and last all others if there are more."""
    jobs = pd.concat([run.jobs[[column, "gpu_seconds"]] for run in runs.values()])
    held = jobs.groupby(column)["gpu_seconds"].sum()
    names = [str(name) for name in held.sort_values(ascending=False, kind="stable").index]
    if len(names) <= _MOST_GROUPS + 1:
        return sorted(names, key=natural)
    return [*sorted(names[:_MOST_GROUPS], key=natural), _OTHERS]


def gpus_held(schedule: pd.DataFrame, edges: Floats) -> Floats:
    """Return how many GPUs are held in each bin of time in the mean, shape (bins,).

    Parameters
    ----------
    schedule
        A row per stay: ``start_s``, ``end_s`` and ``devices``.
    edges
        Of the bins, seconds, shape (bins + 1,).
    """
    if schedule.empty:
        return np.zeros(edges.size - 1)
    gpus = schedule["devices"].map(len).to_numpy(float)
    times = np.concatenate([schedule["start_s"], schedule["end_s"]]).astype(float)
    order = np.argsort(times, kind="stable")
    times = times[order]
    at_once = np.cumsum(np.concatenate([gpus, -gpus])[order])
    seconds = np.concatenate([[0.0], np.cumsum(at_once[:-1] * np.diff(times))])
    mean: Floats = np.diff(np.interp(edges, times, seconds)) / np.diff(edges)
    return mean


def _gpus_held(runs: Mapping[str, Run]) -> Figure:
    """Draw a panel for each policy, a line for each user or type of job."""
    shown = _scheduled(runs)
    column = _column(shown)
    names = _largest(shown, column)
    columns = min(len(shown), _PANELS_PER_ROW)
    rows = -(-len(shown) // columns)
    figure = new_figure(width=2.0 + 3.6 * columns, height=1.2 + 2.4 * rows)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    styles = line_styles(names)
    edges = time_bins(list(shown.values()), _BINS)
    times, when = middles(edges)
    for axes, (policy, run) in zip(panels, shown.items(), strict=False):
        whose = run.schedule["job"].map(run.jobs[column].astype(str))
        whose = whose.where(whose.isin(names), _OTHERS)
        for name in names:
            held = gpus_held(run.schedule[whose == name], edges)
            axes.plot(times, held, label=name, **styles[name])
        axes.set(title=policy, xlabel=when, ylabel="GPUs held")
    panels[0].set_ylim(bottom=0)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    what = {"user": "user", "job_type": "type of job"}[column]
    figure.suptitle(
        f"Who has the GPUs, by {what}", x=0.01, ha="left", fontsize=10.5, fontweight="bold"
    )
    return with_legend(figure, panels[0])


HELD_PLOT_KINDS: Mapping[str, Callable[[Mapping[str, Run]], Figure]] = {"gpus_held": _gpus_held}
"""Ways to draw who holds GPUs, by name."""


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
