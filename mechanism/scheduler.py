"""The contract of whoever decides: it is told what happened, and says who holds which devices.

A scheduler knows what it is told (`Event`, a `JobTable`, the devices) and never the truth: how fast
jobs will run and when they will be done is the business of the simulator, or of the world.
All jobs are numbers: their place in the job table, in order of arrival.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from apportion.cluster import TIERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.mechanism.devices import Held
    from apportion.types import Bools, Floats, Int64s, Ints


NOBODY: Ints = np.empty(0, dtype=np.intp)
"""No jobs."""


class Gangs(NamedTuple):
    """Jobs on devices: a line for each job of each gang, so that jobs that share have two lines.

    Attributes
    ----------
    job
        Number of the job, shape (lines,), as all arrays. Only where shares are had exactly a job
        has several lines, one by accelerator type.
    gang
        Name of the gang at the devices; jobs that share have one gang.
    option
        Accelerator type (or other option), as its place in the job table's `speed`.
    gpus
        GPUs that the gang holds.
    mate
        Line of the job that shares the devices, and a line's own number where none does.
        ``None`` where nobody shares. The lines of the gangs come first, one each, and behind them
        those of the second jobs.
    share
        Share of the time in which the gang has its devices, from 0 to 1; ``None`` for all of it.
    devices
        Type and numbers of the devices of each line, as whoever holds them keeps them: not to be
        changed. Empty where nobody has devices, as where shares are had exactly.
    working
        Numbers of those devices of each line that work while others still prepare, and ``None``
        for a line where all work; ``None`` where all work everywhere.
    """

    job: Ints
    gang: Ints
    option: Ints
    gpus: Ints
    mate: Ints | None = None
    share: Floats | None = None
    devices: Sequence[Held] = ()
    working: Sequence[Sequence[int] | None] | None = None

    @property
    def at_work(self) -> Sequence[Held]:
        """Type and numbers of the devices of each line that work."""
        if self.working is None:
            return self.devices
        return [
            held if work is None else (held[0], list(work))
            for held, work in zip(self.devices, self.working, strict=True)
        ]

    def among(self, there: Bools) -> Gangs:
        """Return the lines that are marked; a mate that is not makes a line single."""
        lines = there.nonzero()[0]
        mate = self.mate
        if mate is not None:
            own, place = np.arange(mate.size), np.cumsum(there) - 1
            mate = place[np.where(there[mate], mate, own)][lines]
        held = [self.devices[line] for line in lines.tolist()] if self.devices else ()
        work = None if self.working is None else [self.working[line] for line in lines.tolist()]
        share = None if self.share is None else self.share[lines]
        columns = (self.job[lines], self.gang[lines], self.option[lines], self.gpus[lines])
        return Gangs(*columns, mate, share, held, work)


NO_GANGS = Gangs(NOBODY, NOBODY, NOBODY, NOBODY)
"""Nobody has devices."""


class DutyCycle(NamedTuple):
    """When gangs work that have their devices but do not work all the time, shape (lines,).

    A line works from `ready_s` on for `work_s`, rests for `rest_s` (as in a checkpoint, its
    devices held), works again, and so on until it is told otherwise. So leases that are renewed
    without asking need no decision, and how long they last is known ahead.

    Attributes
    ----------
    ready_s
        When the first spell of work begins, seconds of the clock; it may lie in the past, and lie
        ahead after a restart or a cold start.
    work_s, rest_s
        Length of a spell of work and of the rest after it, seconds. Infinite: for good.
    """

    ready_s: Floats
    work_s: Floats
    rest_s: Floats


class Decision(NamedTuple):
    """A decision: everyone who has devices from now on, and what is new about it.

    Attributes
    ----------
    gangs
        All lines, those that go on included: what is not here runs no more.
    starts
        Whether a line's job has come to these devices now, or must start again on them; shape
        (lines,). A line that does not start goes on as it was.
    stop
        Jobs that had devices, are not done, and have lost them: they wait, or have moved.
    lost_s
        Seconds from now in which lines that start, or pause, do no work, though they hold their
        devices; one number for all, or one for each line, shape (lines,).
    duty_cycle
        When lines work, for all of them; ``None`` for always but for `lost_s`.
    resolved
        Whether this rests on a new answer of a policy, or a new round of offers; for the record.
    pauses
        Lines that go on on their devices, but lose `lost_s` from now on, shape (lines,); ``None``
        for none.
    moved
        Lines that go on, and lose nothing, on other devices of the same machines, shape (lines,);
        ``None`` for none.
    turns
        Whose turn it is where jobs share GPUs and links, of jobs that start (see
        `apportion.mechanism.orders`); ``None`` for the order of their numbers.
    """

    gangs: Gangs
    starts: Bools
    stop: Ints = NOBODY
    lost_s: float | Floats = 0.0
    duty_cycle: DutyCycle | None = None
    resolved: bool = False
    pauses: Bools | None = None
    moved: Bools | None = None
    turns: Mapping[int, tuple[int, int]] | None = None


class GangProgress(NamedTuple):
    """What a stretch of time has brought, to be measured on the devices; by line of `gangs`.

    Attributes
    ----------
    gangs
        Who had devices.
    rate
        Steps/s of each line while it worked.
    worked_s, held_s
        Seconds in which each line made progress, and had its devices, shape (lines,).
    done
        Jobs that are complete now.
    length_s
        How long it was, seconds: as long as the gang that was at work longest.
    times
        So many stretches followed each other, each of them as told here. In the last one only jobs
        may be done.
    """

    gangs: Gangs
    rate: Floats
    worked_s: Floats
    held_s: Floats
    done: Ints
    length_s: float
    times: int = 1


class Event(NamedTuple):
    """What has happened since the last decision.

    Attributes
    ----------
    now_s
        The time, seconds.
    arrived
        Jobs that are new in the job table.
    ran
        What came of the last decision, `GangProgress.done` included; ``None`` before the first one.
    """

    now_s: float
    arrived: Ints
    ran: GangProgress | None


class Scheduler(Protocol):
    """Decides who holds which devices from now on.

    It gets its job table and its devices when it is made; both are kept up to date by whoever runs
    the jobs (active jobs, steps left, time held), but devices are taken and given back by the
    scheduler only. All times are in seconds.

    Attributes
    ----------
    name
        What messages call it, e.g. ``Policy 'makespan'``.
    event_driven
        True: it is asked again as soon as a job arrives or completes. False: it is asked
        at the times that it sets itself only, as rounds are.
    """

    name: str
    event_driven: bool

    def decide(self, event: Event) -> Decision | None:
        """Say who has devices from now on; ``None`` if nothing changes (nobody may be done then).

        Called when `valid_for_s` has passed, and at arrivals and completions if `event_driven`. Not
        while there is no job at all: what happened is then told with the next arrival.
        """
        ...

    def valid_for_s(self, now_s: float) -> float:
        """Return for how long the decision just made stands if nothing happens, from now on.

        To the end of the round, of a lease, of a timer; infinite for until something happens. A
        length and not a time, since a difference of two readings of a clock has lost digits.
        """
        ...

    def unchanged_until_s(self, now_s: float) -> float:
        """Return until when the scheduler would only repeat the decision just made, a time.

        Asked again every `valid_for_s` it would give the same gangs, none of which starts, as long
        as no job arrives or completes. So need it not be asked. `now_s` promises nothing.
        """
        ...


MACHINE, RACK, NETWORK = range(len(TIERS))
"""Positions of the tiers in `apportion.cluster.TIERS`."""

Placement = tuple[tuple[int, int, int], ...]
"""Where the GPUs of a gang are: (rack, machine in the rack, GPUs), ascending."""


class Room(NamedTuple):
    """Most GPUs that one gang can have free at each tier.

    Attributes
    ----------
    machine, rack, network
        Free GPUs of the machine with most of them, of the rack with most of them, and of all.
    """

    machine: int
    rack: int
    network: int


def tier_of(placement: Placement) -> int:
    """Return the tier in which a gang lies, as its position in `apportion.cluster.TIERS`."""
    if len(placement) == 1:
        return MACHINE
    return RACK if len({rack for rack, _, _ in placement}) == 1 else NETWORK


def can_hold(free: Int64s, placement: Placement) -> bool:
    """Whether all GPUs of a placement are free; `free` has the shape (racks, machines)."""
    return all(free[rack, machine] >= gpus for rack, machine, gpus in placement)
