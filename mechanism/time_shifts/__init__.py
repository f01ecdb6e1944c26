"""Which jobs may share a link, and when each should start (CASSINI, NSDI 2024)."""

from __future__ import annotations

from apportion.mechanism.time_shifts.circle import UnifiedCircle, unified_circle
from apportion.mechanism.time_shifts.compatibility import (
    Compatibility,
    compatibility,
    jensen_bound,
    score_of,
)
from apportion.mechanism.time_shifts.profile import CommunicationPhase, CommunicationProfile

__all__ = [
    "CommunicationPhase",
    "CommunicationProfile",
    "Compatibility",
    "UnifiedCircle",
    "compatibility",
    "jensen_bound",
    "score_of",
    "unified_circle",
]
