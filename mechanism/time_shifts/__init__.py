"""Which jobs may share a link, and when each should start (CASSINI, NSDI 2024)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.mechanism.time_shifts.affinity import AffinityGraph as AffinityGraph
    from apportion.mechanism.time_shifts.affinity import RankedPlacement as RankedPlacement
    from apportion.mechanism.time_shifts.affinity import best_placement as best_placement
    from apportion.mechanism.time_shifts.affinity import rank_placements as rank_placements
    from apportion.mechanism.time_shifts.circle import UnifiedCircle as UnifiedCircle
    from apportion.mechanism.time_shifts.circle import unified_circle as unified_circle
    from apportion.mechanism.time_shifts.link_compatibility import Compatibility as Compatibility
    from apportion.mechanism.time_shifts.link_compatibility import compatibility as compatibility
    from apportion.mechanism.time_shifts.link_compatibility import iteration_s as iteration_s
    from apportion.mechanism.time_shifts.link_compatibility import jensen_bound as jensen_bound
    from apportion.mechanism.time_shifts.link_compatibility import law_is_exact as law_is_exact
    from apportion.mechanism.time_shifts.link_compatibility import random_score as random_score
    from apportion.mechanism.time_shifts.link_compatibility import score_of as score_of
    from apportion.mechanism.time_shifts.link_scores import LinkScores as LinkScores
    from apportion.mechanism.time_shifts.profile import CommunicationPhase as CommunicationPhase
    from apportion.mechanism.time_shifts.profile import CommunicationProfile as CommunicationProfile


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
