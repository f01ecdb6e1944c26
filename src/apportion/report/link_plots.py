"""Pictures of jobs that share links: circles before and after rotation, loads, affinity graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.report.style import line_styles, new_figure, plotting_style, with_legend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from apportion.mechanism.time_shifts import AffinityGraph, Compatibility

_TOO_MUCH = "#B22222"
_RING, _INNER = 0.8, 1.2
_STATES = ((False, "as they start"), (True, "shifted"))


def compatibility_figure(found: Compatibility) -> Figure:
    """Draw how jobs share a link without shifts and with them.

    Above, the unified circle, clockwise from the top: one ring a job, darker where it wants more,
    and outermost, in red, where all together want more than the link has. Below, the load over the
    same time. Periods that are incommensurate have no circle.

    Parameters
    ----------
    found
        Of `apportion.compatibility`.

    Raises
    ------
    ApportionError
        If matplotlib is not installed.
    """
    with plotting_style():
        rows = 2 if found.commensurate else 1
        figure = new_figure(width=8.6, height=3.2 + 3.4 * (rows - 1))
        draw_compatibility(figure, found, columns=2)
        return figure


def draw_compatibility(figure: Any, found: Compatibility, *, columns: int) -> None:
    """Draw circles and loads into a figure or a part of one.

    Circles stand above their loads in two columns, beside them in four.
    """
    if found.commensurate:
        rows, circles, below = (2, (1, 2), (3, 4)) if columns == 2 else (1, (1, 3), (2, 4))
        for place, (shifted, _) in zip(circles, _STATES, strict=True):
            axes = figure.add_subplot(rows, columns, place, projection="polar")
            _circle(axes, found, shifted=shifted)
    else:
        rows, columns, below = 1, 2, (1, 2)
    first = figure.add_subplot(rows, columns, below[0])
    loads = [first, figure.add_subplot(rows, columns, below[1], sharey=first)]
    for axes, (shifted, words) in zip(loads, _STATES, strict=True):
        _load(axes, found, shifted=shifted)
        score = found.score if shifted else found.unshifted_score
        axes.set_title(f"{words}: score {_rounded(score)}")
    first.set_ylabel("wanted of the link (Gb/s)")
    with_legend(figure, first)


def affinity_figure(graph: AffinityGraph, shifts_s: dict[Any, float] | None = None) -> Figure:
    """Draw which jobs share which links: jobs on the left, links on the right.

    Parameters
    ----------
    graph
        Of `AffinityGraph` or `RankedPlacement.graph`.
    shifts_s
        Shifts to write beside the jobs, seconds; shown as milliseconds.

    Raises
    ------
    ApportionError
        If matplotlib is not installed.
    """
    with plotting_style():
        most = max(len(graph.links_of), len(graph.jobs_of))
        figure = new_figure(width=6.4, height=max(2.4, 0.9 + 0.45 * most))
        axes = figure.subplots()
        draw_affinity(axes, graph, shifts_s)
        axes.set_title(f"Jobs and the links they share: {_loops(graph)}", loc="center")
        return figure


def draw_affinity(
    axes: Any, graph: AffinityGraph, shifts_s: Mapping[Any, float] | None = None
) -> None:
    """Draw an affinity graph into axes, each connected part in a colour."""
    jobs = [job for component in graph.components for job in component]
    links = list(graph.jobs_of)
    job_at = dict(zip(jobs, _spread(len(jobs)), strict=True))
    link_at = dict(zip(links, _spread(len(links)), strict=True))
    styles = line_styles([str(number) for number in range(len(graph.components))])
    colours = {
        job: styles[str(number)]["color"]
        for number, component in enumerate(graph.components)
        for job in component
    }
    for link, members in graph.jobs_of.items():
        for job in members:
            axes.plot([0, 1], [job_at[job], link_at[link]], color=colours[job], linewidth=1.2)
        axes.plot(1, link_at[link], "s", color="#444444", markersize=9)
        axes.annotate(str(link), (1, link_at[link]), (10, 0), **_beside("left"))
    for job in jobs:
        axes.plot(0, job_at[job], "o", color=colours[job], markersize=10)
        shift = "" if shifts_s is None or job not in shifts_s else f"  +{_ms(shifts_s[job]):.4g} ms"
        axes.annotate(f"{job}{shift}", (0, job_at[job]), (-10, 0), **_beside("right"))
    axes.set(xlim=(-0.75, 1.5), ylim=(-0.08, 1.08))
    axes.set_axis_off()


def _circle(axes: Any, found: Compatibility, *, shifted: bool) -> None:
    """Draw one ring a job, and one of the excess."""
    turn = 2 * np.pi / found.perimeter_s
    styles = line_styles(_labels(found))
    most = max((profile.peak_gbps for profile in found.profiles), default=0.0) or 1.0
    for ring, (label, profile) in enumerate(zip(_labels(found), found.profiles, strict=True)):
        bottom = _INNER + ring
        axes.bar(0, _RING, 2 * np.pi, bottom, align="edge", color="#f0f0f0", linewidth=0)
        start_s = found.shifts_s[ring] if shifted else 0.0
        for phase in profile.phases:
            at = start_s + phase.start_s + profile.period_s * np.arange(found.repetitions[ring])
            axes.bar(
                at * turn,
                _RING,
                phase.duration_s * turn,
                bottom,
                align="edge",
                color=styles[label]["color"],
                alpha=0.25 + 0.75 * phase.gbps / most,
                linewidth=0,
            )
    times, load = found.load(shifted=shifted)
    over = load[:-1] > found.capacity_gbps * (1 + 1e-9)
    axes.bar(
        times[:-1][over] * turn,
        0.25,
        np.diff(times)[over] * turn,
        _INNER + len(found.profiles),
        align="edge",
        color=_TOO_MUCH,
        linewidth=0,
    )
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set_ylim(0, _INNER + len(found.profiles) + 0.3)
    axes.set_yticks([])
    quarters = np.arange(4) / 4
    axes.set_xticks(
        2 * np.pi * quarters, [f"{each:.4g}" for each in quarters * _ms(found.perimeter_s)]
    )
    axes.grid(visible=False)
    axes.spines["polar"].set_visible(False)
    axes.text(0, 0, "ms", ha="center", va="center", fontsize=8, color="#666666")


def _load(axes: Any, found: Compatibility, *, shifted: bool) -> None:
    """Stack the demands of the jobs over time, beside the capacity."""
    times, load = found.load(shifted=shifted)
    times = _ms(times)
    middles = np.append((times[:-1] + times[1:]) / 2, times[-1])
    styles = line_styles(_labels(found))
    total = np.zeros(times.size)
    for place, (label, profile) in enumerate(zip(_labels(found), found.profiles, strict=True)):
        demand = profile.demand(middles / 1e3 - (found.shifts_s[place] if shifted else 0.0))
        axes.fill_between(
            times,
            total,
            total + demand,
            step="post",
            color=styles[label]["color"],
            alpha=0.75,
            linewidth=0,
            label=label,
        )
        total = total + demand
    capacity = np.full(times.size, found.capacity_gbps)
    axes.fill_between(
        times,
        capacity,
        np.maximum(load, capacity),
        step="post",
        facecolor="none",
        edgecolor=_TOO_MUCH,
        hatch="////",
        linewidth=0,
        label="more than the link has",
    )
    axes.axhline(found.capacity_gbps, color="#222222", linewidth=1.0)
    axes.set(xlim=(0, times[-1]), xlabel="time (ms)")
    axes.set_ylim(
        0, 1.15 * max(found.capacity_gbps, found.load(shifted=False)[1].max(), load.max())
    )


def _loops(graph: AffinityGraph) -> str:
    return {0: "no loop", 1: "a loop"}.get(graph.loops, f"{graph.loops} loops")


def _labels(found: Compatibility) -> list[str]:
    """Names of the jobs, told apart where two have one."""
    names = found.jobs
    return [
        name if names.count(name) == 1 else f"{name} ({names[: place + 1].count(name)})"
        for place, name in enumerate(names)
    ]


def _spread(count: int) -> list[float]:
    """Heights from top to bottom."""
    return [0.5] if count == 1 else np.linspace(1, 0, count).tolist()


def _beside(side: str) -> dict[str, Any]:
    return {"textcoords": "offset points", "ha": side, "va": "center"}


def _ms(time_s: Any) -> Any:
    """Return milliseconds: iterations last fractions of a second."""
    return 1e3 * time_s


def _rounded(score: float) -> str:
    return f"{score:.3f}".rstrip("0").rstrip(".")
