"""GPUs that serve inference requests and are lent to training in between."""

from __future__ import annotations

from apportion.mechanism.inference.feed import RequestFeed
from apportion.mechanism.inference.life_cycle import InferenceGpus
from apportion.mechanism.inference.lives import StateChange
from apportion.mechanism.inference.settings import (
    DEEPBOOT_COLD_STARTS,
    PIPESWITCH_COLD_START_S,
    ProtectTimes,
    cold_starts,
)
from apportion.mechanism.inference.slots import GpuState, ServedRequest

__all__ = [
    "DEEPBOOT_COLD_STARTS",
    "PIPESWITCH_COLD_START_S",
    "GpuState",
    "InferenceGpus",
    "ProtectTimes",
    "RequestFeed",
    "ServedRequest",
    "StateChange",
    "cold_starts",
]
