"""The round-based mechanism: who runs in this round, on which devices."""

from __future__ import annotations

from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import PLACEMENTS

__all__ = ["PLACEMENTS", "Placer"]
