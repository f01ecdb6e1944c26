"""In which order waiting jobs are offered free GPUs: the lowest key first.

Keys that differ in their last digits only count as equal (`apportion.ties.EXACT`).
Jobs of equal keys come in the order in which their waits began, then in that of their arrival, then
in that of their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from apportion.errors import InputError
from apportion.mechanism.parts import Part
from apportion.ties import EXACT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.offers.waiting import WaitingJobs

    Floats = NDArray[np.float64]

__all__ = [
    "ByArrival",
    "DiscretizedLeastAttainedService",
    "LeastAttainedService",
    "MostSlowedFirst",
    "Order",
    "RoundRobin",
    "UnfairestFirst",
]


class Order(Protocol):
    """Gives every waiting job a key."""

    rule: ClassVar[str]
    """The order in a few words."""

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        """Return keys of shape (waiting,), the most significant first; lower comes first."""
        ...


@dataclass(frozen=True, repr=False)
class MostSlowedFirst(Part):
    """Jobs that the network has slowed most come first; jobs that never ran before them.

    The key is P = W / T_norm, the share W of the iterations that is done over the time run T_norm
    in units of the time that all iterations would compute. That is compute time over run time of
    the work done: 1 / (1 + overhead) for a job that has always had the same placement, and 0 for a
    job that never ran. Source: Dally (Sharma et al., 2024), network-sensitive preemption.
    """

    rule: ClassVar[str] = "least compute time per time run first"

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        """Return P, between 0 and 1."""
        run_s, key = waiting.run_s, np.zeros(waiting.job.size)
        np.divide(waiting.compute_s, run_s, out=key, where=run_s > 0)
        return (key,)


@dataclass(frozen=True, repr=False)
class LeastAttainedService(Part):
    """Least GPU-time first. Source: Tiresias (Gu et al., NSDI 2019), section 3, two-dimensional."""

    rule: ClassVar[str] = "least GPU-time run first"

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        """Return GPU-seconds run."""
        return (waiting.run_s * waiting.scale_factor,)


@dataclass(frozen=True, repr=False)
class DiscretizedLeastAttainedService(Part):
    """Queues by GPU-time, in each the earliest arrival first.

    Source: Tiresias (Gu et al., NSDI 2019), section 3; the limits are those of its simulator.

    Parameters
    ----------
    queue_limits
        GPU-seconds at which a job falls into the next queue, ascending.

    Raises
    ------
    InputError
        If the limits do not ascend from above 0.
    """

    rule: ClassVar[str] = "queues of GPU-time run, first in first out in each"

    queue_limits: tuple[float, ...] = (3250.0, 7200.0, 18000.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.all(np.diff([0.0, *self.queue_limits]) > 0):
            raise InputError(
                f"queue_limits are {self.queue_limits!r}; they must be GPU-seconds above 0, each "
                f"larger than the one before."
            )

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        """Return the number of the queue, and the time of arrival."""
        return self.queue_of(waiting.run_s * waiting.scale_factor), waiting.arrival_s

    def queue_of(self, attained: Floats) -> Floats:
        """Return the number of the queue of jobs that had so many GPU-seconds."""
        # Whole leases often add up to a limit just but for rounding; then they have reached it.
        limits = np.array(self.queue_limits) * (1 - EXACT)
        return np.searchsorted(limits, attained, side="right").astype(float)


@dataclass(frozen=True, repr=False)
class UnfairestFirst(Part):
    """The unfairest first: the largest rho, time in the shared over time in an isolated cluster.

    The shared time is the time since arrival and the time still to run; the isolated one what the
    job would take alone on 1/n of the GPUs of each type, n being the jobs in the cluster now,
    taking turns with itself if it needs more. Both times are those on the fastest placement that
    the gang can have alone on the whole cluster, communication included. Source: Themis (Mahajan et
    al., NSDI 2020), section 3, without its auctions and their leases.
    """

    rule: ClassVar[str] = "largest finish-time fairness first"

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        """Return -rho."""
        by_type = waiting.size.gpus_of_type
        share = sum(by_type) / waiting.records.told.active.size / waiting.scale_factor
        slowdown = waiting.records.alone_slowdown(waiting.job)
        # Over the types of its share it is as fast as on the fastest one, or slower.
        of_type = waiting.records.type_slowdown(waiting.job)
        speed = np.average(slowdown[:, None] / of_type, axis=1, weights=by_type)
        isolated_s = waiting.ideal_s * slowdown / (np.minimum(share, 1.0) * speed)
        left_s = np.maximum(waiting.ideal_s - waiting.compute_s, 0.0) * slowdown
        return (-(now_s - waiting.arrival_s + left_s) / isolated_s,)


@dataclass(frozen=True, repr=False)
class ByArrival(Part):
    """Earliest arrival first."""

    rule: ClassVar[str] = "first in first out"

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        """Return times of arrival, seconds."""
        return (waiting.arrival_s,)


@dataclass(frozen=True, repr=False)
class RoundRobin(Part):
    """Longest present wait first, so that jobs take turns.

    Source: Gandiva (Xiao et al., OSDI 2018), section 3, which suspends and resumes jobs in turn.
    """

    rule: ClassVar[str] = "longest wait first"

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        """Return equal keys: the start of the wait decides."""
        return (np.zeros(waiting.job.size),)
