"""A lease-based scheduler as a value: order, rule, timers, lease, and what its stops cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from apportion.checks import seconds
from apportion.mechanism.offers.candidates import InOrder, Takers
from apportion.mechanism.offers.rules import NoWait, Rule
from apportion.mechanism.offers.timers import ManualTimers, Timers
from apportion.mechanism.orders.by_past import ByArrival, Order
from apportion.mechanism.parts import Part
from apportion.mechanism.placements import PLACEMENTS

__all__ = ["OfferScheduler"]


@dataclass(frozen=True, repr=False)
class OfferScheduler(Part):
    """Offers free GPUs to waiting jobs in an order; each accepts or rejects by a rule.

    A job that accepts has its GPUs for one lease. At the end of the lease it gives them back and
    they are offered to all waiting jobs, itself included. If it accepts again and others that are
    free are faster for it than those, it gets the others: a gang that is left alone is on the best
    placement that the cluster has for it within a lease. A scheduler of one's own that keeps gangs
    where they are says so by ``comes_together = False``.

    On racks of several accelerator types an offer is a tier of a type. A job goes through the pairs
    of type and tier from the fastest to the slowest for it, time of a step on the best placement
    there, all being free: compute time on the type times 1 + overhead at the tier. It takes the
    first one that is free and that it accepts by its rule, which knows tiers and not types: waits
    and delay timers are by tier. So a job that holds out for a machine takes one of any type, but
    never of a type on which it cannot run. Of equally fast pairs comes the tighter tier, then the
    type that it had last, then the order of the cluster, which a simulation sorts by name.

    Parameters
    ----------
    name
        Name in the registry.
    source
        Paper and section.
    label
        Name in tables and plots; `name` by default.
    order
        Whose turn it is.
    rule
        Which tiers a job accepts after which wait.
    timers
        Delay timers, of which only `DelayScheduling` takes notice.
    lease_s
        Length of a lease, seconds.
    checkpoint_s_per_gpu
        Seconds for each GPU of the gang that pass after the end of a lease before its GPUs are
        free, whoever gets them then.
    restore_s_per_gpu
        Seconds for each GPU of the gang that a job loses whenever it goes on with other GPUs than
        before, or after a wait.
    placement
        How machines and racks are chosen, out of `apportion.mechanism.placements.PLACEMENTS`.
        It matters for jobs that come anew, and for ``"best_fit"`` only among those GPUs on which
        the gang is fastest.
    migrates
        Whether jobs move to a faster placement as soon as one is free with their own GPUs
        included, be it when they have just got them. They keep their lease.
    keep_placement
        Whether a job whose lease ends keeps its GPUs, without a checkpoint, unless a waiting job
        that comes before it accepts GPUs including those, or it finds better ones itself.

    Raises
    ------
    InputError
        For a lease that is not above 0, a negative cost, or an unknown placement.
    """

    comes_together: ClassVar[bool] = True
    """Whether a gang that is left alone is on its best placement within a lease."""

    name: str
    source: str = field(default="", repr=False)
    label: str = field(default="", repr=False)
    order: Order = field(default_factory=ByArrival)
    rule: Rule = field(default_factory=NoWait)
    timers: Timers = field(default_factory=ManualTimers)
    lease_s: float = 3600.0
    checkpoint_s_per_gpu: float = 1.0
    restore_s_per_gpu: float = 0.0
    placement: str = "best_fit"
    migrates: bool = False
    keep_placement: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.label:
            object.__setattr__(self, "label", self.name)
        seconds("lease_s", self.lease_s, strict=True)
        for name in ("checkpoint_s_per_gpu", "restore_s_per_gpu"):
            seconds(name, getattr(self, name))
        PLACEMENTS[self.placement]

    @property
    def description(self) -> str:
        """Order and rule in one line."""
        return f"{self.order.rule}; {self.rule.rule}"

    def candidates(self) -> Takers:
        """Return what decides who is offered GPUs next; made anew for each mechanism."""
        return InOrder(self.order, self.rule)
