"""The report of changes of a cluster: sentences, floors, ratios with their intervals, costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.report.built_in import has_plots, notes_html, repeat_html, settings_html
from apportion.report.dots import Dot, Dots, dots_figure, dots_table
from apportion.report.html import page_of, part, table_html
from apportion.report.style import inline_svg
from apportion.report.tables import time_unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.answers.other_clusters import OtherClusters
    from apportion.cluster import Cluster
    from apportion.sim.floors import Floor


_FIGURES = {"mean_jct_s": "mean JCT", "p95_jct_s": "p95 JCT", "queueing_s": "wait"}


def clusters_page(answer: OtherClusters, level: float) -> str:
    """Return the report as one page; `level` is that of the intervals."""
    record = answer.sweep.record()
    name = ", ".join(record["workloads"])
    rests, dollars = f"{answer.rests_on}.", answer.dollars()
    sections = [
        ("What changes do", part("sentences", answer.sentences(level)) + notes_html([rests])),
        ("Beside today", _apart(answer, level)),
        ("What GPUs cost", part("sentences", dollars) if dollars else ""),
        ("Settings", settings_html(record)),
        ("Repeat it", repeat_html(record, "sweep.json")),
    ]
    subtitle = f"{name}: {len(answer.sweep)} runs; today {answer.clusters['today']}"
    return page_of(name, "What if", subtitle, [each for each in sections if each[1]])


def _apart(answer: OtherClusters, level: float) -> str:
    """Show by what factor figures are those of today, with intervals."""
    table = answer.table(level)
    changed = table[(table["change"] != "today") | (table["rate"] != 1)]
    dots: Dots = {}
    for figure, label in _FIGURES.items():
        for row in changed.to_dict("records"):
            keys = (str(row["policy"]), str(row["change"]), f"rate {row['rate']:g}")
            numbers = (float(row[f"{figure}_{end}"]) for end in ("ratio", "low", "high"))
            dots.setdefault(label, []).append(Dot(keys, *numbers))
    legend = f"Times those of today under the same policy, with paired {level:.0%} intervals."
    shown = table_html(dots_table(dots, ("policy", "change", "arrivals"), "x", ".3f"), legend)
    if not has_plots():
        return shown
    drawn = inline_svg(dots_figure(dots, 1.0, "times that of today"), "dots")
    return shown + part("figures", [("dots", drawn)])


def floors_in_words(
    floors: Mapping[str, Floor],
    clusters: Mapping[str, Cluster],
    means_s: Mapping[str, Mapping[str, float]],
) -> list[str]:
    """Say what floors and simulated mean completion times become, of one draw of jobs.

    Parameters
    ----------
    floors, clusters
        By change, today's first.
    means_s
        Mean completion times of the same draw, by policy and change, seconds.
    """
    today = floors["today"]
    unit, seconds = time_unit(today.mean_jct_s)
    said = []
    for change, floor in floors.items():
        if change == "today":
            continue
        pairs = [
            f"{each['today'] / seconds:.2f} -> {each[change] / seconds:.2f} under {policy}"
            for policy, each in means_s.items()
        ]
        least = f"{today.mean_jct_s / seconds:.2f} -> {floor.mean_jct_s / seconds:.2f} {unit}"
        said.append(
            f"{change} in the first draw alone: mean JCT {', '.join(pairs)}; no schedule is below "
            f"{least} (x {floor.mean_jct_s / today.mean_jct_s:.2f})."
        )
    worth = [f"one more {kind} {s / 60:.1f} min" for kind, s in today.shorter_by_s.items()]
    margin = f"That bound falls at the margin by: {', '.join(worth)}"
    measured = [
        f"{change} {_per_gpu_min(each, change, clusters):.1f} min under {policy}"
        for policy, each in means_s.items()
        for change in floors
        if change != "today"
    ]
    if measured:
        margin += f"; simulated, for each GPU of {', '.join(measured)}"
    return [*said, f"{margin}."]


def _per_gpu_min(
    means_s: Mapping[str, float], change: str, clusters: Mapping[str, Cluster]
) -> float:
    """Return by how much the mean is shorter for each GPU more, minutes."""
    more = clusters[change].total_gpus - clusters["today"].total_gpus
    return (means_s["today"] - means_s[change]) / more / 60
