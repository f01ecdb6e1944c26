"""Answers for who runs a cluster: what if, which policy, how many GPUs, when, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.answers.advice import Advice as Advice
    from apportion.answers.advising import advise as advise
    from apportion.answers.futures import Forecast as Forecast
    from apportion.answers.futures import forecast as forecast
    from apportion.answers.other_clusters import OtherClusters as OtherClusters
    from apportion.answers.other_clusters import what_if as what_if
    from apportion.answers.recommendation import Recommendation as Recommendation
    from apportion.answers.recommendation import recommend as recommend


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
