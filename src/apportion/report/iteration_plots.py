"""How long iterations take on links that are shared: their distribution, and over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.report.series import POINTS
from apportion.report.style import TITLE, line_styles, new_figure, plain_numbers, with_legend
from apportion.report.tables import time_unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from apportion.sim import Run
    from apportion.types import Floats

_BINS = 150
_WIDE = 10.0
"""From which slowdown on the axis is logarithmic."""


def of_iterations(runs: Mapping[str, Run]) -> dict[str, pd.DataFrame]:
    """Return the tables of iterations of the runs that have any."""
    tables = {name: run.tables.get("iterations") for name, run in runs.items()}
    return {name: each for name, each in tables.items() if each is not None and len(each)}


def iterations(runs: Mapping[str, Run]) -> Figure:
    """Draw iterations over the shortest of the same job: of all, and the mean of jobs over time."""
    tables = of_iterations(runs)
    shortest = pd.concat(tables.values()).groupby("job")["iteration_s"].min()
    end_s = max(each["to_s"].max() for each in tables.values())
    unit, seconds = time_unit(float(end_s))
    figure = new_figure(10.0, 4.0)
    of_all, over_time = figure.subplots(1, 2)
    styles = line_styles(list(runs))
    for name, each in tables.items():
        slower = (each["iteration_s"] / each["job"].map(shortest)).to_numpy(dtype=float)
        counts = each["iterations"].to_numpy(dtype=float)
        of_all.step(*_weighted(slower, counts), where="post", label=name, **styles[name])
        times_s = (np.arange(_BINS) + 0.5) * end_s / _BINS
        means = _mean_at(times_s, each, slower)
        over_time.plot(times_s / seconds, means, label=name, **styles[name])
    of_all.set(ylabel="share of iterations (%)", ylim=(0, 1.02))
    of_all.set_xlabel("iteration over the shortest of its job")
    of_all.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}")
    if of_all.get_xlim()[1] > _WIDE:
        of_all.set(xscale="log")
        plain_numbers(of_all.xaxis)
    over_time.set(xlabel=f"time ({unit})", ylabel="the same, mean of the jobs that run")
    figure.suptitle("Iterations on shared links", **TITLE)
    return with_legend(figure, of_all)


def _weighted(values: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Return the distribution of values that are there so many times, at most `POINTS` of it."""
    order = np.argsort(values)
    share = np.cumsum(counts[order]) / counts.sum()
    kept = np.unique(np.searchsorted(share, np.linspace(0, 1, POINTS)).clip(max=len(values) - 1))
    return values[order][kept], share[kept]


def _mean_at(times_s: Floats, each: pd.DataFrame, values: Floats) -> Floats:
    """Return the mean of the values of rows that are under way at each time, NaN where none is."""
    sums, numbers = np.zeros((2, len(times_s)))
    for column, sign in (("from_s", 1.0), ("to_s", -1.0)):
        at_s = each[column].to_numpy(dtype=float)
        order = np.argsort(at_s)
        before = np.searchsorted(at_s[order], times_s, side="right")
        sums += sign * np.concatenate([[0.0], np.cumsum(values[order])])[before]
        numbers += sign * before
    numbers[numbers == 0] = np.nan
    return sums / numbers
