"""What became of requests that were served by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.inference import GpuState

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["DELAY_PERCENTILES", "ServingRun", "request_figures"]

DELAY_PERCENTILES = (50, 95, 99)
"""Percentiles of delays that are shown."""

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
        states = self.gpu_states
        spent = (states["to_s"] - states["from_s"]).groupby(states["state"]).sum()
        names = [state.name.lower() for state in GpuState if state != GpuState.LOANED]
        return spent.reindex(names, fill_value=0.0).div(_SECONDS_PER_HOUR).rename("gpu_hours")

    @property
    def slo_attainment(self) -> float:
        """Share of requests that ended within their SLO; NaN if they have none."""
        return float(self.requests["slo_met"].mean()) if "slo_met" in self.requests else np.nan

    def summary(self) -> dict[str, Any]:
        """Return the figures.

        Those of `request_figures`; ``nominal_use``, the share of GPU time in which something runs
        or is loaded; ``real_use``, the share in which requests are computed: no cold starts, no
        protection (each service of a GPU counted by itself); and ``..._gpu_hours`` by state.
        """
        hours = self.gpu_hours
        total_s = self.gpus * self.length_s
        return {
            "gpus": self.gpus,
            **request_figures(self.requests),
            "nominal_use": 1.0 - float(hours["free"]) * _SECONDS_PER_HOUR / total_s,
            "real_use": float(self.asked["duration_s"].sum()) / total_s,
            **{f"{state}_gpu_hours": float(value) for state, value in hours.items()},
        }

    def __repr__(self) -> str:
        figures = self.summary()
        return (
            f"<ServingRun: {len(self.requests):,} requests on {self.gpus} GPUs: SLO attainment "
            f"{figures['slo_attainment']:.2%}, P99 delay {figures['p99_delay_s']:.3g} s, "
            f"{figures['real_use']:.1%} of GPU time really used>"
        )


def request_figures(requests: pd.DataFrame) -> dict[str, Any]:
    """Return what requests saw, from a table of `SERVED_COLUMNS`.

    ``slo_attainment`` is the share that ended within the SLO, NaN without one; delays are seconds
    without a GPU; ``mean_response_s`` is from arrival to end; ``cold_starts`` the share of requests
    for which a service was loaded.
    """
    delay_s: NDArray[np.float64] = requests["delay_s"].to_numpy(dtype=np.float64)
    met = requests["slo_met"].mean() if "slo_met" in requests else np.nan
    percentiles = np.percentile(delay_s, DELAY_PERCENTILES)
    named = zip(DELAY_PERCENTILES, percentiles, strict=True)
    return {
        "requests": len(requests),
        "slo_attainment": float(met),
        "mean_delay_s": float(delay_s.mean()),
        **{f"p{percent}_delay_s": float(value) for percent, value in named},
        "mean_response_s": float((requests["finish_s"] - requests["arrival_s"]).mean()),
        "cold_starts": float(requests["cold"].mean()),
    }
