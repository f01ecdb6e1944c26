"""Speeds of single jobs where nobody measured them."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.estimators.speeds.columns import SpeedColumns
from apportion.estimators.speeds.completed import EstimatedThroughputs, estimate_speeds
from apportion.estimators.speeds.estimated import EstimatedSpeeds
from apportion.estimators.speeds.model import ColumnMeans, ImputedSpeeds, SpeedModel

__all__ = [
    "ColumnMeans",
    "EstimatedSpeeds",
    "EstimatedThroughputs",
    "ImputedSpeeds",
    "SpeedColumns",
    "SpeedModel",
    "estimate_speeds",
]

open_doors(globals())
