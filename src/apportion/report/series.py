"""Numbers behind the plots: distributions and time series, thinned to what a plot can show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.cluster import TIERS
from apportion.report.tables import time_unit

if TYPE_CHECKING:
    from apportion.sim import Run
    from apportion.types import Floats


POINTS = 300
"""Points of a line at most: more cannot be told apart and make the report heavy."""


def natural(name: object) -> list[tuple[int, str]]:
    """Return a key that sorts names as people do: job-2 before job-10.

    Digits count as numbers; of names that are equal then, fewer leading zeros come first.
    """
    parts = re.split(r"([0-9]+)", str(name))
    return [(int(part) if at % 2 else -1, part) for at, part in enumerate(parts)]


def distribution(values: Floats) -> tuple[Floats, Floats]:
    """Return the empirical distribution as (values, share of jobs at most that value).

    The smallest and the largest value are kept; NaN are left out.
    """
    known = np.sort(values[np.isfinite(values)])
    if not known.size:
        return np.empty(0), np.empty(0)
    ranks = np.unique(np.linspace(0, known.size - 1, min(known.size, POINTS)).round().astype(int))
    return known[ranks], (ranks + 1) / known.size


def time_bins(runs: list[Run], bins: int = 150) -> Floats:
    """Return common bin edges, seconds, shape (bins + 1,), over the longest of the runs."""
    ends = [run.rounds["end_s"].max() for run in runs if len(run.rounds)]
    starts = [run.rounds["start_s"].min() for run in runs if len(run.rounds)]
    return np.linspace(min(starts, default=0.0), max(ends, default=1.0), bins + 1)


def middles(edges: Floats) -> tuple[Floats, str]:
    """Return the middle of each bin, in hours, or seconds of short runs, and that in words."""
    unit, seconds = time_unit(float(edges[-1]))
    return (edges[:-1] + edges[1:]) / (2 * seconds), f"time ({unit})"


def utilization(run: Run, edges: Floats) -> Floats:
    """Return the share of the cluster's GPUs in use in every bin, shape (bins,).

    Bins after the end of the run are NaN.
    """
    busy = run.rounds[[f"{name}_busy" for name in run.cluster.accelerators]].sum(axis=1)
    amount = _binned(run, busy.to_numpy(float), edges)
    return amount / (np.diff(edges) * run.cluster.total_gpus)


def running_and_waiting(run: Run, edges: Floats) -> tuple[Floats, Floats]:
    """Return the mean numbers of running and of waiting jobs in every bin, each (bins,)."""
    length = (run.rounds["end_s"] - run.rounds["start_s"]).to_numpy(float)
    running = run.rounds["running_jobs"].to_numpy(float)
    waiting = run.rounds["active_jobs"].to_numpy(float) - running
    width = np.diff(edges)
    return _binned(run, running * length, edges) / width, _binned(
        run, waiting * length, edges
    ) / width


def received_share(run: Run, job_types: list[str]) -> Floats:
    """Return what share of its GPU time a job type got on each of `options_of` the run.

    Shape (job types, options), rows sum to 1; NaN for a type that never ran. Jobs whose type is not
    listed count for the last row.
    """
    gpus = run.jobs["scale_factor"].to_numpy(float)[:, None]
    seconds = run.jobs[[f"{name}_s" for name in options_of(run)]] * gpus
    known = run.jobs["job_type"].where(run.jobs["job_type"].isin(job_types), job_types[-1])
    total = seconds.groupby(known).sum().reindex(job_types).to_numpy(float)
    whole = total.sum(axis=1, keepdims=True)
    share: Floats = np.divide(total, whole, out=np.full_like(total, np.nan), where=whole > 0)
    return share


def options_of(run: Run) -> tuple[str, ...]:
    """Return what a run tells apart: the tiers of the network if it knows them, else the types."""
    return TIERS if "communication_s" in run.jobs.columns else run.cluster.accelerators


def tier_occupancy(run: Run, edges: Floats) -> Floats:
    """Return the share of the cluster's GPUs held by gangs of each tier, shape (tiers, bins).

    Bins after the end of the run are NaN.
    """
    amounts = [run.rounds[f"{tier}_gpus"].to_numpy(float) for tier in TIERS]
    binned = np.array([_binned(run, amount, edges) for amount in amounts])
    return binned / (np.diff(edges) * run.cluster.total_gpus)


def busiest_job_types(runs: list[Run], most: int = 30) -> list[str]:
    """Return the job types by name, at most `most`; the rest is gathered under the last."""
    gpu_seconds = pd.concat([run.jobs.groupby("job_type")["gpu_seconds"].sum() for run in runs])
    total = gpu_seconds.groupby(level=0).sum().sort_values(ascending=False, kind="stable")
    names = [str(name) for name in total.index]
    if len(names) <= most:
        return sorted(names, key=natural)
    return [*sorted(names[: most - 1], key=natural), f"{len(names) - most + 1} other job types"]


def _binned(run: Run, amount: Floats, edges: Floats) -> Floats:
    """Spread the amount of each round evenly over its time and sum it by bin.

    Interpolating the running total at the edges does both at once, gaps between rounds included.
    """
    if not len(run.rounds):
        return np.full(edges.size - 1, np.nan)
    start = run.rounds["start_s"].to_numpy(float)
    end = run.rounds["end_s"].to_numpy(float)
    total = np.cumsum(amount)
    times = np.column_stack([start, end]).ravel()
    totals = np.column_stack([total - amount, total]).ravel()
    binned: Floats = np.diff(np.interp(edges, times, totals))
    binned[edges[:-1] >= end[-1]] = np.nan
    return binned
