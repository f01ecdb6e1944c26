"""Requests served by themselves, on GPUs that do nothing else, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import check_memory, number, whole
from apportion.errors import InputError
from apportion.mechanism.inference import GpuState, InferenceGpus
from apportion.mechanism.inference.feed import RequestFeed
from apportion.sim.inference.serving import Serving
from apportion.sim.inference.tables import (
    gpu_states_table,
    gpu_use,
    request_figures,
    requests_table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from apportion.mechanism.inference import ProtectTimes

_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, repr=False, eq=False)
class ServingRun:
    """Requests that were served by themselves.

    Parameters
    ----------
    asked
        The requests as they came, see `apportion.sim.inference.REQUEST_COLUMNS`.
    requests
        What became of them, see `apportion.sim.inference.SERVED_COLUMNS`.
    gpu_states
        Who was in which state when, from 0 until the last request ended, see
        `apportion.sim.inference.GPU_STATE_COLUMNS`.
    gpus
        How many GPUs there were.
    """

    asked: pd.DataFrame
    requests: pd.DataFrame
    gpu_states: pd.DataFrame
    gpus: int

    @property
    def length_s(self) -> float:
        """When the last request ended, seconds from the start."""
        return float(self.requests["finish_s"].max())

    @property
    def gpu_hours(self) -> pd.Series:
        """GPU-hours spent in each state: free, running, protected, warm."""
        spent = gpu_use(self.gpu_states, (0.0, self.length_s))
        names = [state.name.lower() for state in GpuState if state != GpuState.LOANED]
        return spent.reindex(names, fill_value=0.0).div(_SECONDS_PER_HOUR).rename("gpu_hours")

    @property
    def slo_attainment(self) -> float:
        """Share of requests that ended within their SLO; NaN if they have none."""
        return float(self.requests["slo_met"].mean()) if "slo_met" in self.requests else np.nan

    def summary(self) -> dict[str, Any]:
        """Return the figures.

        Those of `apportion.sim.inference.tables.request_figures`; ``nominal_use``, the share of
        GPU time in which something runs or is loaded; ``computing``, the share in which requests
        run, cold starts included; and ``..._gpu_hours`` by state.
        """
        hours = self.gpu_hours
        total = self.gpus * self.length_s / _SECONDS_PER_HOUR
        return {
            "gpus": self.gpus,
            **request_figures(self.requests),
            "nominal_use": 1.0 - float(hours["free"]) / total,
            "computing": float(hours["running"]) / total,
            **{f"{state}_gpu_hours": float(value) for state, value in hours.items()},
        }

    def __repr__(self) -> str:
        figures = self.summary()
        return (
            f"<ServingRun: {len(self.requests):,} requests on {self.gpus} GPUs: SLO attainment "
            f"{figures['slo_attainment']:.2%}, P99 delay {figures['p99_delay_s']:.3g} s, "
            f"{figures['computing']:.1%} of GPU time computing>"
        )


def serve(
    requests: Any,
    gpus: int,
    *,
    cold_start_s: float | Mapping[str, float] = 6.0,
    protect: ProtectTimes | float = 1.0,
    slo_factor: float | None = None,
    gpus_per_node: int = 4,
) -> ServingRun:
    """Serve requests on GPUs that do nothing else.

    GPUs live as `apportion.mechanism.inference.InferenceGpus` has them, none is ever loaned.

    Parameters
    ----------
    requests
        Columns ``arrival_s``, ``service``, ``duration_s`` and perhaps ``slo_s``, as
        `apportion.sim.inference.generate_requests` makes them, or a csv file with them.
    gpus
        How many, >= 1.
    cold_start_s, protect
        As in `apportion.Serving`.
    slo_factor
        Each request should end within so many times its duration, >= 1; for requests that have no
        ``slo_s``.
    gpus_per_node
        GPUs of a node.

    Returns
    -------
    ServingRun
        What became of requests and GPUs, and the figures.

    Raises
    ------
    InputError
        For requests and settings that `apportion.Serving` refuses, fewer than one GPU, and a
        `slo_factor` where requests have an SLO.
    """
    settings = Serving(
        with_slo(requests, slo_factor),
        cold_start_s=cold_start_s,
        protect=protect,
    )
    return serve_alone(settings, whole("gpus", gpus, 1), whole("gpus_per_node", gpus_per_node, 1))


def with_slo(requests: Any, slo_factor: float | None) -> Any:
    """Return requests, those of a table or file with an SLO of so many times their duration."""
    if slo_factor is None:
        return requests
    factor = number("slo_factor", slo_factor, least=1.0)
    table = Serving(requests).requests
    if "slo_s" in table:
        raise InputError("The requests have a column 'slo_s' already; leave slo_factor out.")
    return table.assign(slo_s=factor * table["duration_s"])


def serve_alone(serving: Serving, gpus: int, gpus_per_node: int = 4) -> ServingRun:
    """Serve the requests of checked settings; see `serve`."""
    check_memory("GPUs", gpus, 1_000)
    life = InferenceGpus(
        [gpu // gpus_per_node for gpu in range(gpus)],
        serving.cold_starts,
        serving.protect_times,
    )
    asked = serving.requests
    columns = (asked[name].tolist() for name in ("arrival_s", "service", "duration_s"))
    RequestFeed(life, *columns).rest()
    requests = requests_table(asked, life.served)
    end_s = float(requests["finish_s"].max())
    life.advance(end_s)
    states = gpu_states_table(life.changes, range(gpus), (0.0, end_s))
    return ServingRun(asked, requests, states, gpus)
