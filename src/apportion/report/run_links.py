"""Pictures of the links that jobs of runs share, at the moment at which most do."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

from apportion.mechanism.time_shifts import CommunicationProfile, RankedPlacement, rank_placements
from apportion.report.link_plots import draw_affinity, draw_compatibility
from apportion.report.style import TITLE, heading, new_figure

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from matplotlib.figure import Figure

    from apportion.sim import Run

_MOST_RUNS = 3
_MOST_LINKS = 12
"""Of more links only those of which most is wanted are drawn, as far as they can be read."""
_NOBODY = "nobody ever shares a link"


def share_links(runs: Mapping[str, Run]) -> bool:
    """Tell whether all runs know of links, and jobs of some share one."""
    tables = [run.tables.get("busiest_links") for run in runs.values()]
    known = [table for table in tables if table is not None]
    return len(known) == len(tables) and any(map(len, known))


class _Shared(NamedTuple):
    """Links that jobs share at a time, seconds; how many there are beside those."""

    time_s: float
    ranked: RankedPlacement
    left_out: int


def _shared(table: pd.DataFrame | None) -> _Shared | None:
    """Return how jobs share the links of a table of a run, None if there are none."""
    if table is None or not len(table):
        return None
    profiles: dict[str, CommunicationProfile] = {}
    jobs_of: dict[str, list[str]] = {}
    wanted: dict[str, float] = {}
    gbps: dict[str, float] = {}
    columns = ("link", "gbps", "job", "job_type", "period_s", "phases")
    for link, has, job, job_type, period_s, phases in zip(
        *(table[name].tolist() for name in columns), strict=True
    ):
        name = f"{job} ({job_type})"
        profiles[name] = CommunicationProfile(name, period_s, phases)
        jobs_of.setdefault(link, []).append(name)
        gbps[link] = has
        wanted[link] = wanted.get(link, 0.0) + profiles[name].mean_gbps / has
    chosen = sorted(jobs_of, key=lambda link: -round(wanted[link], 9))[:_MOST_LINKS]
    drawn = {link: jobs for link, jobs in jobs_of.items() if link in chosen}
    there = {job for jobs in drawn.values() for job in jobs}
    with warnings.catch_warnings():  # that a job alone wants more than a link has, shows
        warnings.simplefilter("ignore", UserWarning)
        (ranked,) = rank_placements([drawn], {job: profiles[job] for job in there}, gbps)
    return _Shared(float(table["time_s"].iloc[0]), ranked, len(jobs_of) - len(drawn))


def _of_runs(runs: Mapping[str, Run]) -> dict[str, _Shared | None]:
    return {
        name: _shared(run.tables["busiest_links"]) for name, run in list(runs.items())[:_MOST_RUNS]
    }


def shared_link(runs: Mapping[str, Run]) -> Figure:
    """Draw for each run the link on which shifts gain most: circles and loads, before and after."""
    shown = _of_runs(runs)
    figure = new_figure(width=13.0, height=3.7 * len(shown))
    parts = figure.subfigures(len(shown), 1, squeeze=False)[:, 0]
    for part, (name, shared) in zip(parts, shown.items(), strict=True):
        if shared is None:
            part.suptitle(f"{name}: {_NOBODY}", **TITLE)
            continue
        links = shared.ranked.links
        link = max(
            links,
            key=lambda each: (round(links[each].score - links[each].unshifted_score, 9), each),
        )
        part.suptitle(f"{name}: {link} at {_hours(shared.time_s)}", **TITLE)
        draw_compatibility(part, links[link], columns=4)
    heading(figure, "", len(shown), len(runs))
    return figure


def affinity(runs: Mapping[str, Run]) -> Figure:
    """Draw for each run who shares which links, with the shifts that suit all of them."""
    shown = _of_runs(runs)
    most = max(
        max(len(each.ranked.graph.links_of), len(each.ranked.links)) if each else 1
        for each in shown.values()
    )
    figure = new_figure(6.4 * len(shown), max(2.6, 1.1 + 0.42 * most))
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, (name, shared) in zip(panels, shown.items(), strict=True):
        if shared is None:
            axes.set_axis_off()
            axes.set_title(f"{name}: {_NOBODY}", loc="left")
            continue
        draw_affinity(axes, shared.ranked.graph, shared.ranked.shifts_s)
        loops = "loops, so no shifts" if shared.ranked.has_loops else "no loop"
        more = f"; {shared.left_out} more links" if shared.left_out else ""
        axes.set_title(f"{name} at {_hours(shared.time_s)}: {loops}{more}", loc="left")
    heading(figure, "", len(shown), len(runs))
    return figure


def _hours(time_s: float) -> str:
    return f"{time_s / 3600:.1f} h" if time_s >= 3600 else f"{time_s:.0f} s"
