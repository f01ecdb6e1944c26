"""Ways of looking at several policies on one workload, each a matplotlib figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.annotations import checked
from apportion.errors import unknown_name
from apportion.report.day_plots import day, serve_requests
from apportion.report.gantt import fit_a_page, gantt
from apportion.report.iteration_plots import iterations, of_iterations
from apportion.report.run_links import affinity, share_links, shared_link
from apportion.report.series import (
    busiest_job_types,
    distribution,
    middles,
    options_of,
    received_share,
    running_and_waiting,
    time_bins,
    utilization,
)
from apportion.report.style import (
    HEAT_MAP,
    heading,
    line_styles,
    new_figure,
    plain_numbers,
    plotting_style,
    tell,
    with_legend,
)
from apportion.report.tables import time_unit
from apportion.report.tier_plots import (
    communication,
    know_tiers,
    priced,
    prices,
    queueing,
    scheduled,
    tiers,
    timers,
    tune_timers,
    who_holds,
)
from apportion.report.timeline_plots import tell_tasks, timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from apportion.experiments import Comparison
    from apportion.sim import Run

_PANELS_PER_ROW = 6


def received_time(runs: Mapping[str, Run]) -> Figure:
    """Draw one panel per policy: the share of a job type's GPU time on each accelerator or tier."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    job_types = busiest_job_types(list(runs.values()))
    # In steps of 5 %, so that the scale is drawn as areas and not as an embedded image.
    colours = colormaps[HEAT_MAP].resampled(20)
    norm = Normalize(0, 100)
    rows = -(-len(runs) // _PANELS_PER_ROW)
    columns = min(len(runs), _PANELS_PER_ROW)
    figure = new_figure(
        width=3.2 + 1.65 * columns, height=rows * max(2.8, 1.3 + 0.17 * len(job_types))
    )
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for axes, (policy, run) in zip(panels, runs.items(), strict=False):
        names = options_of(run)
        shares = 100 * received_share(run, job_types)
        for row, column in np.argwhere(shares >= 0).tolist():  # nan where a type never ran
            share = shares[row, column]
            colour = colours(norm(share))
            cell = Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white")
            tell(axes.add_patch(cell), f"{job_types[row]} on {names[column]}: {share:.3g} %")
        axes.set(xlim=(0, len(names)), ylim=(0, len(job_types)))
        axes.set_title(policy.replace("_", "_\u200b"), fontsize=8, loc="center", wrap=True)
        axes.set_xticks(np.arange(len(names)) + 0.5, names, rotation=45, ha="right")
        axes.set_yticks(np.arange(len(job_types)) + 0.5, job_types)
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
    for axes in panels[len(runs) :]:
        axes.set_visible(False)
    panels[0].invert_yaxis()
    heading(figure, "Where each job type ran")
    bar = figure.colorbar(ScalarMappable(norm, colours), ax=list(panels), aspect=40, pad=0.01)
    bar.set_label("share of its GPU time (%)")
    bar.outline.set_visible(False)
    return figure


Runs = Mapping[str, "Run"]


@checked
def plot(runs: Run | Mapping[str, Run] | Comparison, kind: str = "completion_times") -> Figure:
    """Draw one plot of finished runs, such as ``"utilization"``, ``"gantt"`` or ``"gpus_held"``.

    Parameters
    ----------
    runs
        One run, several by policy, or a comparison; the order sets the colours.
    kind
        One of `apportion.report.kinds_of` the runs, which an error lists.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it.

    Raises
    ------
    InputError
        For an unknown kind, or one for which the runs lack the figures.
    ApportionError
        If matplotlib is not installed.
    """
    given: Any = runs
    if not isinstance(given, Mapping):
        given = given.runs if hasattr(given, "runs") else {given.policy: given}
    if kind not in (possible := kinds_of(given)):
        raise unknown_name("plot of these runs", kind, possible)
    with plotting_style():
        draw = PLOT_KINDS[kind] if kind in PLOT_KINDS else _OF_SOME[kind][0]
        return draw(given)


def kinds_of(runs: Runs) -> list[str]:
    """Return the names of the plots that can be drawn of some runs, in the order of the report."""
    found = [kind for kind, (_, told) in _OF_SOME.items() if told(runs)]
    if "timeline" in found and "gantt" in found:  # the first has GPUs as well
        found.remove("gantt")
    return [*PLOT_KINDS, *found]


def _completion_times(runs: Runs) -> Figure:
    figure = new_figure()
    axes = figure.subplots()
    jct_s = {policy: run.measured["jct_s"].to_numpy(float) for policy, run in runs.items()}
    unit, unit_s = time_unit(max(times_s.max() for times_s in jct_s.values()))
    unit = {"s": "seconds", "h": "hours"}[unit]
    _distributions(axes, {policy: times_s / unit_s for policy, times_s in jct_s.items()})
    axes.set(title="Completion times", xlabel=f"job completion time ({unit}, log scale)")
    return with_legend(figure, axes)


def _fairness(runs: Runs) -> Figure:
    figure = new_figure()
    axes = figure.subplots()
    _distributions(
        axes, {policy: run.measured["ftf"].to_numpy(float) for policy, run in runs.items()}
    )
    axes.axvline(1.0, color="#666666", linewidth=0.8)
    axes.set(
        title="Finish-time fairness",
        xlabel="completion time / time in an isolated 1/n share (below 1 is better off; log scale)",
    )
    return with_legend(figure, axes)


def _distributions(axes: Any, values: Mapping[str, np.ndarray]) -> None:
    """Draw one cumulative distribution per policy."""
    styles = line_styles(list(values))
    for policy, numbers in values.items():
        axes.step(*distribution(numbers), where="post", label=policy, **styles[policy])
    axes.set_xscale("log")
    plain_numbers(axes.xaxis)
    axes.set_ylabel("share of jobs (%)")
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}")
    axes.set_ylim(0, 1.02)


def _utilization(runs: Runs) -> Figure:
    figure = new_figure()
    axes = figure.subplots()
    edges = time_bins(list(runs.values()))
    times, when = middles(edges)
    styles = line_styles(list(runs))
    for policy, run in runs.items():
        share = 100 * utilization(run, edges)
        axes.plot(times, share, label=policy, **styles[policy])
    axes.set(title="GPUs in use", xlabel=when, ylabel="GPUs in use (% of cluster)")
    axes.set_ylim(0, 102)
    return with_legend(figure, axes)


def _active_jobs(runs: Runs) -> Figure:
    figure = new_figure(height=4.4)
    top, bottom = figure.subplots(2, 1, sharex=True)
    edges = time_bins(list(runs.values()))
    times, when = middles(edges)
    styles = line_styles(list(runs))
    for policy, run in runs.items():
        running, waiting = running_and_waiting(run, edges)
        top.plot(times, running, label=policy, **styles[policy])
        bottom.plot(times, waiting, label=policy, **styles[policy])
    top.set(title="Jobs running and waiting", ylabel="running jobs")
    bottom.set(xlabel=when, ylabel="waiting jobs")
    for axes in (top, bottom):
        axes.set_ylim(bottom=0)
    return with_legend(figure, top)


def _scale_factors(runs: Runs) -> Figure:
    figure = new_figure(width=13.0, height=3.6)
    axes = figure.subplots()
    styles = line_styles(list(runs))
    width = 0.8 / len(runs)
    groups = _scale_factor_groups(runs)
    names = [f"{low}" if low == high else f"{low}-{high}" for low, high in groups]
    for rank, (policy, run) in enumerate(runs.items()):
        size = run.measured["scale_factor"].to_numpy()
        jct = run.measured["jct_s"].to_numpy(float) / 3600
        means = [jct[(size >= low) & (size <= high)].mean() for low, high in groups]
        places = np.arange(len(groups)) + (rank - (len(runs) - 1) / 2) * width
        bars = axes.bar(places, means, width * 0.9, label=policy, color=styles[policy]["color"])
        for bar, size_, mean in zip(bars, names, means, strict=True):
            tell(bar, f"{policy}, scale factor {size_}: {mean:.4g} h")
    axes.set_xticks(range(len(groups)), names)
    axes.grid(visible=False, axis="x")
    axes.set(
        title="Completion time by scale factor",
        xlabel="scale factor (GPUs per job)",
        ylabel="mean completion time (hours)",
    )
    return with_legend(figure, axes)


def _scale_factor_groups(runs: Runs, most: int = 8) -> list[tuple[int, int]]:
    """Return the scale factors as (lowest, highest), gathered by powers of two if many."""
    sizes = np.unique(
        np.concatenate([run.measured["scale_factor"].to_numpy() for run in runs.values()])
    )
    if sizes.size <= most:
        return [(int(size), int(size)) for size in sizes]
    power = np.ceil(np.log2(sizes)).astype(int)
    members = [sizes[power == each] for each in np.unique(power)]
    return [(int(group.min()), int(group.max())) for group in members]


PLOT_KINDS: dict[str, Callable[[Runs], Figure]] = {
    "completion_times": _completion_times,
    "fairness": _fairness,
    "utilization": _utilization,
    "active_jobs": _active_jobs,
    "scale_factors": _scale_factors,
    "received_time": received_time,
}
"""The plots that any runs have by name, in the order of the report."""

_OF_SOME: dict[str, tuple[Callable[[Runs], Figure], Callable[[Runs], object]]] = {
    "gpus_held": (who_holds, scheduled),
    "queueing": (queueing, know_tiers),
    "communication": (communication, know_tiers),
    "tiers": (tiers, know_tiers),
    "timers": (timers, tune_timers),
    "timeline": (timeline, tell_tasks),
    "gantt": (gantt, fit_a_page),
    "shared_link": (shared_link, share_links),
    "affinity_graph": (affinity, share_links),
    "iterations": (iterations, of_iterations),
    "day": (day, serve_requests),
    "prices": (prices, priced),
}
"""The plots behind those, and what tells whether runs have what they show."""
