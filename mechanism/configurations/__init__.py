"""Elastic gangs: every interval each job is given a type and a number of GPUs anew.

`options` says which numbers there are, `packing` on which GPUs gangs come, `restarts` what a change
costs, and `scheduler` puts them together.
"""

from __future__ import annotations

from apportion.mechanism.configurations.options import GANG_SIZES, GangOptions
from apportion.mechanism.configurations.packing import pack
from apportion.mechanism.configurations.restarts import RESTARTS, lost_seconds
from apportion.mechanism.configurations.scheduler import (
    Asked,
    InConfigurations,
    JobRestarts,
    OptionChoice,
)

__all__ = [
    "GANG_SIZES",
    "RESTARTS",
    "Asked",
    "GangOptions",
    "InConfigurations",
    "JobRestarts",
    "OptionChoice",
    "lost_seconds",
    "pack",
]
