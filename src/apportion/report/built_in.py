"""The sections that every report has, in their order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.report.files import part, table_html
from apportion.report.found import RECORDED, columns_of_groups, findings, group_table
from apportion.report.plots import kinds_of, plot
from apportion.report.style import inline_svg
from apportion.report.tables import human_measures

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from apportion.experiments import Comparison
    from apportion.sim import Run

logger = logging.getLogger(__name__)

_GROUPS = 20
"""Users, entities, ... that a page shows at most."""

NO_PLOTS = "Plots need matplotlib: pip install apportion[plot]."


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
    said = findings(comparison)
    return Section("What was found", part("sentences", said)) if said else None


def _summary(comparison: Comparison) -> Section:
    return Section("Summary", [summary_html(comparison), notes_html(comparison.notes)])


def notes_html(notes: Sequence[str]) -> str:
    """Return notes as a list in HTML, nothing for none."""
    return part("sentences", [str(each) for each in notes], "notes") if notes else ""


def _start_costs(comparison: Comparison) -> Section | None:
    """Show whether what a start costs decides who is best."""
    table = comparison.start_costs()
    if table is None:
        return None
    legend = "Mean JCT where a start costs so many times as much."
    return Section("What starts cost", table_html(table, legend))


def _against(comparison: Comparison) -> Section | None:
    """Show by how much policies are later than the log's own schedule, where it is a row."""
    table = comparison.differences_in_words(RECORDED) if RECORDED in comparison.runs else None
    if table is None:
        return None
    legend = f"Later than by {RECORDED} (below 0: sooner), with paired 95 % intervals."
    legend += " Jobs that are done sooner count whatever the difference."
    return Section("Against the log", table_html(table, legend))


def _groups(comparison: Comparison) -> Section | None:
    """Show what the largest users, entities, types of jobs, ... had, each column folded."""
    parts = []
    for column in columns_of_groups(comparison):
        whole = comparison.by(column)
        of = whole[column].nunique()
        head = f"By {column.replace('_', ' ')}"
        head += f", the {_GROUPS} of most GPU time out of {of}" * (of > _GROUPS)
        parts.append(part("folded", head, table_html(group_table(whole, most=_GROUPS))))
    return Section("Groups of jobs", parts) if parts else None


def _plots(comparison: Comparison) -> Section:
    return Section("Plots", _drawn(comparison.runs))


def has_plots() -> bool:
    """Whether there is matplotlib; says what to install if not."""
    found = find_spec("matplotlib") is not None
    if not found:
        logger.warning("%s", NO_PLOTS)
    return found


def _drawn(runs: Mapping[str, Run]) -> str:
    """Draw every plot, or say what to install."""
    if not has_plots():
        return part("sentences", [NO_PLOTS], "notes")
    return part("figures", [(kind, inline_svg(plot(runs, kind), kind)) for kind in kinds_of(runs)])


def _workload(comparison: Comparison) -> Section:
    measures = human_measures(comparison.workload.describe(comparison.cluster))
    pairs = [(name, f"{n} {unit}".strip()) for name, n, unit in measures]
    return Section("Workload", part("pairs", pairs))


def _settings(comparison: Comparison) -> Section:
    return Section("Settings", settings_html(comparison.record()))


def settings_html(record: Mapping[str, Any]) -> str:
    """Return the cluster and the settings of a record (``run.json``, ``sweep.json``) as HTML."""
    shown = [("Cluster", record["cluster"])]
    apart: dict[str, list[str]] = {}
    for policy, settings in record.get("settings_by_policy", {}).items():
        apart.setdefault(settings["mechanism"], []).append(policy)
    for policies in apart.values():  # those of a mechanism share their settings
        head = f"Simulation under {', '.join(policies)}"
        shown.append((head, record["settings_by_policy"][policies[0]]))
    if not apart:
        shown.append(("Simulation", record["settings"]))
    return "".join(
        part(
            "pairs", [(name.replace("_", " "), _value(value)) for name, value in each.items()], head
        )
        for head, each in shown
    )


def _repeat(comparison: Comparison) -> Section:
    record = comparison.record()
    fingerprint = record["workload"]["fingerprint"]
    return Section("Repeat it", repeat_html(record, "run.json", fingerprint))


def repeat_html(record: Mapping[str, Any], file: str, fingerprint: str = "") -> str:
    """Return what it takes to repeat a comparison or sweep, of its record and that's file."""
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    return part("repeat", record.get("command"), fingerprint, file, versions)


FIRST: Mapping[str, Callable[[Comparison], Section | None]] = {
    "found": _found,
    "summary": _summary,
    "against": _against,
    "start_costs": _start_costs,
    "groups": _groups,
    "plots": _plots,
}
LAST: Mapping[str, Callable[[Comparison], Section | None]] = {
    "workload": _workload,
    "settings": _settings,
    "repeat": _repeat,
}


def summary_html(comparison: Comparison) -> str:
    """Return the summary in human units as an HTML table, best values marked.

    Raises
    ------
    ApportionError
        If jinja2 is not installed.
    """
    legend = "Busy: share of GPUs in use until the last completion."
    table = table_html(comparison.human_table(), legend)
    failed = [f"{policy} failed: {error}" for policy, error in comparison.errors.items()]
    return table + part("failures", failed)


def _value(value: object) -> str:
    """Write a setting as people do: mappings as name=value, None as a dash."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_value(each)}" for name, each in value.items()) or "-"
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)
