"""Answers for who runs a cluster: what if, which policy, how many GPUs, when, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.answers.advice import Advice
    from apportion.answers.advising import advise
    from apportion.answers.fewest import FewestForWait, fewest_for_wait
    from apportion.answers.futures import Forecast, forecast
    from apportion.answers.other_clusters import OtherClusters, what_if
    from apportion.answers.race import Recommendation, recommend

__all__ = [
    "Advice",
    "FewestForWait",
    "Forecast",
    "OtherClusters",
    "Recommendation",
    "advise",
    "fewest_for_wait",
    "forecast",
    "recommend",
    "what_if",
]

if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
