"""The lease-based mechanism: free GPUs are offered to waiting jobs, who accept or reject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.mechanism.leases.jobs import WaitingJobs as WaitingJobs
    from apportion.mechanism.leases.queue import CandidateOrder as CandidateOrder
    from apportion.mechanism.leases.queue import JobQueue as JobQueue
    from apportion.mechanism.leases.scheduler import LeaseScheduler as LeaseScheduler
    from apportion.mechanism.leases.terms import OfferScheduler as OfferScheduler
    from apportion.mechanism.leases.timers import AutoTunedTimers as AutoTunedTimers
    from apportion.mechanism.leases.timers import ManualTimers as ManualTimers
    from apportion.mechanism.leases.timers import get_timers as get_timers
    from apportion.mechanism.scheduler import Placement as Placement
    from apportion.mechanism.scheduler import tier_of as tier_of


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
