"""The round-based mechanism: who runs in this round, on which devices."""

from __future__ import annotations

from apportion.mechanism.placement import PLACEMENTS, Placer
from apportion.mechanism.plan import Assignment, RoundPlan
from apportion.mechanism.rounds import RoundScheduler

__all__ = ["PLACEMENTS", "Assignment", "Placer", "RoundPlan", "RoundScheduler"]
