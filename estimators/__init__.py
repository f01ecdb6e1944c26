"""Estimators: how fast a job would run on an option that was never tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.estimators.completion import AlternatingLeastSquares, SoftImpute
    from apportion.estimators.estimate import estimate_pairs, interference_errors
    from apportion.estimators.gaussian import GaussianImputer
    from apportion.estimators.imputer import BaseImputer, Imputer
    from apportion.estimators.interference import InterferenceEstimator
    from apportion.estimators.learnt_pairs import EstimatedPairs
    from apportion.estimators.mixture import MixtureImputer
    from apportion.estimators.scaling import (
        DISTRIBUTED_FAMILIES,
        family_of,
        scaled_throughput,
        speedup,
    )
    from apportion.estimators.speeds import (
        ColumnMeans,
        EstimatedSpeeds,
        EstimatedThroughputs,
        ImputedSpeeds,
        SpeedModel,
        estimate_speeds,
    )

__all__ = [
    "DISTRIBUTED_FAMILIES",
    "AlternatingLeastSquares",
    "BaseImputer",
    "ColumnMeans",
    "EstimatedPairs",
    "EstimatedSpeeds",
    "EstimatedThroughputs",
    "GaussianImputer",
    "ImputedSpeeds",
    "Imputer",
    "InterferenceEstimator",
    "MixtureImputer",
    "SoftImpute",
    "SpeedModel",
    "estimate_pairs",
    "estimate_speeds",
    "family_of",
    "interference_errors",
    "scaled_throughput",
    "speedup",
]

if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
