"""Who has which GPU when: a row for each device, a bar for each stay of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.errors import InputError
from apportion.report.style import COLOURS, line_styles, new_figure, plotting_style
from apportion.report.tables import time_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from apportion.sim import Run

_MOST_BARS = 20_000
_HATCHES = ("", "////", "....", "xxxx")
"""Once the colours are used up, types of jobs differ by hatching."""


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
    stays = run.schedule
    bars = int(stays["devices"].map(len).sum())
    if bars > _MOST_BARS:
        raise InputError(
            f"A picture of the schedule shows at most {_MOST_BARS:,} stays on single GPUs, "
            f"and this run has {bars:,}: draw a shorter run."
        )
    rows = [(name, device) for name, gpus in run.cluster.gpus.items() for device in range(gpus)]
    place = {row: number for number, row in enumerate(rows)}
    types = run.jobs["job_type"].astype(str)
    colours = line_styles(sorted(types.unique()))
    with plotting_style():
        figure = new_figure(height=1.2 + 0.19 * len(rows) + 0.1 * len(colours))
        axes = figure.subplots()
        unit, seconds = time_unit(float(stays["end_s"].max()))
        for rank, (name, colour) in enumerate(colours.items()):
            theirs = stays[stays["job"].map(types) == name].explode("devices")
            where = zip(theirs["accelerator"], theirs["devices"], strict=True)
            axes.barh(
                [place[str(type_), int(device)] for type_, device in where],
                (theirs["end_s"] - theirs["start_s"]) / seconds,
                left=theirs["start_s"] / seconds,
                height=0.86,
                facecolor=colour["color"],
                hatch=_HATCHES[rank // len(COLOURS) % len(_HATCHES)],
                edgecolor="white",
                linewidth=0.0,
                label=name,
            )
        axes.set_yticks(range(len(rows)), [f"{name} {device}" for name, device in rows])
        axes.invert_yaxis()
        axes.set(xlabel=f"time ({unit})", title=title or run.policy)
        axes.grid(visible=False)
        figure.legend(loc="outside lower center", ncols=2)
    return figure
