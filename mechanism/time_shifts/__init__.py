"""Which jobs may share a link, and when each should start (CASSINI, NSDI 2024)."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.mechanism.time_shifts.affinity import AffinityGraph
from apportion.mechanism.time_shifts.candidates import (
    RankedPlacement,
    best_placement,
    rank_placements,
)
from apportion.mechanism.time_shifts.certificate import Certificate, certificate
from apportion.mechanism.time_shifts.circle import UnifiedCircle, unified_circle
from apportion.mechanism.time_shifts.compatibility import (
    Compatibility,
    compatibility,
    iteration_s,
    jensen_bound,
    law_is_exact,
    score_of,
)
from apportion.mechanism.time_shifts.link_scores import LinkScores, random_score
from apportion.mechanism.time_shifts.profile import CommunicationPhase, CommunicationProfile

__all__ = [
    "AffinityGraph",
    "Certificate",
    "CommunicationPhase",
    "CommunicationProfile",
    "Compatibility",
    "LinkScores",
    "RankedPlacement",
    "UnifiedCircle",
    "best_placement",
    "certificate",
    "compatibility",
    "iteration_s",
    "jensen_bound",
    "law_is_exact",
    "random_score",
    "rank_placements",
    "score_of",
    "unified_circle",
]

open_doors(globals())
