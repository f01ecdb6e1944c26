"""The report of a sweep, its tables in human units, and a figure against load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.errors import unknown_name
from apportion.experiments.sweeps.figures import by_seed
from apportion.report.built_in import has_plots, notes_html, repeat_html, settings_html
from apportion.report.dots import Dot, Dots, dots_figure, dots_table
from apportion.report.files import page_of, part, table_html
from apportion.report.found import best_in_words
from apportion.report.style import inline_svg, line_styles, new_figure, plotting_style
from apportion.report.tables import MEASURES, human_table, longest_time_s, time_unit
from apportion.statistics.typeset import HumanTable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from apportion.experiments.sweeps.result import Sweep


_DIFFERENCES = {"mean_jct_s": "mean JCT", "p95_jct_s": "p95 JCT", "makespan_s": "makespan"}
_AGAINST_LOAD = ("mean_jct_s", "p95_jct_s", "utilization")


def sweep_page(sweep: Sweep, against: str | None = None) -> str:
    """Return the report as one page; `against` as for `Sweep.to_html`."""
    record = sweep.record()
    title = ", ".join(record["workloads"])
    sections = [
        ("What was found", part("sentences", _found(sweep)) + part("failures", _failed(sweep))),
        ("Means over seeds", _means(sweep)),
        ("Paired differences", _apart(sweep, against or record["policies"][0])),
        ("Against load", _against_load(sweep)),
        ("Groups of jobs", _groups(sweep)),
        ("Settings", settings_html(record)),
        ("Repeat it", repeat_html(record, "sweep.json")),
    ]
    heading = "Scheduling policies over draws of jobs"
    subtitle = f"{title}: {len(sweep)} runs on {sweep.clusters}"
    return page_of(title, heading, subtitle, [each for each in sections if each[1]])


def _failed(sweep: Sweep) -> list[str]:
    failure = sweep.failure()
    return [] if failure is None else [str(failure)]


def _point(sweep: Sweep, row: pd.Series) -> str:
    """Say at which point of the sweep a row is, where there are several."""
    names = [name for name in sweep.point[1:] if sweep.table()[name].nunique() > 1]
    return ", ".join(f"load {row[name]:g}" if name == "load" else str(row[name]) for name in names)


def _found(sweep: Sweep) -> list[str]:
    """Say at each point who is best, and who cannot be told from it."""
    said, point = [], sweep.point[1:]
    for _, rows in sweep.summary().groupby(point, sort=False):
        mean = rows.set_index("policy")["mean_jct_s"].dropna()
        if len(mean) < 2:
            continue
        best = str(mean.idxmin())
        apart = sweep.differences(best).merge(rows[point].iloc[:1], on=point)
        apart = apart[apart["figure"] == "mean_jct_s"].set_index("policy")
        at = _point(sweep, rows.iloc[0])
        words = best_in_words(best, mean, apart, "seeds")
        said.append(f"At {at}: {words}" if at else words)
    return said


def _means(sweep: Sweep) -> str:
    legend = "Means over seeds; lowest and highest mean JCT of a seed."
    tables = sweep.human_tables().items()
    return "".join(table_html(each, legend, name) for name, each in tables) + notes_html(
        sweep.notes
    )


def _apart(sweep: Sweep, against: str) -> str:
    """Show by how much policies are above one of them, with intervals paired by seed."""
    found = sweep.differences(against)
    parts = []
    for name, rows in found.groupby("workload", sort=False) if len(found) else ():
        unit, scale = time_unit(longest_time_s(sweep.summary()))
        dots: Dots = {}
        for figure, label in _DIFFERENCES.items():
            for _, row in rows[rows["figure"] == figure].iterrows():
                at = _point(sweep, row.drop("workload").reindex(sweep.point[1:], fill_value=name))
                numbers = (row[each] / scale for each in ("difference", "low", "high"))
                dots.setdefault(label, []).append(Dot((row["policy"], at), *numbers))
        if not dots:
            continue
        title = f"{name}: above {against} (below 0: shorter)"
        table = dots_table(dots, ("policy", "at"), unit, "+,.2f")
        parts.append(table_html(table, "With paired 95 % intervals over seeds.", title))
        if has_plots():
            drawn = inline_svg(dots_figure(dots, 0.0, f"difference ({unit})"), f"dots-{len(parts)}")
            parts.append(part("figures", [("dots", drawn)]))
    return "".join(parts)


def _against_load(sweep: Sweep) -> str:
    """Draw figures against load, where there are several."""
    summary = sweep.summary()
    if summary["load"].nunique() < 2 or not has_plots():
        return ""
    figures = [name for name in _AGAINST_LOAD if name in summary and summary[name].notna().any()]
    drawn = [(name, inline_svg(plot_against_load(summary, name), name)) for name in figures]
    return part("figures", drawn)


def _groups(sweep: Sweep) -> str:
    if sweep.plan.setup.by is None:
        return ""
    return "".join(table_html(each, "", name) for name, each in sweep.group_tables().items())


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
