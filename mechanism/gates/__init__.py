"""Gates: which of the transfers that could start may, on links that others use."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.mechanism.gates.built_in import (
    GATES,
    AdaDual,
    AllOf,
    AtMost,
    KWay,
    TimeShift,
)
from apportion.mechanism.gates.gate import HOLD, START, Flow, Gate, LinksView, Rollout, WhatIf

__all__ = [
    "GATES",
    "HOLD",
    "START",
    "AdaDual",
    "AllOf",
    "AtMost",
    "Flow",
    "Gate",
    "KWay",
    "LinksView",
    "Rollout",
    "TimeShift",
    "WhatIf",
]

open_doors(globals())
