"""A lease-based scheduler as a value: order, rule, timers, lease, and what its stops cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from apportion.checks import seconds
from apportion.errors import InputError, written
from apportion.mechanism.decider import Decider, Part
from apportion.mechanism.leases.queue import CandidateOrder
from apportion.mechanism.leases.rules import AT_ONCE, NoWait, Rule
from apportion.mechanism.leases.scheduler import LeaseScheduler
from apportion.mechanism.leases.timers import ManualTimers, Timers, get_timers
from apportion.mechanism.orders import ORDERS, ByArrival, Order
from apportion.mechanism.placements import PLACEMENTS
from apportion.mechanisms.settings import SecondsByType, check_by_type, seconds_by_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from apportion.mechanism.decider import About
    from apportion.mechanism.leases.queue import JobQueue
    from apportion.mechanisms import Leases

_CHECKPOINTS = "checkpoint_seconds_per_gpu (checkpoint_s_per_gpu of the scheduler)"
_OVERHEADS = "preemption_overhead_seconds (overhead_s of the scheduler)"


@dataclass(frozen=True, repr=False)
class OfferScheduler(Part, Decider):
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
        Whose turn it is: an order, or the name of one out of `apportion.mechanism.orders.ORDERS`.
    rule
        Which tiers a job accepts after which wait.
    timers
        Delay timers, of which only `DelayScheduling` takes notice.
    lease_s
        Length of a lease, seconds.
    checkpoint_s_per_gpu
        Seconds for each GPU of the gang that pass after the end of a lease before its GPUs are
        free, whoever gets them then: one number, or by job type, with ``"others"`` for those that
        are not named.
    restore_s_per_gpu
        Seconds for each GPU of the gang that a job loses whenever it goes on with other GPUs than
        before, or after a wait; likewise.
    overhead_s
        Seconds that a job loses in these cases beside, whatever its GPUs, and at its first start.
    placement
        How machines and racks are chosen, out of `apportion.mechanism.placements.PLACEMENTS`.
        It matters for jobs that come anew, and for ``"best_fit"`` only among those GPUs on which
        the gang is fastest.
    migrates
        Whether jobs move to a faster placement as soon as one is free with their own GPUs
        included, be it when they have just got them. They keep their lease.
    of_elastic
        What stands in its place where jobs are elastic, if anything does.

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
    order: Order | str = field(default_factory=ByArrival)
    rule: Rule = field(default_factory=NoWait)
    timers: Timers = field(default_factory=ManualTimers)
    lease_s: float = 3600.0
    checkpoint_s_per_gpu: SecondsByType = field(default=1.0, hash=False)
    restore_s_per_gpu: SecondsByType = field(default=0.0, hash=False)
    overhead_s: SecondsByType = field(default=0.0, hash=False)
    placement: Any = "best_fit"
    migrates: bool = False
    of_elastic: Decider | None = field(default=None, repr=False)

    works_by: ClassVar[tuple[str, ...]] = ("leases",)
    works_how: ClassVar[str] = "is a scheduler, which works by leases"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.label:
            object.__setattr__(self, "label", self.name)
        seconds("lease_s", self.lease_s, strict=True)
        for name in ("checkpoint_s_per_gpu", "restore_s_per_gpu", "overhead_s"):
            check_by_type(name, getattr(self, name))
        PLACEMENTS.of(self.placement)
        object.__setattr__(self, "order", ORDERS.of(self.order))
        for name, needs in (("rule", "patience_s"), ("timers", "tuned")):
            if not hasattr(getattr(self, name), needs):
                raise InputError(f"{name} is {written(getattr(self, name))}; see `OfferScheduler`.")

    @property
    def description(self) -> str:
        """Order and rule in one line."""
        return f"{ORDERS.of(self.order).rule}; {self.rule.rule}"

    def knows_durations(self, jobs: pd.DataFrame) -> bool:
        """Whether its order goes by how long jobs will run."""
        return ORDERS.of(self.order).knows_durations

    @property
    def terms(self) -> OfferScheduler:
        """Itself: it says what leases are like, and who takes what."""
        return self

    def under(self, mechanism: Leases) -> OfferScheduler:
        """Return it with the settings of a mechanism in place of its own, as far as there are any.

        Raises
        ------
        InputError
            For delay timers that its rule does not look at.
        """
        told = {
            "lease_s": mechanism.seconds,
            "checkpoint_s_per_gpu": mechanism.checkpoint_seconds_per_gpu,
            "overhead_s": mechanism.preemption_overhead_seconds,
            "placement": mechanism.placement,
        }
        given: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
        if mechanism.timers is not None:
            if isinstance(self.rule, AT_ONCE):
                raise InputError(
                    f"timers={written(mechanism.timers)} does nothing to {self.label!r}, whose "
                    f"rule is {self.rule.rule!r}; leave it out."
                )
            given["timers"] = get_timers(mechanism.timers) or ManualTimers(0.0, 0.0)
        return replace(self, **given) if given else self

    def make(self, about: About, queue: JobQueue | None = None) -> LeaseScheduler:
        """Return what offers free GPUs on these terms.

        Parameters
        ----------
        about
            Jobs, and devices in whole racks.
        queue
            Who takes what, in place of its order and rule.
        """
        return LeaseScheduler(self, about, self.queue() if queue is None else queue)

    def queue(self) -> JobQueue:
        """Return what decides who is offered GPUs next; made anew for each run."""
        return CandidateOrder(ORDERS.of(self.order), self.rule)

    def checkpoints_s(self, job_types: Sequence[str], gpus: Sequence[int]) -> list[float]:
        """Return for how long GPUs are not free yet after the lease of each job, seconds."""
        each = seconds_by_type(_CHECKPOINTS, self.checkpoint_s_per_gpu, job_types)
        return [scale * s for scale, s in zip(gpus, each, strict=True)]

    def starts_s(
        self, job_types: Sequence[str], gpus: Sequence[int]
    ) -> tuple[list[float], list[float]]:
        """Return what the first start and later ones cost each job, seconds."""
        first = seconds_by_type(_OVERHEADS, self.overhead_s, job_types)
        each = seconds_by_type("restore_s_per_gpu", self.restore_s_per_gpu, job_types)
        return first, [s + n * more for s, n, more in zip(first, gpus, each, strict=True)]
