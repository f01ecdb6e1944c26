"""Figures of a run in which GPUs serve requests and train."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

__all__ = ["gpu_use", "request_figures", "serving_figures"]

_KEPT = ("protected", "warm")


def request_figures(requests: pd.DataFrame) -> dict[str, float]:
    """Return what requests have met, of the table of them; times in seconds.

    ``slo_attainment`` is the share of them that ended within their SLO, NaN if they have none;
    ``delay`` the time without a GPU, ``request`` that from arrival to end.
    """
    delay_s = requests["delay_s"].to_numpy()
    ends_s = (requests["finish_s"] - requests["arrival_s"]).to_numpy()
    met = requests["slo_met"].mean() if "slo_met" in requests else np.nan
    return {
        "requests": len(requests),
        "slo_attainment": float(met),
        **{f"p{q}_delay_s": float(np.percentile(delay_s, q)) for q in (50, 95, 99)},
        "mean_request_s": float(ends_s.mean()),
        "p99_request_s": float(np.percentile(ends_s, 99)),
        "cold_starts": int(requests["cold"].sum()),
    }


def gpu_use(states: pd.DataFrame, span_s: tuple[float, float]) -> pd.Series:
    """Return the GPU-seconds in each state between two times, of the table of states."""
    first_s, last_s = span_s
    inside_s = states["to_s"].clip(upper=last_s) - states["from_s"].clip(lower=first_s)
    return inside_s.clip(lower=0.0).groupby(states["state"]).sum()


def serving_figures(
    jobs: pd.DataFrame, tables: Mapping[str, pd.DataFrame], gpus: int
) -> dict[str, float]:
    """Return the figures of requests, and of GPUs between first arrival and last end of a job.

    ``nominal_use`` is the share of GPU time in which GPUs were given away: to jobs, to running
    requests, and to what is kept loaded. ``real_use`` leaves out jobs that pause and GPUs that jobs
    are leaving; ``computing`` also what is only kept loaded. ``lost_gpu_seconds`` are those of
    pauses and of leaving.

    Parameters
    ----------
    jobs
        Jobs table of the run.
    tables
        ``requests``, ``gpu_states`` and ``reclaims``.
    gpus
        Of the cluster.
    """
    span_s = (float(jobs["arrival_s"].min()), float(jobs["completion_s"].max()))
    used = gpu_use(tables["gpu_states"], span_s)
    total = gpus * (span_s[1] - span_s[0])
    given = float(used.drop("free", errors="ignore").sum())
    kept = float(used.reindex(_KEPT).sum())
    yielding = float(tables["reclaims"]["yield_s"].sum())
    lost = float(jobs["paused_gpu_seconds"].sum()) + yielding
    return {
        **request_figures(tables["requests"]),
        "nominal_use": given / total,
        "real_use": (given - lost) / total,
        "computing": (given - lost - kept) / total,
        "loaned_gpu_hours": float(used.get("loaned", 0.0)) / 3600,
        "reclaims": len(tables["reclaims"]),
        "lost_gpu_seconds": lost,
        "undone_s": float(tables["reclaims"]["undone_s"].sum()),
    }
