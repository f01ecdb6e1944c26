"""Orders: whose turn it is, the lowest key first, wherever jobs wait for GPUs or links.

Under leases an order gives keys to all jobs that wait. By iterations it says the turn of a job
once, when it gets its GPUs, of which its turn at any time follows. An order that says turns only
has keys by them; one that depends on more than what is left to do has keys only.

Keys that differ in their last digits only count as equal (`apportion.ties.EXACT`).
Jobs of equal keys come in the order in which their waits began, then in that of their arrival, then
in that of their numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from apportion.checks import is_whole
from apportion.errors import InputError, written
from apportion.mechanism.decider import Part
from apportion.own_code import answered_by
from apportion.registry import Registry
from apportion.ties import EXACT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.leases.jobs import WaitingJobs
    from apportion.types import Floats


class Demand(NamedTuple):
    """What an order may ask of a job to say its turn.

    Attributes
    ----------
    iteration_ns
        Nanoseconds of an iteration.
    gpus
        GPUs of its gang.
    iterations
        In all.
    arrival
        Its place among all jobs.
    due_ns
        Its deadline, nanoseconds from the start of the workload; None without one.
    facts
        Further columns of the jobs table, those of one's own included, as `JobTable.facts`.
    """

    iteration_ns: int
    gpus: int
    iterations: int
    arrival: int
    due_ns: int | None = None
    facts: Mapping[str, float] = MappingProxyType({})

    @classmethod
    def of(cls, jobs: JobTable, job: int, iteration_ns: int) -> Demand:
        """Return what a job demands, whose iteration takes so long where it is."""
        due_ns = None if math.isnan(jobs.due_s[job]) else round(1e9 * float(jobs.due_s[job]))
        gpus, iterations = int(jobs.scale[job]), math.ceil(jobs.total[job])
        facts = {name: float(values[job]) for name, values in jobs.facts.items()}
        return cls(iteration_ns, gpus, iterations, job, due_ns, facts)


class Order(Part):
    """Whose turn it is; the base of orders of one's own, which say `keys`, or turns.

    ``turn(job)`` of a `Demand` returns two whole numbers, of nanoseconds where they are of time:
    what is equal is equal, whatever is summed up how. The turn of a job is ``first * iterations
    left + second``, the least comes first.
    """

    rule: ClassVar[str] = "an order of one's own"
    """The order in a few words."""
    knows_durations: ClassVar[bool] = False
    """Whether it goes by how long jobs will run."""
    lasting: ClassVar[bool] = False
    """Whether keys of a job last while it waits; to be said anew with `keys` or `turn`."""

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        """Return keys of shape (waiting,), the most significant first; lower comes first.

        By default the turn of each job on the type on which it is fastest.
        """
        told, turn, found = waiting.table, turns_of(self), []
        for job in waiting.job.tolist():
            first, second = turn(Demand.of(told, job, round(1e9 / told.speed[job].max())))
            found.append(first * math.ceil(told.remaining[job]) + second)
        return (np.array(found, dtype=float),)


def turns_of(order: str | Order) -> Callable[[Demand], tuple[int, int]]:
    """Return what says the turns of an order.

    Raises
    ------
    InputError
        If it depends on more than what a job has left to do.
    """
    turn: Callable[[Demand], tuple[int, int]] | None = getattr(ORDERS.of(order), "turn", None)
    if turn is None:
        valid = ", ".join(name for name, each in ORDERS.items() if hasattr(each, "turn"))
        raise InputError(
            f"order={order!r} says no turns on GPUs and links that are shared, turn(job), but keys "
            f"of waiting jobs, as leases need them. Valid: {valid}."
        )
    own = type(ORDERS.of(order)).__module__ != __name__
    return _watched(ORDERS.name_of(order), turn) if own else turn


def _watched(
    name: str, turn: Callable[[Demand], tuple[int, int]]
) -> Callable[[Demand], tuple[int, int]]:
    """Return what says turns, and refuses others than two whole numbers."""

    def watched(job: Demand) -> tuple[int, int]:
        said = turn(job)
        if not (isinstance(said, (tuple, list)) and len(said) == 2 and all(map(is_whole, said))):
            raise InputError(
                f"The order {name!r} says the turn {written(said)} for {job}; it must be two whole "
                f"numbers.{answered_by(turn)}"
            )
        return int(said[0]), int(said[1])

    return watched


def keys_of(order: Order, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
    """Return the keys of waiting jobs; those of an order of one's own are looked at.

    Raises
    ------
    InputError
        For keys that are no tuple of arrays with a number for each waiting job.
    """
    keys = order.keys(now_s, waiting)
    if type(order).__module__ == __name__:
        return keys
    arrays = [np.asarray(each) for each in keys] if isinstance(keys, (tuple, list)) else []
    if not arrays or any(
        each.shape != waiting.job.shape or each.dtype.kind not in "iufb" or np.isnan(each).any()
        for each in arrays
    ):
        raise InputError(
            f"The order {ORDERS.name_of(order)!r} has the keys {written(keys)}; they must be a "
            f"tuple of arrays, each with a number for each of the {waiting.job.size} waiting jobs."
            f"{answered_by(order, 'keys')}"
        )
    return tuple(arrays)


@dataclass(frozen=True, repr=False)
class LeastRemainingService(Order):
    """Least GPU-time left first. Source: Wang et al., 2020, SRSF; Tiresias (NSDI 2019)."""

    rule: ClassVar[str] = "least GPU-time left first"
    lasting: ClassVar[bool] = True
    knows_durations: ClassVar[bool] = True

    def turn(self, job: Demand) -> tuple[int, int]:
        """Return the nanoseconds left times the GPUs."""
        return job.iteration_ns * job.gpus, 0


@dataclass(frozen=True, repr=False)
class LeastRemainingTime(Order):
    """Least time left first."""

    rule: ClassVar[str] = "least time left first"
    lasting: ClassVar[bool] = True
    knows_durations: ClassVar[bool] = True

    def turn(self, job: Demand) -> tuple[int, int]:
        """Return the nanoseconds left."""
        return job.iteration_ns, 0


@dataclass(frozen=True, repr=False)
class SmallestGangFirst(Order):
    """Smallest gang first."""

    rule: ClassVar[str] = "fewest GPUs first"
    lasting: ClassVar[bool] = True

    def turn(self, job: Demand) -> tuple[int, int]:
        """Return the GPUs of the gang."""
        return 0, job.gpus


@dataclass(frozen=True, repr=False)
class MostSlowedFirst(Order):
    """Jobs that the network has slowed most come first; jobs that never ran before them.

    The key is P = W / T_norm, the share W of the iterations that is done over the time run T_norm
    in units of the time that all iterations would compute. That is compute time over run time of
    the work done: 1 / (1 + overhead) for a job that has always had the same placement, and 0 for a
    job that never ran. Source: Dally (Sharma et al., 2024), network-sensitive preemption.
    """

    rule: ClassVar[str] = "least compute time per time run first"
    lasting: ClassVar[bool] = True

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        """Return P, between 0 and 1."""
        run_s, key = waiting.run_s, np.zeros(waiting.job.size)
        np.divide(waiting.compute_s, run_s, out=key, where=run_s > 0)
        return (key,)


@dataclass(frozen=True, repr=False)
class LeastAttainedService(Order):
    """Least GPU-time first. Source: Tiresias (Gu et al., NSDI 2019), section 3, two-dimensional."""

    rule: ClassVar[str] = "least GPU-time run first"
    lasting: ClassVar[bool] = True

    def turn(self, job: Demand) -> tuple[int, int]:
        """Return the nanoseconds run times the GPUs: all of them but those left."""
        each_ns = job.iteration_ns * job.gpus
        return -each_ns, each_ns * job.iterations

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        """Return GPU-seconds run."""
        return (waiting.run_s * waiting.scale_factor,)


@dataclass(frozen=True, repr=False)
class DiscretizedLeastAttainedService(Order):
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
    lasting: ClassVar[bool] = True

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
        return limits.searchsorted(attained, side="right").astype(float)


@dataclass(frozen=True, repr=False)
class UnfairestFirst(Order):
    """The unfairest first: the largest rho, time in the shared over time in an isolated cluster.

    The shared time is the time since arrival and the time still to run; the isolated one what the
    job would take alone on 1/n of the GPUs of each type, n being the jobs in the cluster now,
    taking turns with itself if it needs more. Both times are those on the fastest placement that
    the gang can have alone on the whole cluster, communication included. Source: Themis (Mahajan et
    al., NSDI 2020), section 3, without its auctions and their leases.
    """

    rule: ClassVar[str] = "largest finish-time fairness first"
    knows_durations: ClassVar[bool] = True

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        """Return -rho."""
        by_type = waiting.records.gpus_of_type
        share = sum(by_type) / waiting.table.active.size / waiting.scale_factor
        # Over the types of its share it is as fast as on the fastest one, or slower.
        of_type = waiting.slowdown.reshape(waiting.job.size, len(by_type), -1).min(axis=2)
        slowdown = of_type.min(axis=1)
        speed = np.average(slowdown[:, None] / of_type, axis=1, weights=by_type)
        isolated_s = waiting.ideal_s * slowdown / (np.minimum(share, 1.0) * speed)
        left_s = np.maximum(waiting.ideal_s - waiting.compute_s, 0.0) * slowdown
        return (-(now_s - waiting.arrival_s + left_s) / isolated_s,)


@dataclass(frozen=True, repr=False)
class ByArrival(Order):
    """Earliest arrival first."""

    rule: ClassVar[str] = "first in first out"
    lasting: ClassVar[bool] = True

    def turn(self, job: Demand) -> tuple[int, int]:
        """Return the place among all jobs."""
        return 0, job.arrival

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        """Return times of arrival, seconds."""
        return (waiting.arrival_s,)


@dataclass(frozen=True, repr=False)
class RoundRobin(Order):
    """Longest present wait first, so that jobs take turns.

    Source: Gandiva (Xiao et al., OSDI 2018), section 3, which suspends and resumes jobs in turn.
    """

    rule: ClassVar[str] = "longest wait first"
    lasting: ClassVar[bool] = True

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        """Return equal keys: the start of the wait decides."""
        return (np.zeros(waiting.job.size),)


ORDERS: Registry[Order] = Registry(
    "order",
    "apportion.orders",
    {
        "srsf": LeastRemainingService(),
        "srtf": LeastRemainingTime(),
        "smallest": SmallestGangFirst(),
        "fifo": ByArrival(),
        "least_attained": LeastAttainedService(),
        "discretized_least_attained": DiscretizedLeastAttainedService(),
        "most_slowed": MostSlowedFirst(),
        "unfairest": UnfairestFirst(),
        "round_robin": RoundRobin(),
    },
    lambda value: callable(getattr(value, "keys", None)) and not isinstance(value, type),
    "an object of a subclass of apportion.mechanism.orders.Order, with turn(job) or keys(now_s, "
    "waiting)",
)
"""Orders by name; one of one's own is added by assigning it."""
