"""Pictures of iterations that share GPUs and links: who computes, who sends, who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.report.style import heading, line_styles, new_figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

    from apportion.sim import Run

Span = tuple[float, float]
"""When something begins and ends, seconds."""

_MOST_TASKS = 600
"""Of more tasks only the first are drawn: bars would be thinner than a pixel."""
_MOST_RUNS = 3
_ROW, _MOST_HEIGHT = 0.22, 12.0
"""Inches of a row, and of all rows together at most."""
_GREY = "#444444"
_FORWARD, _BACKWARD, _WAITS = 0.6, 1.0, 0.15
"""How opaque the parts of an iteration are."""


def tell_tasks(runs: Mapping[str, Run]) -> bool:
    """Tell whether the runs have a table of tasks."""
    return bool(runs) and all(len(run.tables.get("tasks", ())) for run in runs.values())


class _Shown(NamedTuple):
    """What is drawn of a run: the tables up to a time, seconds."""

    tasks: pd.DataFrame
    transfers: pd.DataFrame
    schedule: pd.DataFrame
    end_s: float
    cut: bool


def timeline(runs: Mapping[str, Run]) -> Figure:
    """Draw jobs, GPUs and links over time, one column per run."""
    shown = {name: _shown(run) for name, run in list(runs.items())[:_MOST_RUNS]}
    jobs = sorted({job for each in shown.values() for job in each.schedule["job"]})
    styles = line_styles([str(job) for job in jobs])
    colours = {job: styles[str(job)]["color"] for job in jobs}
    rows = [max(map(len, lanes)) for lanes in zip(*map(_names, shown.values()), strict=True)]
    row_height = min(_ROW, _MOST_HEIGHT / sum(rows))
    figure = new_figure(max(7.0, 5.2 * len(shown)), 1.6 + row_height * sum(rows))
    ratios = [count + 0.6 for count in rows]
    panels = figure.subplots(3, len(shown), sharex=True, squeeze=False, height_ratios=ratios)
    last_s = max(each.end_s for each in shown.values())
    for column, (name, each) in enumerate(shown.items()):
        on_jobs, on_gpus, on_links = panels[:, column]
        _draw_jobs(on_jobs, each, colours)
        _draw_gpus(on_gpus, each, colours)
        _draw_links(on_links, each, colours)
        on_jobs.set_title(f"{name}, the first {each.end_s:.3g} s" if each.cut else name)
        on_links.set(xlabel="time (s)", xlim=(0, last_s))
        for axes, names in zip(panels[:, column], _names(each), strict=True):
            axes.set_yticks(range(len(names)), names, fontsize=7.5 * row_height / _ROW)
            axes.set_ylim(len(names) - 0.4, -0.6)
            axes.grid(visible=False, axis="y")
            axes.tick_params(axis="y", length=0)
    _explain(figure)
    heading(figure, "", len(shown), len(runs))
    return figure


def _shown(run: Run) -> _Shown:
    """Return the tables of a run, up to the time at which there are enough tasks."""
    tasks, transfers = run.tables["tasks"], run.tables["transfers"]
    end_s = float(run.jobs["completion_s"].max())
    cut = len(tasks) > _MOST_TASKS
    if cut:
        end_s = float(np.sort(tasks["end_s"].to_numpy(float))[_MOST_TASKS - 1])
    tasks, transfers, schedule = (
        table[table["start_s"] < end_s] for table in (tasks, transfers, run.tables["schedule"])
    )
    return _Shown(tasks, transfers, schedule, end_s, cut)


def _links(shown: _Shown) -> list[int]:
    return sorted({link for links in shown.transfers["links"] for link in links})


def _names(shown: _Shown) -> tuple[list[str], list[str], list[str]]:
    """Return the labels of jobs, GPUs and links."""
    jobs = [f"job {job}" for job in sorted(set(shown.schedule["job"]))]
    gpus = [f"GPU {gpu}" for gpu in sorted(set(shown.tasks["gpu"]))]
    return jobs, gpus, [f"link {link}" for link in _links(shown)]


def _draw_jobs(axes: Any, shown: _Shown, colours: Mapping[int, str]) -> None:
    """Draw for each job when it has GPUs, and what it does then."""
    for row, job in enumerate(sorted(set(shown.schedule["job"]))):
        held = shown.schedule[shown.schedule["job"] == job]
        _bars(axes, _spans(held), row, colours[job], alpha=_WAITS)
        tasks = shown.tasks[shown.tasks["job"] == job]
        _bars(axes, _union(_spans(tasks)), row, colours[job])
        sends = shown.transfers[shown.transfers["job"] == job]
        _bars(axes, _union(_spans(sends)), row, colours[job], hatch="/////")


def _draw_gpus(axes: Any, shown: _Shown, colours: Mapping[int, str]) -> None:
    """Draw the tasks of each GPU, forward paler than what follows, and when it is held at all."""
    held = {job: _spans(rows) for job, rows in shown.schedule.groupby("job")}
    for row, gpu in enumerate(sorted(set(shown.tasks["gpu"]))):
        of_gpu = shown.tasks[shown.tasks["gpu"] == gpu]
        spans = [span for job in set(of_gpu["job"]) for span in held[job]]
        _bars(axes, _union(spans), row, _GREY, alpha=_WAITS / 2)
        for (job, task), tasks in of_gpu.groupby(["job", "task"]):
            alpha = _BACKWARD if task else _FORWARD
            _bars(axes, _spans(tasks), row, colours[job], alpha=alpha)


def _draw_links(axes: Any, shown: _Shown, colours: Mapping[int, str]) -> None:
    """Draw the transfers on each link, side by side where they share it."""
    for row, link in enumerate(_links(shown)):
        there = shown.transfers[[link in links for links in shown.transfers["links"]]]
        spans = [
            (span, job) for job, sends in there.groupby("job") for span in _union(_spans(sends))
        ]
        lanes = _lanes(sorted(spans))
        count = max((lane for _, _, lane in lanes), default=0) + 1
        for span, job, lane in lanes:
            _bars(axes, [span], row, colours[job], lane=(lane, count), hatch="/////")


def _bars(
    axes: Any,
    spans: Sequence[Span],
    row: int,
    colour: str,
    *,
    alpha: float = 1.0,
    hatch: str = "",
    lane: tuple[int, int] = (0, 1),
) -> None:
    """Draw bars in a row, or in one of the lanes of a row; hatched ones are white between lines."""
    height = 0.8 / lane[1]
    widths = [(start_s, end_s - start_s) for start_s, end_s in spans]
    where = (row - 0.4 + lane[0] * height, height)
    if hatch:
        style = {"facecolors": "white", "edgecolors": colour, "hatch": hatch, "linewidth": 0.4}
    else:
        style = {"facecolors": colour, "alpha": alpha, "edgecolors": "none"}
    axes.broken_barh(widths, where, **style)


def _spans(table: pd.DataFrame) -> list[Span]:
    """Return the rows as spans in time."""
    return list(zip(table["start_s"].tolist(), table["end_s"].tolist(), strict=True))


def _union(spans: Iterable[Span]) -> list[Span]:
    """Join spans that touch or overlap."""
    joined: list[Span] = []
    for start_s, end_s in sorted(spans):
        if joined and start_s <= joined[-1][1] + 1e-9 * max(1.0, start_s):
            joined[-1] = (joined[-1][0], max(joined[-1][1], end_s))
        else:
            joined.append((start_s, end_s))
    return joined


def _lanes(spans: Sequence[tuple[Span, Any]]) -> list[tuple[Span, Any, int]]:
    """Give spans in the order of their beginnings the first lane that is free."""
    free_s: list[float] = []
    found = []
    for (start_s, end_s), job in spans:
        slack_s = 1e-9 * max(1.0, start_s)
        lane = next((k for k, over_s in enumerate(free_s) if over_s <= start_s + slack_s), None)
        if lane is None:
            lane = len(free_s)
            free_s.append(0.0)
        free_s[lane] = end_s
        found.append(((start_s, end_s), job, lane))
    return found


def _explain(figure: Figure) -> None:
    """Say what is what, in grey: colours are of the jobs."""
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=_GREY, alpha=_FORWARD, label="computes: forward"),
        Patch(facecolor=_GREY, label="computes"),
        Patch(facecolor="white", edgecolor=_GREY, hatch="/////", linewidth=0.4, label="sends"),
        Patch(facecolor=_GREY, alpha=_WAITS, label="has GPUs, and waits"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
