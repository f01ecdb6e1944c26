"""Plots of runs that know where gangs sat: waits, communication, tiers of the network, timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.cluster import TIERS
from apportion.report.series import distribution, middles, tier_occupancy, time_bins
from apportion.report.style import line_styles, new_figure, plain_numbers, with_legend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from apportion.sim import Run

_TIER_COLOURS = {"machine": "#009E73", "rack": "#E69F00", "network": "#D55E00"}
_PANELS_PER_ROW = 3
_MOST_DEMANDS = 7


def tier_kinds_of(runs: Mapping[str, Run]) -> list[str]:
    """Return the names of the plots of `TIER_PLOT_KINDS` for which the runs have the figures."""
    if not runs or any("communication_s" not in run.jobs.columns for run in runs.values()):
        return []
    tuned = _with_timers(runs)
    return [kind for kind in TIER_PLOT_KINDS if kind != "timers" or tuned]


def _queueing(runs: Mapping[str, Run]) -> Figure:
    figure = _shares_of_jobs(runs, "queueing_s")
    figure.axes[0].set(title="Queueing delay", xlabel="time without GPUs (hours)")
    return figure


def _communication(runs: Mapping[str, Run]) -> Figure:
    figure = _shares_of_jobs(runs, "communication_s")
    figure.axes[0].set(
        title="Exposed communication", xlabel="communication that compute does not hide (hours)"
    )
    return figure


def _shares_of_jobs(runs: Mapping[str, Run], column: str) -> Figure:
    """Draw the distribution of a time over the jobs; many are 0, so that no plain log will do."""
    figure = new_figure()
    axes = figure.subplots()
    for policy, style in line_styles(list(runs)).items():
        hours = runs[policy].measured[column].to_numpy(float) / 3600
        values, shares = distribution(hours)
        # The curve starts where the axis does, or jobs that never waited would not be seen.
        axes.step([0.0, *values], [0.0, *shares], where="post", label=policy, **style)
    axes.set_xscale("symlog", linthresh=0.1, linscale=0.4)
    axes.set_xlim(left=0)
    plain_numbers(axes.xaxis)
    axes.set(ylabel="share of jobs (%)", ylim=(0, 1.02))
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}")
    return with_legend(figure, axes)


def _tiers(runs: Mapping[str, Run]) -> Figure:
    """Draw one panel per policy: the GPUs held at each tier over time, on top of each other."""
    figure, panels = _panels(len(runs))
    edges = time_bins(list(runs.values()))
    times, when = middles(edges)
    for axes, (policy, run) in zip(panels, runs.items(), strict=False):
        shares = 100 * np.nan_to_num(tier_occupancy(run, edges))
        axes.stackplot(times, shares, labels=TIERS, colors=_TIER_COLOURS.values(), linewidth=0)
        axes.set_title(policy, fontsize=8.5)
        axes.set(ylim=(0, 100), xlim=(times[0], times[-1]), xlabel=when)
        axes.label_outer()
    for axes in panels[:: _columns(len(runs))]:
        axes.set_ylabel("GPUs (% of cluster)")
    figure.suptitle(
        "GPUs in use by tier of the gang", x=0.01, ha="left", fontsize=10.5, fontweight="bold"
    )
    return with_legend(figure, panels[0])


def _timers(runs: Mapping[str, Run]) -> Figure:
    """Draw the timers of policies that tune them: a column per policy, a row per tier."""
    tuned = _with_timers(runs)
    figure = new_figure(width=3.0 + 3.5 * len(tuned), height=4.6)
    panels = figure.subplots(2, len(tuned), sharex="col", squeeze=False)
    demands = _largest_groups(tuned)
    styles = line_styles([str(demand) for demand in demands])
    for column, (policy, run) in enumerate(tuned.items()):
        for row, tier in enumerate(("machine", "rack")):
            axes = panels[row][column]
            for demand in demands:
                timers = run.tables["timers"].query("scale_factor == @demand")
                hours = timers[["time_s", f"{tier}_s"]].to_numpy(float) / 3600
                label = f"{demand} GPUs" if demand > 1 else "1 GPU"
                axes.step(*hours.T, where="post", label=label, **styles[str(demand)])
            axes.set_ylim(bottom=0)
            axes.set_ylabel(f"{tier} timer (hours)")
        panels[0][column].set_title(f"Timers of {policy}")
        panels[1][column].set_xlabel("time (hours)")
    return with_legend(figure, panels[0][0])


def _with_timers(runs: Mapping[str, Run]) -> dict[str, Run]:
    """Return the runs that have a table of timers with something in it."""
    return {
        policy: run
        for policy, run in runs.items()
        if "timers" in run.tables and len(run.tables["timers"])
    }


def _largest_groups(runs: Mapping[str, Run]) -> list[int]:
    """Return the demands with most entries in the tables of timers, smallest first."""
    counts: dict[int, int] = {}
    for run in runs.values():
        for demand, count in run.tables["timers"]["scale_factor"].value_counts().items():
            counts[int(str(demand))] = counts.get(int(str(demand)), 0) + int(count)
    return sorted(sorted(counts, key=lambda demand: -counts[demand])[:_MOST_DEMANDS])


def _columns(count: int) -> int:
    """Panels beside each other: three, or two where that leaves no gap."""
    return min(count, 2 if count == 4 else _PANELS_PER_ROW)


def _panels(count: int) -> tuple[Figure, list[Any]]:
    """Return a figure with that many panels, which share their axes."""
    columns = _columns(count)
    rows = -(-count // columns)
    figure = new_figure(width=13.0, height=1.2 + 2.1 * rows)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes in panels[count:]:
        axes.set_visible(False)
    return figure, list(panels)


TIER_PLOT_KINDS: dict[str, Callable[[Mapping[str, Run]], Figure]] = {
    "queueing": _queueing,
    "communication": _communication,
    "tiers": _tiers,
    "timers": _timers,
}
"""The plots by name, in the order of the report."""
