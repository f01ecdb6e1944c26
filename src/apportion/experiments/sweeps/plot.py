"""A figure against load: a line per policy, shaded from the lowest seed to the highest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.errors import unknown_name
from apportion.report.style import line_styles, new_figure, plotting_style
from apportion.report.tables import MEASURES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_ENDS = ("_lowest", "_highest")


def plot_against_load(summary: pd.DataFrame, metric: str) -> Figure:
    """Draw one figure of a sweep, with axes for each workload.

    Parameters
    ----------
    summary
        As `Sweep.summary` returns it.
    metric
        A figure that it holds with its range.

    Raises
    ------
    InputError
        For an unknown metric.
    ApportionError
        If matplotlib is not installed.
    """
    if "cluster" in summary:
        summary = summary.assign(policy=summary["policy"] + ", " + summary["cluster"])
    metrics = [name for name in summary.columns if f"{name}{_ENDS[0]}" in summary.columns]
    if metric not in metrics:
        raise unknown_name("metric", metric, metrics)
    workloads = list(summary.groupby("workload", sort=False))
    styles = line_styles(list(dict.fromkeys(summary["policy"])))
    label, scale = _axis(metric)
    with plotting_style():
        figure = new_figure(height=3.2 * len(workloads) + 0.6)
        every_axes = figure.subplots(len(workloads), 1, squeeze=False)[:, 0]
        for axes, (workload, rows) in zip(every_axes, workloads, strict=True):
            _draw(axes, rows, metric, scale, styles)
            axes.set(title=str(workload), xlabel="load", ylabel=label)
        handles, labels = every_axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(labels)))
    return figure


def _draw(
    axes: Any, rows: pd.DataFrame, metric: str, scale: float, styles: dict[str, dict[str, Any]]
) -> None:
    """Draw a line and its range for each policy."""
    for policy, points in rows.groupby("policy", sort=False):
        style = styles[str(policy)]
        points = points.sort_values("load")
        load = points["load"].to_numpy()
        mean, low, high = (points[f"{metric}{end}"].to_numpy() / scale for end in ("", *_ENDS))
        axes.plot(load, mean, marker="o", markersize=3, label=policy, **style)
        axes.fill_between(load, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.set_ylim(bottom=0)


def _axis(metric: str) -> tuple[str, float]:
    """Return the label of the axis, and by what values are divided."""
    for measure in MEASURES:
        if measure.column == metric:
            unit = f" ({measure.unit})" if measure.unit else ""
            return f"{measure.label}{unit}", measure.scale
    return metric, 1.0
