"""What became of requests that were served by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.inference import GpuState
from apportion.sim.inference.figures import gpu_use, request_figures

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ServingRun"]

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

        Those of `apportion.sim.inference.figures.request_figures`; ``nominal_use``, the share of
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
