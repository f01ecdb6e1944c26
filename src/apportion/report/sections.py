"""Sections of the report: those of the package, and those of one's own or of other packages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.errors import InputError, written
from apportion.own_code import answered_by, place_of, said_with_place
from apportion.registry import Registry
from apportion.report.against import RECORDED
from apportion.report.found import findings
from apportion.report.groups import columns_of_groups, group_table
from apportion.report.plots import kinds_of, plot
from apportion.report.style import inline_svg
from apportion.report.tables import human_measures

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from apportion.experiments import Comparison
    from apportion.sim import Run
    from apportion.statistics.typeset import HumanTable

logger = logging.getLogger(__name__)

_GROUPS = 20
"""Users, entities, ... that a page shows at most."""

NO_PLOTS = "Plots need matplotlib: pip install apportion[plot]."


_STYLES = {"*": ' class="best"', "~": ' class="near"', "": ""}


class Section(NamedTuple):
    """A section of the report.

    Attributes
    ----------
    title
        A text, as its heading.
    content
        HTML, which is put there as it is, a table, a matplotlib figure, or a list of these.
    """

    title: str
    content: str | pd.DataFrame | Figure | Sequence[str | pd.DataFrame | Figure]


def _found(comparison: Comparison) -> Section | None:
    """Say what was found in three sentences."""
    said = "".join(f"<li>{escape(text)}</li>" for text in findings(comparison))
    return Section("What was found", f'<ul class="found">{said}</ul>') if said else None


def _summary(comparison: Comparison) -> Section:
    items = "".join(f"<li>{escape(str(note))}</li>" for note in comparison.notes)
    notes = f'<ul class="notes">{items}</ul>' if items else ""
    return Section("Summary", summary_html(comparison) + notes)


def _start_costs(comparison: Comparison) -> Section | None:
    """Show whether what a start costs decides who is best."""
    table = comparison.start_costs()
    if table is None:
        return None
    legend = f"Mean JCT where a start costs so many times as much. {table.legend}"
    return Section(
        "What starts cost", [table_html(table), f'<p class="legend">{escape(legend)}</p>']
    )


def _against(comparison: Comparison) -> Section | None:
    """Show by how much policies are later than the log's own schedule, where it is a row."""
    table = comparison.differences_in_words(RECORDED) if RECORDED in comparison.runs else None
    if table is None:
        return None
    legend = f"Later than by {RECORDED} (below 0: sooner), with paired 95 % intervals."
    legend += " Jobs that are done sooner count whatever the difference."
    return Section("Against the log", [table_html(table), f'<p class="legend">{legend}</p>'])


def _groups(comparison: Comparison) -> Section | None:
    """Show what the largest users, entities, ... had, where jobs have such columns."""
    parts = []
    for column in columns_of_groups(comparison):
        whole = comparison.by(column)
        table = group_table(whole, most=_GROUPS)
        of = whole[column].nunique()
        head = f"By {column}" + f", the {_GROUPS} of most GPU time out of {of}" * (of > _GROUPS)
        legend = f'<p class="legend">{escape(table.legend)}</p>'
        parts += [f"<h3>{escape(head)}</h3>", table_html(table), legend]
    return Section("Groups of jobs", parts) if parts else None


def _plots(comparison: Comparison) -> Section:
    return Section("Plots", _drawn(comparison.runs))


def _drawn(runs: Mapping[str, Run]) -> str:
    """Draw every plot, or say what to install."""
    if find_spec("matplotlib") is None:
        logger.warning("%s", NO_PLOTS)
        return f"<p>{escape(NO_PLOTS)}</p>"
    drawn = [
        f'<figure class="{kind}">{inline_svg(plot(runs, kind), kind)}</figure>'
        for kind in kinds_of(runs)
    ]
    return f'<div class="plots">{"".join(drawn)}</div>'


def _workload(comparison: Comparison) -> Section:
    measures = human_measures(comparison.workload.describe(comparison.cluster))
    return Section("Workload", _pairs((name, f"{value} {unit}") for name, value, unit in measures))


def _settings(comparison: Comparison) -> Section:
    record = comparison.record()
    shown = [("Cluster", record["cluster"])]
    apart: dict[str, list[str]] = {}
    for policy, settings in record.get("settings_by_policy", {}).items():
        apart.setdefault(settings["mechanism"], []).append(policy)
    for policies in apart.values():  # those of a mechanism share their settings
        head = f"Simulation under {', '.join(policies)}"
        shown.append((head, record["settings_by_policy"][policies[0]]))
    if not apart:
        shown.append(("Simulation", record["settings"]))
    tables = (
        f"<h3>{escape(head)}</h3>"
        + _pairs((key.replace("_", " "), _value(value)) for key, value in values.items())
        for head, values in shown
    )
    return Section("Settings", "".join(tables))


def _repeat(comparison: Comparison) -> Section:
    record = comparison.record()
    command = record.get("command")
    shown = f"<pre>{escape(command)}</pre>" if command else ""
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    fingerprint = record["workload"]["fingerprint"]
    return Section(
        "Repeat it",
        f"{shown}<p>Workload fingerprint <code>{escape(fingerprint)}</code>; every setting is in "
        f"run.json beside this file.</p><p>{escape(versions)}</p>",
    )


_FIRST = {
    "found": _found,
    "summary": _summary,
    "against": _against,
    "start_costs": _start_costs,
    "groups": _groups,
    "plots": _plots,
}
_LAST = {"workload": _workload, "settings": _settings, "repeat": _repeat}

REPORT_SECTIONS: Registry[Callable[[Comparison], Section | None]] = Registry(
    "report section", "apportion.report_sections", {**_FIRST, **_LAST}, callable
)
"""Makers of sections by name: each is given the comparison, and returns None for no section.

One of one's own is added by assigning it. All that there are stand in every report, those of one's
own and of installed packages behind the plots.
"""


def sections_of(
    comparison: Comparison, names: Iterable[str] | None = None
) -> list[tuple[str, str]]:
    """Return titles and contents of the sections of a report, as HTML, in order.

    One that fails says so in its place: the others, and what was computed, are not lost.

    Parameters
    ----------
    comparison
        What it is about.
    names
        Of `REPORT_SECTIONS`, in the order wanted; all that there are by default.

    Raises
    ------
    InputError
        For an unknown name, before any section is made.
    """
    if names is None:
        REPORT_SECTIONS.load()
        names = [*_FIRST, *REPORT_SECTIONS.added(), *_LAST]
    makers = {name: REPORT_SECTIONS[name] for name in names}
    made = (_made(name, make, comparison) for name, make in makers.items())
    return [section for section in made if section is not None]


def _made(
    name: str, make: Callable[[Comparison], Section | None], comparison: Comparison
) -> tuple[str, str] | None:
    """Return title and HTML of one section; of one that fails, what it says."""
    try:
        section = make(comparison)
        return None if section is None else _in_html(name, section)
    except Exception as error:  # of a section of the user's, behind hours of simulation
        if name in _FIRST or name in _LAST:
            raise
        whose = "" if place_of(error) else answered_by(make)
        said = f"{type(error).__name__}: {said_with_place(error)}{whose}"
        logger.warning("The report section %r failed: %s", name, said)
        return escape(name), f'<p class="failed">{escape(said)}</p>'


def _in_html(name: str, section: Section) -> tuple[str, str]:
    """Return title and HTML of a section.

    Raises
    ------
    InputError
        If it is no section, or its content is nothing that stands on a page.
    """
    if not (isinstance(section, Section) and isinstance(section.title, str)):
        raise InputError(
            f"The report section {name!r} returns {written(section)}; it must return a "
            f"Section(title, content), or None."
        )
    several = section.content if isinstance(section.content, (list, tuple)) else [section.content]
    parts = [_part(f"{name}-{place}", part) for place, part in enumerate(several)]
    return escape(section.title), "".join(parts)


def _part(name: str, part: Any) -> str:
    """Return HTML as it is, a table, or a figure, whose ids begin with the name."""
    if isinstance(part, str):
        return part
    if hasattr(part, "savefig"):
        return f'<div class="plots"><figure>{inline_svg(part, name)}</figure></div>'
    if hasattr(part, "to_html"):
        table = part.to_html(index=False, border=0, na_rep="-", float_format="{:,.4g}".format)
        return f'<div class="wide">{table}</div>'
    raise InputError(
        f"The report section {name.rpartition('-')[0]!r} has the content {written(part)}; it must "
        f"be HTML, a DataFrame, a matplotlib figure, or a list of these."
    )


def summary_html(comparison: Comparison) -> str:
    """Return the summary in human units as an HTML table, best values marked."""
    table = comparison.human_table()
    return (
        f"{table_html(table)}"
        '<p class="legend">Busy: share of GPUs in use until the last completion. '
        f"{escape(table.legend)}</p>{_failures(comparison.summary())}"
    )


def table_html(table: HumanTable) -> str:
    """Return a table as HTML."""
    head = "".join(
        f"<th>{escape(label)}<br><small>{escape(unit) or '&nbsp;'}</small></th>"
        for label, unit in zip(table.header, table.units, strict=True)
    )
    rows = [
        "".join(
            f"<td{_STYLES[mark]}>{escape(text + mark)}</td>"
            for text, mark in zip(cells, marks, strict=True)
        )
        for cells, marks in zip(table.cells, table.marks, strict=True)
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<div class="wide"><table class="summary"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
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
