"""Heat maps of what each policy gave: job type against accelerator type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.report.series import busiest_job_types, options_of, received_share
from apportion.report.style import HEAT_MAP, new_figure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from apportion.sim import Run

__all__ = ["received_time"]

_PANELS_PER_ROW = 6


def received_time(runs: Mapping[str, Run]) -> Figure:
    """Draw one panel per policy: the share of a job type's GPU time on each accelerator or tier."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    job_types = busiest_job_types(list(runs.values()))
    # In steps of 5 %, so that the scale is drawn as areas and not as an embedded image.
    colours = colormaps[HEAT_MAP].resampled(20)
    norm = Normalize(0, 100)
    rows = -(-len(runs) // _PANELS_PER_ROW)
    columns = min(len(runs), _PANELS_PER_ROW)
    figure = new_figure(
        width=3.2 + 1.65 * columns, height=rows * max(2.8, 1.3 + 0.17 * len(job_types))
    )
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for axes, (policy, run) in zip(panels, runs.items(), strict=False):
        names = options_of(run)
        shares = 100 * received_share(run, job_types)
        axes.pcolormesh(shares, cmap=colours, norm=norm, edgecolors="white")
        axes.set_title(policy.replace("_", "_\u200b"), fontsize=8, loc="center", wrap=True)
        axes.set_xticks(np.arange(len(names)) + 0.5, names, rotation=45, ha="right")
        axes.set_yticks(np.arange(len(job_types)) + 0.5, job_types)
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
    for axes in panels[len(runs) :]:
        axes.set_visible(False)
    panels[0].invert_yaxis()
    figure.suptitle("Where each job type ran", x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    bar = figure.colorbar(
        ScalarMappable(norm, colours), ax=list(panels), shrink=0.6, aspect=30, pad=0.01
    )
    bar.set_label("share of the job type's GPU time (%)")
    bar.outline.set_visible(False)
    return figure
