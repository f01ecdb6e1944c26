"""Changes of a cluster, GPUs added or taken away by type, and the report of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apportion.checks import read_whole, whole
from apportion.errors import InputError, unknown_name, written
from apportion.report.built_in import has_plots, notes_html, repeat_html, settings_html
from apportion.report.dots import Dot, Dots, dots_figure, dots_table
from apportion.report.files import page_of, part, table_html
from apportion.report.style import inline_svg
from apportion.report.tables import time_unit

if TYPE_CHECKING:
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


Changes = Mapping[str, int | Sequence[int]] | str
"""GPUs by type, one number or several to be tried apart: ``{"a100": [8, 16]}``, "a100=8,16"."""


def read_changes(name: str, given: Changes | None) -> dict[str, list[int]]:
    """Read changes by type.

    Parameters
    ----------
    name
        What messages call them, ``"add"``.
    given
        A mapping, or text: ``"a100=8,16,h100=4"``.

    Raises
    ------
    InputError
        For what cannot be read, and numbers that are not whole and above 0.
    """
    if given is None:
        return {}
    valid = f"{name} is {written(given)}; write types with numbers of GPUs, as 'a100=8,16'."
    pairs: list[tuple[str, Any]] = []
    if isinstance(given, str):
        for part in given.split(","):
            key, equals, count = (each.strip() for each in part.rpartition("="))
            if not equals and not pairs:
                raise InputError(valid)
            try:
                pairs.append((key if equals else pairs[-1][0], read_whole(count, 1)))
            except ValueError as error:
                raise InputError(f"{valid[:-1]}: {error}.") from error
    elif isinstance(given, Mapping):
        for key, counts in given.items():
            several = [counts] if isinstance(counts, int) else counts
            if isinstance(several, str) or not isinstance(several, Sequence):
                raise InputError(valid)
            pairs += [(str(key), each) for each in several]
    else:
        raise InputError(valid)
    found: dict[str, list[int]] = {}
    for key, count in pairs:
        if not key:
            raise InputError(valid)
        found.setdefault(key, []).append(whole(f"{name} of {key!r}", count, 1))
    return found


def changed_clusters(
    cluster: Cluster, add: Changes | None, remove: Changes | None
) -> dict[str, Cluster]:
    """Return the cluster as it is, as ``"today"``, and each changed one by what is changed.

    Raises
    ------
    InputError
        For GPUs that are not there to be removed, and as `read_changes`.
    """
    found = {"today": cluster}
    for key, counts in read_changes("add", add).items():
        for count in counts:
            found[f"+{count} {key}"] = _with(cluster, key, count)
    for key, counts in read_changes("remove", remove).items():
        if key not in cluster.gpus:
            raise unknown_name("accelerator in remove", key, cluster.gpus)
        for count in counts:
            if count > cluster.gpus[key]:
                raise InputError(
                    f"remove takes {count} {key} away, and the cluster {cluster} has "
                    f"{cluster.gpus[key]}."
                )
            found[f"-{count} {key}"] = _with(cluster, key, -count)
    return found


def _with(cluster: Cluster, key: str, count: int) -> Cluster:
    """Return a cluster with so many GPUs more; types of which none is left are gone."""
    gpus = {**cluster.gpus, key: cluster.gpus.get(key, 0) + count}
    left = {name: number for name, number in gpus.items() if number or name != key}
    prices = {name: usd for name, usd in cluster.prices_per_gpu_hour.items() if name in left}
    return replace(cluster, gpus=left, prices_per_gpu_hour=prices)
