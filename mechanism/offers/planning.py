"""A plan of leases: all who get GPUs in one instant, decided together and not one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from apportion.mechanism.offers.candidates import Takers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.offers.holdings import Holdings
    from apportion.mechanism.offers.waiting import WaitingJobs
    from apportion.mechanism.places import Placement

__all__ = ["Planned", "Plans"]


class Planned(NamedTuple):
    """A lease of a plan.

    Attributes
    ----------
    job
        Its number.
    kind
        Position of the accelerator type of its GPUs.
    placement
        Where they are.
    tier
        The tier that it has accepted: its wait is noted as one for this tier.
    """

    job: int
    kind: int
    placement: Placement
    tier: int


@runtime_checkable
class Plans(Takers, Protocol):
    """Who decides about all waiting jobs at once; also asked, as others, about single ones."""

    def plan(self, now_s: float, waiting: WaitingJobs, holdings: Holdings) -> Sequence[Planned]:
        """Say who gets which GPUs of those that are free now, and change nothing.

        Asked again until nobody gets any, as leases may have changed the delay timers.

        Parameters
        ----------
        now_s
            The time, seconds.
        waiting
            The waiting jobs that need no more GPUs than are free.
        holdings
            What is free, what waiting jobs have given back in this instant, and how fast
            placements are.
        """
        ...
