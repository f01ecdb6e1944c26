"""The lease-based mechanism: free GPUs are offered to waiting jobs, who accept or reject."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.mechanism.offers.candidates import InOrder, Takers
from apportion.mechanism.offers.mechanism import LeaseMechanism
from apportion.mechanism.offers.offering import Lease
from apportion.mechanism.offers.scheduler import OfferScheduler
from apportion.mechanism.offers.timers import AutoTunedTimers, ManualTimers, get_timers
from apportion.mechanism.offers.waiting import WaitingJobs
from apportion.mechanism.scheduler import Placement, tier_of

__all__ = [
    "AutoTunedTimers",
    "InOrder",
    "Lease",
    "LeaseMechanism",
    "ManualTimers",
    "OfferScheduler",
    "Placement",
    "Takers",
    "WaitingJobs",
    "get_timers",
    "tier_of",
]

open_doors(globals())
