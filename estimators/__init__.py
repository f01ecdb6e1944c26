"""Estimators: how fast a job would run on an option that was never tried."""

from __future__ import annotations

from apportion.estimators.scaling import (
    DISTRIBUTED_FAMILIES,
    family_of,
    scaled_throughput,
    speedup,
)

__all__ = ["DISTRIBUTED_FAMILIES", "family_of", "scaled_throughput", "speedup"]
