"""The report of a sweep: what was found, means and paired differences, at every load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.experiments.sweeps.plot import plot_against_load
from apportion.report.built_in import has_plots, notes_html, repeat_html, settings_html
from apportion.report.dots import Dot, Dots, dots_figure, dots_table
from apportion.report.found import best_in_words
from apportion.report.html import page_of, part, table_html
from apportion.report.style import inline_svg
from apportion.report.tables import longest_time_s, time_unit

if TYPE_CHECKING:
    import pandas as pd

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
