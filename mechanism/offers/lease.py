"""What an acceptance yields."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from apportion.mechanism.places import Placement

__all__ = ["Lease"]


class Lease(NamedTuple):
    """GPUs that a job has got.

    Attributes
    ----------
    job
        Its number.
    placement
        Where the GPUs are: (rack, machine in the rack, GPUs).
    tier
        Position of the tier in `apportion.cluster.TIERS`.
    continued
        Whether these are the GPUs that it gave back in this instant.
    kind
        Position of their accelerator type.
    """

    job: int
    placement: Placement
    tier: int
    continued: bool
    kind: int = 0
