"""Speeds of single jobs where nobody measured them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.estimators.speeds.columns import SpeedColumns as SpeedColumns
    from apportion.estimators.speeds.estimated import EstimatedSpeeds as EstimatedSpeeds
    from apportion.estimators.speeds.model import EstimatedThroughputs as EstimatedThroughputs
    from apportion.estimators.speeds.model import SpeedModel as SpeedModel
    from apportion.estimators.speeds.model import estimate_speeds as estimate_speeds


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
