"""Names of `apportion.mechanism.placements.by_speed` under which they were known before."""

from __future__ import annotations

from apportion.mechanism.placements.by_speed import Pace, Placing, by_tier

__all__ = ["Pace", "Placing", "by_tier"]
