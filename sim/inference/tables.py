"""What became of requests and of GPUs that serve them, as tables and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.errors import InputError
from apportion.mechanism.inference.slots import GpuState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.mechanism.inference import ServedRequest, StateChange

SERVED_COLUMNS = {
    "service": "the service that it asked",
    "arrival_s": "when it came, seconds",
    "start_s": "when it got a GPU, seconds; a cold start comes after it",
    "finish_s": "when it ended, seconds",
    "delay_s": "seconds without a GPU: start_s - arrival_s",
    "gpu": "number of the GPU, types and machines in their order",
    "cold": "whether its service had to be loaded first",
    "slo_met": "whether it ended within its SLO; only if requests have one",
}
"""Columns of the table ``requests``, indexed by request, in order of arrival."""

GPU_STATE_COLUMNS = {
    "gpu": "number of the GPU, types and machines in their order",
    "state": "free, running, protected, warm, loaned; or training, of GPUs that never serve",
    "service": "what is loaded, where it is running, protected or warm; else empty",
    "job": "who has it, where it is loaned or training; else None",
    "from_s": "since when, seconds",
    "to_s": "until when, seconds",
}
"""Columns of the table ``gpu_states``: a row for each stretch of a GPU in one state."""


def requests_table(
    requests: pd.DataFrame, served: Iterable[ServedRequest], gpus: Sequence[int] | None = None
) -> pd.DataFrame:
    """Return what became of requests; see `SERVED_COLUMNS`.

    Parameters
    ----------
    requests
        In order of arrival, as `checked_requests` returns them.
    served
        All of them as they were served, each named by its place in that order.
    gpus
        Number in the cluster of each GPU that serves; by default those are all there are.
    """
    for column in ("service", "arrival_s"):
        if column not in requests:
            raise InputError(f"The requests have no column {column!r}; see checked_requests.")
    found = pd.DataFrame(
        [(each.request, each.start_s, each.end_s, each.gpu, each.cold_start_s) for each in served],
        columns=["place", "start_s", "finish_s", "gpu", "cold_start_s"],
    )
    found = found.sort_values("place", kind="stable")
    own = requests.iloc[found["place"].to_numpy(dtype=np.intp)]
    arrival_s = own["arrival_s"].to_numpy()
    number = found["gpu"].to_numpy(dtype=np.int64)
    start_s, finish_s = found["start_s"].to_numpy(), found["finish_s"].to_numpy()
    table = pd.DataFrame(
        {
            "service": own["service"].to_numpy(),
            "arrival_s": arrival_s,
            "start_s": start_s,
            "finish_s": finish_s,
            "delay_s": start_s - arrival_s,
            "gpu": number if gpus is None else np.array(gpus, dtype=np.int64)[number],
            "cold": found["cold_start_s"].to_numpy() > 0,
        },
        index=own.index,
    )
    if "slo_s" in own:
        # A request that takes as long as it may has met its SLO, however sums are rounded.
        latest_s = arrival_s + own["slo_s"].to_numpy()
        table["slo_met"] = finish_s <= latest_s + 1e-9 * np.maximum(latest_s, 1.0)
    return table


def gpu_states_table(
    changes: Sequence[StateChange],
    gpus: Sequence[int],
    span_s: tuple[float, float],
    loans: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return who was in which state from when to when; see `GPU_STATE_COLUMNS`.

    Parameters
    ----------
    changes
        Of the GPUs that serve, numbered from 0, in order; all are free at first.
    gpus
        Number of each of those in the cluster.
    span_s
        When the table begins and ends, seconds.
    loans
        Columns gpu (in the cluster), state, job, from_s, to_s: who has GPUs to train. Stretches in
        which a GPU is loaned are taken from here. None if there is no training.
    """
    first_s, last_s = span_s
    rows: list[tuple[int, str, object, object, float, float]] = []
    now = {gpu: (GpuState.FREE, "", first_s) for gpu in range(len(gpus))}
    for each in changes:
        state, service, since_s = now[each.gpu]
        if each.time_s > since_s and state != GpuState.LOANED:
            rows.append((gpus[each.gpu], state.name.lower(), service, None, since_s, each.time_s))
        name = "" if each.service is None else str(each.service)
        now[each.gpu] = each.after, name, max(each.time_s, first_s)
    for gpu, (state, service, since_s) in now.items():
        if last_s > since_s and state != GpuState.LOANED:
            rows.append((gpus[gpu], state.name.lower(), service, None, since_s, last_s))
    table = pd.DataFrame(rows, columns=list(GPU_STATE_COLUMNS))
    if loans is not None and len(loans):
        trained = loans.assign(service="")[list(GPU_STATE_COLUMNS)]
        table = pd.concat([table, trained.astype({"job": object})], ignore_index=True)
    return table.sort_values(["gpu", "from_s"], kind="stable", ignore_index=True)


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
    }
