"""The lease-based mechanism: free GPUs are offered to waiting jobs, who accept or reject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.mechanism.offers.candidates import InOrder as InOrder
    from apportion.mechanism.offers.candidates import Takers as Takers
    from apportion.mechanism.offers.mechanism import LeaseMechanism as LeaseMechanism
    from apportion.mechanism.offers.offering import Lease as Lease
    from apportion.mechanism.offers.scheduler import OfferScheduler as OfferScheduler
    from apportion.mechanism.offers.timers import AutoTunedTimers as AutoTunedTimers
    from apportion.mechanism.offers.timers import ManualTimers as ManualTimers
    from apportion.mechanism.offers.timers import get_timers as get_timers
    from apportion.mechanism.offers.waiting import WaitingJobs as WaitingJobs
    from apportion.mechanism.scheduler import Placement as Placement
    from apportion.mechanism.scheduler import tier_of as tier_of


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
