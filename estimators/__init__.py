"""Estimators: how fast a job would run on an option that was never tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.estimators.estimate import estimate_pairs as estimate_pairs
    from apportion.estimators.estimate import interference_errors as interference_errors
    from apportion.estimators.imputer import BaseImputer as BaseImputer
    from apportion.estimators.imputer import Imputer as Imputer
    from apportion.estimators.imputer import MixtureImputer as MixtureImputer
    from apportion.estimators.interference import InterferenceEstimator as InterferenceEstimator
    from apportion.estimators.soft_impute import SoftImpute as SoftImpute
    from apportion.estimators.speeds import EstimatedSpeeds as EstimatedSpeeds
    from apportion.estimators.speeds import EstimatedThroughputs as EstimatedThroughputs
    from apportion.estimators.speeds import SpeedModel as SpeedModel
    from apportion.estimators.speeds import estimate_speeds as estimate_speeds
    from apportion.estimators.speeds.columns import DISTRIBUTED_FAMILIES as DISTRIBUTED_FAMILIES
    from apportion.estimators.speeds.columns import family_of as family_of
    from apportion.estimators.speeds.columns import scaled_throughput as scaled_throughput
    from apportion.estimators.speeds.columns import speedup as speedup


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
