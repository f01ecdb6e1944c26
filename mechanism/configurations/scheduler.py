"""The scheduler of elastic gangs: every interval (type, GPUs) anew, packed and priced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from apportion.mechanism.configurations.packing import pack
from apportion.mechanism.configurations.restarts import lost_seconds
from apportion.mechanism.scheduler import Change, Gangs
from apportion.plain_arrays import array_of, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.configurations.options import GangOptions
    from apportion.mechanism.devices import Devices, Held
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import News, Ran

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

__all__ = ["Asked", "InConfigurations", "JobRestarts", "OptionChoice"]

_BOOKS = ("option", "restarts", "most", "ready_s")


class Asked(NamedTuple):
    """What a decision is about; arrays by active job, shape (jobs,).

    Attributes
    ----------
    now_s
        The time.
    jobs
        Numbers of the active jobs, ascending.
    current
        Place of the option that each has, -1 for none.
    most
        Most GPUs that each may have.
    restarts
        How often each was started again or changed.
    started
        Whether each ever had GPUs.
    restart_s
        Seconds that a restart costs each.
    pinned
        Whether it must keep its option.
    capacity
        GPUs of each type that may be given, shape (types,).
    """

    now_s: float
    jobs: Ints
    current: Ints
    most: Floats
    restarts: Ints
    started: Bools
    restart_s: Floats
    pinned: Bools
    capacity: Ints


class OptionChoice(Protocol):
    """Chooses an option for every job, by a policy or otherwise."""

    def choose(self, asked: Asked) -> Ints:
        """Return the place of the option of every active job, -1 for none, shape (jobs,)."""
        ...

    def observe(self, ran: Ran) -> None:
        """Learn from what ran."""
        ...

    def state(self) -> dict[str, Any]:
        """Return everything that later choices depend on, for JSON."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`."""
        ...


class JobRestarts(NamedTuple):
    """How changes are priced: one of `RESTARTS`, and its seconds by job, shape (jobs,).

    Attributes
    ----------
    kind
        One of `RESTARTS`.
    first_s, rescale_s
        Seconds of a restart, and of the forming of another ring.
    believed_s
        Seconds of a restart, as those reckon who choose.
    """

    kind: str
    first_s: Floats
    rescale_s: Floats
    believed_s: Floats


class Standing(NamedTuple):
    """What everyone had before a decision: options of all jobs, and the GPUs of gangs."""

    option: Ints
    held: dict[int, Held]


class InConfigurations:
    """Gives every job a type and a number of GPUs; see `apportion.mechanism.scheduler.Scheduler`.

    It is deaf between its intervals: who arrives waits for the next one. Jobs whose option stays
    keep their GPUs; the others are packed anew and lose the seconds that their change costs. A
    change during a pause starts the pause anew, and it is not over before it would have been.

    Parameters
    ----------
    jobs
        What is told of the jobs.
    devices
        The GPUs.
    options
        What jobs may have.
    choice
        Chooses the options.
    restarts
        What changes cost.
    interval_seconds
        Time between two decisions.
    growth
        A job may have at most so many times the GPUs that it ever had; one that never had any may
        have one (Pollux, section 4.2). Infinite for no limit.
    keep_paused
        Whether jobs keep their option while they pause (Sia).
    whole_nodes
        How gangs are placed, see `apportion.mechanism.configurations.packing.pack`.

    Attributes
    ----------
    intervals
        Decisions so far; not part of its state.
    """

    hears = False

    def __init__(
        self,
        jobs: JobTable,
        devices: Devices,
        options: GangOptions,
        choice: OptionChoice,
        restarts: JobRestarts,
        *,
        name: str,
        interval_seconds: float = 60.0,
        growth: float = 2.0,
        keep_paused: bool = False,
        whole_nodes: bool = False,
    ) -> None:
        self.name = name
        self._jobs, self._devices, self._options = jobs, devices, options
        self._choice, self._restarts = choice, restarts
        self._interval_s, self._growth = interval_seconds, growth
        self._keep_paused, self._whole_nodes = keep_paused, whole_nodes
        count = jobs.jobs
        self.option: Ints = np.full(count, -1, dtype=np.intp)
        self.restarts: Ints = np.zeros(count, dtype=np.intp)
        self.most: Ints = np.zeros(count, dtype=np.intp)
        self.ready_s: Floats = np.full(count, -np.inf)
        self.intervals = 0

    def decide(self, news: News) -> Change | None:
        """Let go of who is done, choose anew, and place whose option has changed."""
        self._let_go(news)
        before = self._standing()
        self._renew(news.now_s)
        return self._change(news.now_s, before)

    def _let_go(self, news: News) -> None:
        """Learn from what ran, and take the GPUs of those who are done."""
        if news.ran is not None:
            self._choice.observe(news.ran)
            self._devices.release(news.ran.done.tolist())
            self.option[news.ran.done] = -1

    def _standing(self) -> Standing:
        return Standing(self.option.copy(), dict(self._devices.held))

    def _renew(self, now_s: float) -> None:
        """Choose an option for every job, and place those that have another one."""
        self.intervals += 1
        active, before = self._jobs.active, self.option.copy()
        self.option[active] = self._choice.choose(self._asked(now_s))
        self._place(active, before)

    def _capacity(self) -> Ints:
        """Return the GPUs of each type that may be given."""
        return self._jobs.capacity.astype(np.intp)

    def _asked(self, now_s: float) -> Asked:
        active = self._jobs.active
        started = self.most[active] > 0
        most = np.full(active.size, float(self._options.gpus.max(initial=1)))
        if np.isfinite(self._growth):
            most = np.minimum(most, np.where(started, self.most[active] * self._growth, 1.0))
        paused = (self.ready_s[active] > now_s) & (self.option[active] >= 0)
        return Asked(
            now_s,
            active,
            self.option[active],
            most,
            self.restarts[active],
            started,
            self._restarts.believed_s[active],
            paused & self._keep_paused,
            self._capacity(),
        )

    def _place(self, active: Ints, before: Ints) -> None:
        """Give GPUs to who has another option; who cannot be placed has none."""
        options, devices = self._options, self._devices
        new = active[self.option[active] != before[active]]
        held_before = dict(devices.held)
        devices.release([gang for gang in new.tolist() if gang in devices.held])
        wanted = {
            job: (int(options.kind[self.option[job]]), int(options.gpus[self.option[job]]))
            for job in new.tolist()
            if self.option[job] >= 0
        }
        declined = pack(devices, wanted, whole_nodes=self._whole_nodes)
        for job in held_before.keys() - devices.held.keys() | set(declined):
            self.option[job] = -1

    def _change(self, now_s: float, before: Standing, *, resolved: bool = True) -> Change:
        """Return who has GPUs now; who has others than before starts, and loses its pause."""
        active, options, held = self._jobs.active, self._options, self._devices.held
        job = active[self.option[active] >= 0]
        moved = [before.held.get(each) != held[each] for each in job.tolist()]
        starts = np.array(moved, dtype=bool)
        lost_s = self._pauses(now_s, job, before.option)
        self.restarts[job[starts & (self.most[job] > 0)]] += 1
        self.most[job] = np.maximum(self.most[job], options.gpus[self.option[job]])
        self.ready_s[job[starts]] = now_s + lost_s[starts]
        had = before.option >= 0
        stop = active[had[active] & (self.option[active] < 0)]
        return Change(
            Gangs(job, job, options.kind[self.option[job]], options.gpus[self.option[job]]),
            starts,
            np.union1d(stop, job[starts & had[job]]),
            lost_s=np.where(starts, lost_s, 0.0),
            resolved=resolved,
        )

    def _pauses(self, now_s: float, job: Ints, before: Ints) -> Floats:
        """Return for how long jobs with options pause if they have changed."""
        options, option, old = self._options, self.option[job], before[job]
        had = np.where(old >= 0, options.gpus[old], 0)
        # On another type there is nothing of the old gang to go on with.
        same_type = options.kind[old] == options.kind[option]
        had = np.where(same_type | (had == 0), had, options.gpus[option])
        kind, first_s, rescale_s, _ = self._restarts
        lost_s = lost_seconds(kind, first_s[job], rescale_s[job], had, options.gpus[option])
        # Who is still loading what it needs is not done sooner for having fewer GPUs.
        return np.where(old >= 0, np.maximum(lost_s, self.ready_s[job] - now_s), lost_s)

    def lasts_s(self, now_s: float) -> float:
        """Return the time between two decisions."""
        return self._interval_s

    def steady_s(self, now_s: float) -> float:
        """Return now: what jobs are worth changes as they train."""
        return now_s

    def state(self) -> dict[str, Any]:
        """Return who has what, and what each has been through, for JSON."""
        books = {name: plain(getattr(self, name)) for name in _BOOKS}
        return books | {"devices": self._devices.state(), "choice": self._choice.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`."""
        for name in _BOOKS:
            setattr(self, name, array_of(state[name]))
        self._devices.restore(state["devices"])
        self._choice.restore(state["choice"])
