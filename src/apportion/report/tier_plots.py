"""Who holds how many GPUs over time, and plots of runs that know where gangs sat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.cluster import TIERS
from apportion.report.series import distribution, middles, natural, tier_occupancy, time_bins
from apportion.report.style import (
    heading,
    line_styles,
    new_figure,
    panels_of,
    plain_numbers,
    with_legend,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from apportion.sim import Run
    from apportion.types import Floats


_TIER_COLOURS = {"machine": "#009E73", "rack": "#E69F00", "network": "#D55E00"}
_MOST_DEMANDS = 7


def know_tiers(runs: Mapping[str, Run]) -> bool:
    """Tell whether the runs say how long jobs communicate, by where they are."""
    return bool(runs) and all("communication_s" in run.jobs.columns for run in runs.values())


def tune_timers(runs: Mapping[str, Run]) -> bool:
    """Tell whether they say so, and timers of some were tuned."""
    return know_tiers(runs) and bool(_with_timers(runs))


def queueing(runs: Mapping[str, Run]) -> Figure:
    """Draw how long jobs were without GPUs."""
    figure = _shares_of_jobs(runs, "queueing_s")
    figure.axes[0].set(title="Queueing delay", xlabel="time without GPUs (hours)")
    return figure


def communication(runs: Mapping[str, Run]) -> Figure:
    """Draw how long they communicated and did not compute."""
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


def tiers(runs: Mapping[str, Run]) -> Figure:
    """Draw one panel per policy: the GPUs held at each tier over time, on top of each other."""
    figure, panels = panels_of(len(runs), 13.0, 2.1, sharey=True)
    edges = time_bins(list(runs.values()))
    times, when = middles(edges)
    for axes, (policy, run) in zip(panels, runs.items(), strict=True):
        shares = 100 * np.nan_to_num(tier_occupancy(run, edges))
        axes.stackplot(times, shares, labels=TIERS, colors=_TIER_COLOURS.values(), linewidth=0)
        axes.set_title(policy, fontsize=8.5)
        axes.set(ylim=(0, 100), xlim=(times[0], times[-1]), xlabel=when)
        axes.set_ylabel("GPUs (% of cluster)")
    heading(figure, "GPUs in use by tier of the gang")
    return with_legend(figure, panels[0])


def timers(runs: Mapping[str, Run]) -> Figure:
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


_MOST_RUNS = 6
_MOST_GROUPS = 6
_OTHERS = "all others"
_BINS = 80


def scheduled(runs: Mapping[str, Run]) -> dict[str, Run]:
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


def who_holds(runs: Mapping[str, Run]) -> Figure:
    """Draw a panel for each policy, a line for each user or type of job."""
    shown = scheduled(runs)
    column = _column(shown)
    names = _largest(shown, column)
    figure, panels = panels_of(len(shown), 2.0 + 3.6 * min(len(shown), 3), 2.4, sharey=True)
    styles = line_styles(names)
    edges = time_bins(list(shown.values()), _BINS)
    times, when = middles(edges)
    for axes, (policy, run) in zip(panels, shown.items(), strict=True):
        whose = run.schedule["job"].map(run.jobs[column].astype(str))
        whose = whose.where(whose.isin(names), _OTHERS)
        for name in names:
            held = gpus_held(run.schedule[whose == name], edges)
            axes.plot(times, held, label=name, **styles[name])
        axes.set(title=policy, xlabel=when, ylabel="GPUs held")
    panels[0].set_ylim(bottom=0)
    what = {"user": "user", "job_type": "type of job"}[column]
    heading(figure, f"Who has the GPUs, by {what}", len(shown), len(runs))
    return with_legend(figure, panels[0])


def priced(runs: Mapping[str, Run]) -> dict[str, pd.DataFrame]:
    """Return times and the prices of each type, of runs that have any."""
    found = {}
    for policy, run in runs.items():
        table = run.tables.get("prices")
        if table is not None:
            types = [name for name in run.cluster.accelerators if name in table.columns]
            if types and table[types].notna().any(axis=None):
                found[policy] = table[["time_s", *types]]
    return found


def prices(runs: Mapping[str, Run]) -> Figure:
    """Draw a panel for each policy, as each has an objective, and so a unit, of its own."""
    tables = priced(runs)
    figure, panels = panels_of(len(tables), 2.0 + 3.6 * min(len(tables), 3), 2.4)
    types = list(dict.fromkeys(name for table in tables.values() for name in table.columns[1:]))
    styles = line_styles(types)
    for axes, (policy, table) in zip(panels, tables.items(), strict=True):
        end_s = float(runs[policy].jobs["completion_s"].max())
        hours = np.append(table["time_s"].to_numpy(float), end_s) / 3600
        for name in table.columns[1:]:
            prices = table[name].to_numpy(float)
            axes.step(hours, [*prices, prices[-1]], where="post", label=name, **styles[name])
        axes.set_title(policy)
        axes.set_ylim(bottom=min(0.0, float(np.nanmin(table.iloc[:, 1:].to_numpy(float)))))
        axes.set(xlabel="time (hours)", ylabel="worth of one more GPU")
    heading(figure, "What one more GPU would have improved the objective by")
    return with_legend(figure, panels[0])
