"""The report: one HTML file with tables and plots inside, which loads nothing from anywhere."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from apportion.report.page_style import CSS
from apportion.report.plots import kinds_of, plot
from apportion.report.style import inline_svg
from apportion.report.tables import human_measures, human_table, notes_on

if TYPE_CHECKING:
    import pandas as pd

    from apportion.sim import Run

__all__ = ["report_page", "summary_html"]

logger = logging.getLogger(__name__)

NO_PLOTS = "Plots need matplotlib: pip install apportion[plot]."


def report_page(
    runs: Mapping[str, Run],
    summary: pd.DataFrame,
    workload: pd.DataFrame,
    record: Mapping[str, Any],
) -> str:
    """Return the report of a comparison as one HTML page.

    Parameters
    ----------
    runs
        Finished runs by policy, in the order of the report.
    summary
        One row per policy, columns as in ``Comparison.summary()``.
    workload
        Description of the workload, as ``Workload.describe()`` returns it.
    record
        What it takes to repeat the comparison: the content of ``run.json``.
    """
    name = escape(str(record["workload"]["name"]))
    body = [
        f"<header><h1>Scheduling policies compared</h1><p>{_subtitle(record)}</p></header>",
        f"<section><h2>Summary</h2>{summary_html(summary)}{_notes(record)}</section>",
        f"<section><h2>Plots</h2>{_plots(runs)}</section>",
        f"<section><h2>Workload</h2>{_measures(workload)}</section>",
        f"<section><h2>Settings</h2>{_settings(record)}</section>",
        f"<section><h2>Repeat it</h2>{_repeat(record)}</section>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>apportion: {name}</title><style>{CSS}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + "\n</main></body>\n</html>\n"
    )


def summary_html(summary: pd.DataFrame) -> str:
    """Return the summary in human units as an HTML table, best values in bold."""
    table = human_table(summary)
    head = "".join(
        f"<th>{escape(label)}<br><small>{escape(unit) or '&nbsp;'}</small></th>"
        for label, unit in zip(table.header, table.units, strict=True)
    )
    rows = [
        "".join(
            f'<td class="best">{escape(text)}</td>' if best else f"<td>{escape(text)}</td>"
            for text, best in zip(cells, marks, strict=True)
        )
        for cells, marks in zip(table.cells, table.best, strict=True)
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<div class="wide"><table class="summary"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
        '<p class="legend">Bold: best of the column. Busy: share of GPUs in '
        f"use until the last completion. {escape(table.legend)}</p>{_failures(summary)}"
    )


def _failures(summary: pd.DataFrame) -> str:
    """Say which policies failed, and why."""
    if "error" not in summary.columns:
        return ""
    failed = summary.loc[summary["error"].notna(), ["policy", "error"]]
    return "".join(
        f'<p class="failed">{escape(str(policy))} failed: {escape(str(error))}</p>'
        for policy, error in failed.itertuples(index=False)
    )


def _measures(workload: pd.DataFrame) -> str:
    return _pairs((name, f"{value} {unit}") for name, value, unit in human_measures(workload))


def _subtitle(record: Mapping[str, Any]) -> str:
    """Say in one line what was compared on what."""
    workload = record["workload"]
    gpus = ", ".join(f"{count} {name}" for name, count in record["cluster"]["gpus"].items())
    return escape(f"{workload['name']}: {workload['jobs']:,} jobs on {gpus}")


def _notes(record: Mapping[str, Any]) -> str:
    notes = notes_on(record["workload"]["notes"], record["settings"])
    items = "".join(f"<li>{escape(str(note))}</li>" for note in notes)
    return f'<ul class="notes">{items}</ul>' if items else ""


def _plots(runs: Mapping[str, Run]) -> str:
    """Draw every plot, or say what to install."""
    if find_spec("matplotlib") is None:
        logger.warning("%s", NO_PLOTS)
        return f"<p>{escape(NO_PLOTS)}</p>"
    drawn = [
        f'<figure class="{kind}">{inline_svg(plot(runs, kind), kind)}</figure>'
        for kind in kinds_of(runs)
    ]
    return f'<div class="plots">{"".join(drawn)}</div>'


def _settings(record: Mapping[str, Any]) -> str:
    cluster = [(key.replace("_", " "), _value(value)) for key, value in record["cluster"].items()]
    settings = [(key.replace("_", " "), _value(value)) for key, value in record["settings"].items()]
    return f"<h3>Cluster</h3>{_pairs(cluster)}<h3>Simulation</h3>{_pairs(settings)}"


def _repeat(record: Mapping[str, Any]) -> str:
    command = record.get("command")
    shown = f"<pre>{escape(command)}</pre>" if command else ""
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    fingerprint = record["workload"]["fingerprint"]
    return (
        f"{shown}<p>Workload fingerprint <code>{escape(fingerprint)}</code>; every setting is in "
        f"run.json beside this file.</p><p>{escape(versions)}</p>"
    )


def _value(value: object) -> str:
    """Write a setting as people do: mappings as name=value, None as a dash."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_value(each)}" for name, each in value.items())
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    rows = "".join(
        f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in pairs
    )
    return f'<dl class="pairs">{rows}</dl>'
