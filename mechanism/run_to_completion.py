"""Jobs that get GPUs once and keep them until they are done, beside others as memory allows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from apportion.checks import yes_no
from apportion.mechanism.decider import Decider
from apportion.mechanism.gates import GATES
from apportion.mechanism.orders import ORDERS, Demand, turns_of
from apportion.mechanism.placements import PLACEMENTS, Gang
from apportion.mechanism.scheduler import NOBODY, Decision

if TYPE_CHECKING:
    import pandas as pd

    from apportion.mechanism.decider import About
    from apportion.mechanism.gates import Gate
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.orders import Order
    from apportion.mechanism.placement import Placer
    from apportion.mechanism.scheduler import Event
    from apportion.mechanisms import Iterations
    from apportion.mechanisms.past import Past
    from apportion.types import Floats, Ints


@dataclass(frozen=True)
class GatedScheduler(Decider):
    """Order x placement x gate: jobs get GPUs in an order, and their transfers pass a gate.

    Jobs that arrive wait in the order; whoever fits is placed, whoever does not is passed over. A
    job keeps its GPUs until it is done. Those that share a GPU, and transfers that ask the gate,
    are served in the same order.

    Parameters
    ----------
    name
        Name in the registry.
    source
        Paper and section.
    order
        An order that says turns, or the name of one out of `apportion.mechanism.orders.ORDERS`.
    placement
        Out of `apportion.mechanism.placements.PLACEMENTS`.
    gate
        A gate, or the name of one out of `apportion.mechanism.gates.GATES`.
    exclusive
        Whether a GPU is for one job at a time.

    Raises
    ------
    InputError
        For an unknown name, with the nearest one.
    """

    name: str = "gated"
    source: str = ""
    order: str | Order = "srsf"
    placement: Any = "lwf_1"
    gate: str | Gate = "ada_dual"
    exclusive: bool = False

    works_by: ClassVar[tuple[str, ...]] = ("iterations",)
    works_how: ClassVar[str] = "is a scheduler, which works by iterations"

    def __post_init__(self) -> None:
        turns_of(self.order)
        PLACEMENTS.of(self.placement)
        GATES.of(self.gate)
        yes_no("exclusive", self.exclusive)

    def knows_durations(self, jobs: pd.DataFrame) -> bool:
        """Whether its order goes by how long jobs will run."""
        return ORDERS.of(self.order).knows_durations

    @property
    def terms(self) -> GatedScheduler:
        """Itself: it says in which order, where, and past which gate."""
        return self

    @property
    def description(self) -> str:
        """Its parts, in a line."""
        order, where = ORDERS.name_of(self.order), PLACEMENTS.name_of(self.placement)
        return f"{order} x {where} x {GATES.of(self.gate).name}"

    def under(self, mechanism: Iterations) -> GatedScheduler:
        """Return it with the settings of a mechanism in place of its own, as far as there are."""
        told = {name: getattr(mechanism, name) for name in _SETTINGS}
        return replace(self, **{name: value for name, value in told.items() if value is not None})

    def make(self, about: About) -> RunToCompletion:
        """Return what gives jobs GPUs for good."""
        return RunToCompletion(self, about.jobs, about.devices, about.needs, about.lost_s)


_SETTINGS = ("order", "placement", "gate", "exclusive")


@dataclass(frozen=True)
class StayNeeds:
    """What is known of the jobs beside the job table, shape (jobs,).

    Attributes
    ----------
    iteration_s
        Seconds of an iteration without transfers, on each type, shape (jobs, types).
    transfer_s
        Seconds that its transfers count if it is in several servers: those if nobody else sends.
    memory_gb
        Memory that it takes of each GPU, GB; 0 for all of it.
    alone_s
        Seconds that its transfers take if nobody else sends.
    counts_transfers
        Whether what is left to do on GPUs counts the transfers of those in several servers.
    times_gpus
        Whether it is GPU-seconds of the whole gang on each of its GPUs, or seconds.
    turns_count_transfers
        Whether turns on GPUs and at the gate count the transfers of those in several servers.
    """

    iteration_s: Floats
    transfer_s: Floats
    memory_gb: Floats
    alone_s: Floats
    counts_transfers: bool = True
    times_gpus: bool = True
    turns_count_transfers: bool = True


@dataclass(eq=False)
class RunToCompletion:
    """Gives GPUs for good; see `apportion.mechanism.scheduler.Scheduler`.

    Parameters
    ----------
    decider
        Says in which order.
    jobs
        What is told of them.
    devices
        Devices, and the placement by which gangs get them.
    needs
        What they need.
    starts_s
        Seconds from when each job has its GPUs to its first iteration, shape (jobs,).
    """

    decider: GatedScheduler
    jobs: JobTable
    devices: Placer
    needs: StayNeeds
    starts_s: Floats
    _waiting: list[int] = field(default_factory=list)
    _ranks: dict[int, tuple[int, int]] = field(default_factory=dict)
    event_driven: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self.name = f"Scheduler {self.decider.label!r}"
        self._turn = turns_of(self.decider.order)
        self._option = np.full(self.jobs.jobs, -1)

    def take_over(self, past: Past) -> Ints:
        """Begin in the middle: who has GPUs keeps them."""
        for job, (kind, devices) in past.held.items():
            memory_gb = float(self.needs.memory_gb[job])
            self.devices.devices.hold(job, kind, devices, memory_gb)
            self.devices.remember(job, self.jobs.job_type[job])
            self._option[job] = kind
        self._waiting = [job for job in self.jobs.active.tolist() if self._option[job] < 0]
        return NOBODY

    def decide(self, event: Event) -> Decision:
        """Free what is done, and place whoever fits, in the order."""
        if event.ran is not None:
            self.devices.release(event.ran.done.tolist())
            self._option[event.ran.done] = -1
        self._waiting += event.arrived.tolist()
        started = self._place()
        holders = np.flatnonzero(self._option >= 0)
        starts = np.zeros(holders.size, dtype=bool)
        starts[np.searchsorted(holders, started)] = True
        return Decision(
            self.devices.gangs(holders),
            starts,
            NOBODY,
            lost_s=np.where(starts, self.jobs.lost_s(holders, self.starts_s), 0.0),
            resolved=bool(started),
            turns={job: self.turn(job, int(self._option[job])) for job in started},
        )

    def turn(self, job: int, option: int) -> tuple[int, int]:
        """Return the turn of a job on a type, see `apportion.mechanism.orders`."""
        return self._turn_of(job, option, split=self._is_split(job))

    def _turn_of(self, job: int, option: int, *, split: bool) -> tuple[int, int]:
        """Return the turn of a job that is in several servers, or in one."""
        each_s = float(self.needs.iteration_s[job, option])
        if self.needs.turns_count_transfers and split:
            each_s += float(self.needs.alone_s[job])
        return self._turn(Demand.of(self.jobs, job, round(each_s * 1e9)))

    def _is_split(self, job: int) -> bool:
        """Tell whether a job has GPUs, in several servers."""
        return bool(self._option[job] >= 0 and self.devices.is_split(np.array([job]))[0])

    def _place(self) -> list[int]:
        """Place whoever fits, first served first."""
        started = []
        if self._waiting:
            self._set_loads(np.flatnonzero(self._option >= 0))
        for job in sorted(self._waiting, key=self._rank):
            for option in self.jobs.fastest_first(job):
                gang = Gang(
                    *(job, int(self.jobs.scale[job]), option, self.jobs.job_type[job]),
                    memory_gb=float(self.needs.memory_gb[job]),
                )
                if self.devices.give(gang) is not None:
                    self._option[job] = option
                    self._set_loads(np.array([job]))
                    started.append(job)
                    break
        for job in started:
            self._waiting.remove(job)
        return started

    def _rank(self, job: int) -> tuple[int, int]:
        """Return whose turn it is to be placed: transfers are not known yet, and do not count.

        It stays what it is, as a job that waits makes no step.
        """
        if job not in self._ranks:
            first, second = self.turn(job, self.jobs.fastest_first(job)[0])
            self._ranks[job] = first * int(np.ceil(self.jobs.remaining[job])) + second, job
        return self._ranks[job]

    def _set_loads(self, jobs: Ints) -> None:
        """Say what jobs have left to do on each of their GPUs: L = C + E, times their GPUs."""
        each_s = self.needs.iteration_s[jobs, self._option[jobs]]
        if self.needs.counts_transfers:
            far = self.devices.is_split(jobs)
            each_s = each_s + np.where(far, self.needs.transfer_s[jobs], 0.0)
        due_s = each_s * self.jobs.remaining[jobs]
        if self.needs.times_gpus:
            due_s = due_s * self.jobs.scale[jobs]
        self.devices.devices.set_loads(jobs.tolist(), due_s.tolist())

    def valid_for_s(self, now_s: float) -> float:
        """Return infinity: a decision stands until something happens."""
        return np.inf

    def unchanged_until_s(self, now_s: float) -> float:
        """Return now: it has no times of its own."""
        return now_s
