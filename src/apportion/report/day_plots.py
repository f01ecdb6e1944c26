"""Pictures of GPUs that serve requests and are lent to training: who has which of them when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.report.style import heading, new_figure, plotting_style

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

    from apportion.sim import Run
    from apportion.types import Floats


def spent(states: pd.DataFrame, names: Sequence[str], gpus: int, edges_s: Floats) -> Floats:
    """Return the seconds that each GPU spends in each state between edges of time.

    Parameters
    ----------
    states
        Columns gpu, state, from_s and to_s; a GPU is in one state at a time.
    names
        States; others are left out.
    gpus
        How many.
    edges_s
        Ascending.

    Returns
    -------
    ndarray
        Seconds, shape (states, GPUs, edges - 1).
    """
    found = np.zeros((len(names), gpus, edges_s.size - 1))
    place = {name: number for number, name in enumerate(names)}
    known = states[states["state"].isin(list(names))].sort_values("from_s")
    for _, ordered in known.groupby(["gpu", "state"]):
        gpu, name = int(ordered["gpu"].iloc[0]), str(ordered["state"].iloc[0])
        begin, end = ordered["from_s"].to_numpy(), ordered["to_s"].to_numpy()
        until = np.cumsum(end - begin)
        # Time in the state up to a time is linear between where stretches begin and end.
        when = np.column_stack([begin, end]).ravel()
        total = np.column_stack([until - (end - begin), until]).ravel()
        found[place[name], gpu] = np.diff(np.interp(edges_s, when, total))
    return np.maximum(found, 0.0)


def loans_begun(states: pd.DataFrame) -> Floats:
    """Return when GPUs are lent: the beginnings of loans that do not go on from another, s."""
    loaned = states[states["state"] == "loaned"].sort_values(["gpu", "from_s"])
    begin, end = loaned["from_s"].to_numpy(), loaned["to_s"].to_numpy()
    gpu = loaned["gpu"].to_numpy()
    goes_on = np.zeros(begin.size, dtype=bool)
    goes_on[1:] = (gpu[1:] == gpu[:-1]) & (begin[1:] <= end[:-1])
    return np.asarray(begin[~goes_on], dtype=np.float64)


STATE_COLOURS: Mapping[str, str] = {
    "running": "#0B4F8A",
    "protected": "#7FB8E6",
    "warm": "#CFE3F3",
    "free": "#FFFFFF",
    "loaned": "#E69F00",
    "training": "#009E73",
}
"""Blue: a service is loaded, the darker the busier. Orange and green: training."""

_MOST_RUNS = 3
_PIXELS, _BINS = 1200, 96
"""Stretches of time of the map of GPUs, and of the curves below it."""
_ROW, _LEAST_HEIGHT, _MOST_HEIGHT = 0.085, 1.2, 8.0
"""Inches of a GPU, and of all of them at least and at most."""
_MOST_MARKS = 400
"""Of more reclaims the map shows none: they would cover what is under them."""


def serve_requests(runs: Mapping[str, Run]) -> bool:
    """Tell whether the runs say what GPUs that serve requests do."""
    needed = ("requests", "gpu_states")
    return bool(runs) and all(len(run.tables.get(n, ())) for run in runs.values() for n in needed)


def day_figure(tables: Mapping[str, Mapping[str, pd.DataFrame]]) -> Figure:
    """Draw GPUs that serve requests over time, one column per run.

    Above, a row for each GPU, coloured by what it does; where it does several things within a
    pixel, their colours are mixed by time. Below, the load of the requests in Erlangs (their time
    on GPUs, by when they come; not of those that replicas serve in batches) beside the GPUs that
    run, are loaned or train; then loans and reclaims.

    Parameters
    ----------
    tables
        By the title of the column: ``requests``, ``gpu_states`` and perhaps ``reclaims``, of runs
        that serve requests, or ``{"": {"requests": run.requests, "gpu_states": run.gpu_states}}``
        of an `apportion.ServingRun`.
    """
    shown = dict(list(tables.items())[:_MOST_RUNS])
    with plotting_style():
        return _drawn(shown)


def day(runs: Mapping[str, Run]) -> Figure:
    """Draw GPUs that serve requests over time, of the first runs."""
    shown = {name: run.tables for name, run in list(runs.items())[:_MOST_RUNS]}
    figure = _drawn(shown)
    heading(figure, "", len(shown), len(runs))
    return figure


def _drawn(tables: Mapping[str, Mapping[str, pd.DataFrame]]) -> Figure:
    gpus = max(int(each["gpu_states"]["gpu"].max()) + 1 for each in tables.values())
    end_s = max(float(each["gpu_states"]["to_s"].max()) for each in tables.values())
    lent = any(_lends(each["gpu_states"]) for each in tables.values())
    map_height = min(max(_ROW * gpus, _LEAST_HEIGHT), _MOST_HEIGHT)
    heights = [map_height, 1.5, 1.0] if lent else [map_height, 1.5]
    figure = new_figure(max(9.0, 5.4 * len(tables)), 1.2 + sum(heights))
    panels = figure.subplots(
        *(len(heights), len(tables)), sharex=True, sharey="row", squeeze=False,
        height_ratios=heights,
    )  # fmt: skip
    # Nobody reads minutes in hours.
    unit, unit_s = ("hours", 3600.0) if end_s > 7200 else ("minutes", 60.0)
    for column, (name, each) in enumerate(tables.items()):
        _draw_gpus(panels[0, column], each, gpus, end_s / unit_s, unit_s)
        panels[0, column].set_title(name or "Who has which GPU")
        _draw_load(panels[1, column], each, end_s, unit_s)
        if lent:
            _draw_loans(panels[2, column], each, end_s, unit_s)
        panels[0, column].xaxis.get_major_locator().set_params(steps=[1, 2, 3, 6, 10])
        panels[-1, column].set(xlabel=f"time ({unit})", xlim=(0, end_s / unit_s))
    panels[0, 0].set_ylabel("GPU")
    panels[1, 0].set_ylabel("GPUs")
    if lent:
        panels[2, 0].set_ylabel(f"lent, called back\nper {_bin_words(end_s)}")
    _explain(figure, tables)
    return figure


def _lends(states: pd.DataFrame) -> bool:
    return bool(states["state"].eq("loaned").any())


def _draw_gpus(
    axes: Any, tables: Mapping[str, pd.DataFrame], gpus: int, end: float, unit_s: float
) -> None:
    """Draw a row of pixels for each GPU, and its reclaims if they are not too many."""
    from matplotlib.colors import to_rgb

    edges_s = np.linspace(0.0, end * unit_s, _PIXELS + 1)
    names = list(STATE_COLOURS)
    shares = spent(tables["gpu_states"], names, gpus, edges_s) / np.diff(edges_s)
    colours = np.array([to_rgb(STATE_COLOURS[name]) for name in names])
    untold = np.maximum(1.0 - shares.sum(axis=0), 0.0)[..., None]
    image = np.einsum("sgt,sc->gtc", shares, colours) + untold
    axes.imshow(
        np.clip(image, 0.0, 1.0),
        aspect="auto",
        interpolation="nearest",
        extent=(0.0, end, gpus - 0.5, -0.5),
    )
    reclaims = tables.get("reclaims")
    if reclaims is not None and 0 < len(reclaims) <= _MOST_MARKS:
        when = reclaims["time_s"].to_numpy() / unit_s
        axes.plot(when, reclaims["gpu"], "|", color="black", markersize=5, markeredgewidth=0.9)
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0)
    axes.yaxis.get_major_locator().set_params(integer=True, steps=[1, 2, 4, 8, 10])


def _draw_load(axes: Any, tables: Mapping[str, pd.DataFrame], end_s: float, unit_s: float) -> None:
    """Draw the load of requests, and how many GPUs run, are kept, are loaned or train."""
    edges_s = np.linspace(0.0, end_s, _BINS + 1)
    middle = (edges_s[:-1] + edges_s[1:]) / 2 / unit_s
    requests, states = tables["requests"], tables["gpu_states"]
    names = [name for name in STATE_COLOURS if states["state"].eq(name).any()]
    gpus = int(states["gpu"].max()) + 1
    counts = spent(states, names, gpus, edges_s).sum(axis=1) / np.diff(edges_s)
    below = np.zeros(middle.size)
    for name in ("running", "protected", "warm"):
        if name in names:
            above = below + counts[names.index(name)]
            colour = STATE_COLOURS[name]
            axes.fill_between(middle, below, above, color=colour, linewidth=0, step="mid")
            below = above
    for name in ("loaned", "training"):
        if name in names:
            count = counts[names.index(name)]
            axes.step(middle, count, where="mid", color=STATE_COLOURS[name], linewidth=1.8)
    if not _in_batches(tables):
        held_s = (requests["finish_s"] - requests["start_s"]).to_numpy()
        asked, _ = np.histogram(requests["arrival_s"], edges_s, weights=held_s)
        axes.step(middle, asked / np.diff(edges_s), where="mid", color="black", linewidth=1.0)
    axes.set_ylim(bottom=0)


def _in_batches(tables: Mapping[str, pd.DataFrame]) -> bool:
    """Whether requests share the GPUs of a replica, so that their times do not add up to GPUs."""
    return "replica" in tables["requests"]


def _draw_loans(axes: Any, tables: Mapping[str, pd.DataFrame], end_s: float, unit_s: float) -> None:
    """Draw how many GPUs are lent and called back, upwards and downwards."""
    edges_s = np.linspace(0.0, end_s, _BINS + 1)
    middle, width = (edges_s[:-1] + edges_s[1:]) / 2 / unit_s, edges_s[1] / unit_s
    lent, _ = np.histogram(loans_begun(tables["gpu_states"]), edges_s)
    axes.bar(middle, lent, width, color=STATE_COLOURS["loaned"])
    if "reclaims" in tables:
        back, _ = np.histogram(tables["reclaims"]["time_s"], edges_s)
        axes.bar(middle, -back, width, color="black")
    axes.axhline(0.0, color="#666666", linewidth=0.6)
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    axes.yaxis.get_major_locator().set_params(integer=True)


def _bin_words(end_s: float) -> str:
    length_s = end_s / _BINS
    return f"{length_s / 60:.3g} min" if length_s >= 60 else f"{length_s:.3g} s"


def _explain(figure: Figure, tables: Mapping[str, Mapping[str, pd.DataFrame]]) -> None:
    """Say what the colours mean; only of what is there."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    there = {state for each in tables.values() for state in each["gpu_states"]["state"]}
    words = {"training": "trains only", "loaned": "loaned to training"}
    handles: list[Any] = [
        Patch(facecolor=colour, edgecolor="#999999", linewidth=0.5, label=words.get(name, name))
        for name, colour in STATE_COLOURS.items()
        if name in there
    ]
    if not all(map(_in_batches, tables.values())):
        handles.append(Line2D([], [], color="black", linewidth=1.0, label="load (Erlangs)"))
    if any(len(each.get("reclaims", ())) for each in tables.values()):
        handles.append(Patch(facecolor="black", label="called back"))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 8))
