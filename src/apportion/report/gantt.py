"""Who has which GPU when: a row for each device, a bar for each stay of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError
from apportion.report.series import natural
from apportion.report.style import COLOURS, heading, line_styles, new_figure, plotting_style, tell
from apportion.report.tables import time_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

    from apportion.sim import Run

_MOST_BARS = 20_000
_MOST_RUNS, _PAGE_GPUS, _PAGE_BARS = 3, 64, 1_500
"""What a page shows: each bar is some 300 bytes."""
_HATCHES = ("", "///", "---", "|||")
"""Once the colours are used up, types of jobs differ by hatching; dots would make a page heavy."""


def gantt_figure(run: Run, title: str | None = None) -> Figure:
    """Draw the schedule of a run: one row for each GPU, one colour for each type of job.

    Parameters
    ----------
    run
        With its schedule, and at most 20,000 stays on single GPUs.
    title
        What stands above; the policy, by default.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        If there is more to draw than a picture can show.
    ApportionError
        If matplotlib is not installed.
    """
    if (bars := _bars_of(run)) > _MOST_BARS:
        raise InputError(
            f"A picture of the schedule shows at most {_MOST_BARS:,} stays on single GPUs, "
            f"and this run has {bars:,}: draw a shorter run."
        )
    with plotting_style():
        return _drawn({title or run.policy: run})


def fit_a_page(runs: Mapping[str, Run]) -> bool:
    """Tell whether runs have a schedule of devices, of at most 64 GPUs."""
    shown = list(runs.values())[:_MOST_RUNS]
    return bool(shown) and all(
        len(run.tables.get("schedule", ()))
        and "devices" in run.schedule
        and run.cluster.total_gpus <= _PAGE_GPUS
        for run in shown
    )


def _bars_of(run: Run) -> int:
    return int(run.schedule["devices"].map(len).sum())


def gantt(runs: Mapping[str, Run]) -> Figure:
    """Draw the first runs, up to the time at which there are enough bars for a page."""
    shown = dict(list(runs.items())[:_MOST_RUNS])
    begun_s = np.sort(
        np.concatenate(
            [
                np.repeat(run.schedule["start_s"], run.schedule["devices"].map(len))
                for run in shown.values()
            ]
        )
    )
    until_s = float(begun_s[_PAGE_BARS]) if begun_s.size > _PAGE_BARS else np.inf
    figure = _drawn(shown, until_s)
    heading(figure, "which job has which GPU", len(shown), len(runs))
    return figure


def _drawn(runs: Mapping[str, Run], until_s: float = np.inf) -> Figure:
    """Draw one column per run, up to a time; types of jobs look alike in all of them."""
    looks = _looks(sorted({t for run in runs.values() for t in _types(run)}, key=natural))
    rows = max(run.cluster.total_gpus for run in runs.values())
    across = 3 if len(runs) > 1 else 2
    figure = new_figure(
        max(6.4, 4.6 * len(runs)), 1.2 + 0.19 * rows + 0.2 * -(-len(looks) // across)
    )
    panels = figure.subplots(1, len(runs), sharex=True, sharey=True, squeeze=False)[0]
    last_s = max(float(run.schedule["end_s"].max()) for run in runs.values())
    unit, seconds = time_unit(min(last_s, until_s))
    cut = f", the first {until_s / seconds:.3g} {unit}" if until_s < last_s else ""
    for axes, (name, run) in zip(panels, runs.items(), strict=True):
        _draw(axes, run, looks, min(last_s, until_s), until_s)
        axes.set(xlabel=f"time ({unit})", title=name + cut)
    panels[0].invert_yaxis()
    handles = {h.get_label(): h for axes in panels for h in axes.containers}
    figure.legend(
        handles=[handles[name] for name in looks if name in handles],
        loc="outside lower center",
        ncols=across,
    )
    return figure


def _types(run: Run) -> pd.Series:
    return run.jobs["job_type"].astype(str)


def _looks(types: Sequence[str]) -> dict[str, dict[str, str]]:
    """Give every type of job a colour, and a hatching once the colours are used up."""
    return {
        name: {
            "facecolor": colour["color"],
            "hatch": _HATCHES[rank // len(COLOURS) % len(_HATCHES)],
        }
        for rank, (name, colour) in enumerate(line_styles(types).items())
    }


def _draw(
    axes: Any, run: Run, looks: Mapping[str, dict[str, str]], longest_s: float, until_s: float
) -> None:
    """Draw a bar for each stay on a GPU up to a time, type of job by type of job."""
    unit, seconds = time_unit(longest_s)
    stays, types = run.schedule, _types(run)
    stays = stays[stays["start_s"] < until_s]
    stays = stays.assign(end_s=np.minimum(stays["end_s"], until_s))
    rows = [(name, device) for name, gpus in run.cluster.gpus.items() for device in range(gpus)]
    place = {row: number for number, row in enumerate(rows)}
    for name, look in looks.items():
        theirs = stays[stays["job"].map(types) == name].explode("devices")
        if theirs.empty:
            continue
        where = list(zip(theirs["accelerator"], theirs["devices"], strict=True))
        bars = axes.barh(
            [place[str(type_), int(device)] for type_, device in where],
            (theirs["end_s"] - theirs["start_s"]) / seconds,
            left=theirs["start_s"] / seconds,
            height=0.86,
            edgecolor="white",
            linewidth=0.0,
            label=name,
            **look,
        )
        times = zip(theirs["start_s"] / seconds, theirs["end_s"] / seconds, strict=True)
        for bar, job, gpu, (start, end) in zip(bars, theirs["job"], where, times, strict=True):
            tell(bar, f"job {job}, {name}\n{gpu[0]} {gpu[1]}, {start:.4g} to {end:.4g} {unit}")
    axes.set_yticks(range(len(rows)), [f"{name} {device}" for name, device in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)
