"""What the plain engine keeps of jobs and transfers, what gates see of it, and its JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.mechanism.gates import Flow
from apportion.sim.contention.iteration import Iteration, iteration_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.sim.contention.engine import Turn
    from apportion.sim.contention.iteration import Send
    from apportion.sim.contention.plain_links import Transfers
    from apportion.sim.contention.record import Timeline

    Event = tuple[float, int, int, Any, Any]


READY, TASKS, FIRST_BYTE, LAST_BYTE, ASK = range(5)
"""Kinds of events: a job begins, tasks end, a transfer's first and last byte, a gate's time."""


class OnGPUs:
    """A job that has GPUs."""

    __slots__ = (
        *("number", "iteration", "gpus", "links", "left", "turn", "key", "done", "sent", "lag"),
        *("transfer", "computed_s", "moved", "here"),
    )

    def __init__(
        self, number: int, iteration: Iteration, times: int, gpus: list[int], links: tuple[int, ...]
    ) -> None:
        self.number, self.iteration, self.left = number, iteration, times
        self.gpus, self.links = gpus, links
        self.turn: Turn = (0, 0)
        self.key = (0, 0)
        self.done = [0] * len(gpus)  # tasks of this iteration, by worker
        self.sent = 0  # transfers of this iteration
        self.lag = 0  # workers that have yet to get to the barrier before the next transfer
        self.transfer: Transfer | None = None
        self.computed_s = self.moved = 0.0
        self.here = True

    def set_key(self) -> None:
        """Set whose turn it is in this iteration."""
        first, second = self.turn
        self.key = (first * self.left + second, self.number)

    def set_lag(self) -> None:
        """Count the workers before the next barrier; the last one is the end of the iteration."""
        self.lag = sum(map(self.barrier().__gt__, self.done))

    def barrier(self) -> int:
        """Return the tasks that all workers must have done to go on."""
        iteration = self.iteration
        if self.sent < len(iteration.sends):
            return iteration.sends[self.sent].after
        return len(iteration.gpu_s)


class Transfer:
    """A transfer that waits or is under way."""

    __slots__ = ("begun", "flow", "job", "left", "order", "rate", "since_s", "stamp")

    def __init__(self, job: OnGPUs, send: Send) -> None:
        self.job, self.left = job, send.size
        self.flow = Flow(job.number, job.links, send.size, send.size, send.most)
        self.rate, self.since_s = 0.0, 0.0  # no byte moves before `begun`
        self.begun = False
        self.order = 0  # in which transfers were let in
        self.stamp = 0  # events of other stamps are void

    def seen(self, now_s: float) -> Flow:
        """Return it with what is left now."""
        job, links, size, _, most = self.flow
        return Flow(job, links, size, self.left - self.rate * (now_s - self.since_s), most)


def turn_of(transfer: Transfer) -> tuple[int, int]:
    """Return whose turn it is."""
    return transfer.job.key


class View:
    """What a gate sees, see `apportion.mechanism.gates.LinksView`."""

    def __init__(self, transfers: Transfers, now_s: float) -> None:
        self._transfers, self._now_s = transfers, now_s
        self._on: dict[int, list[Flow]] = {}
        self.s_per_byte = transfers.sharing.s_per_byte
        self.penalty_s_per_byte = transfers.sharing.penalty_s_per_byte

    @property
    def flows(self) -> list[Flow]:
        """Transfers under way."""
        return [each.seen(self._now_s) for each in self._transfers.under_way if each.job.links]

    @property
    def waiting(self) -> list[Flow]:
        """Transfers that wait."""
        return [each.flow for each in self._transfers.waiting]

    def on(self, link: int) -> list[Flow]:
        """Return the transfers under way on a link."""
        if not self._transfers.on_link[link]:
            return []
        if link not in self._on:
            self._on[link] = [each.seen(self._now_s) for each in self._transfers.on_link[link]]
        return self._on[link]

    def started(self, flow: Flow) -> None:
        """Look again at links that have one more transfer now."""
        for link in flow.links:
            self._on.pop(link, None)

    def rates(self, flows: Sequence[Flow]) -> list[float]:
        """Return what such transfers would get."""
        return self._transfers.rates(flows)


_JOB = ("number", "gpus", "links", "left", "turn", "done", "sent", "lag", "computed_s", "moved")
_TRANSFER = ("left", "rate", "since_s", "begun", "stamp", "order")


class PlainState:
    """Jobs, events to come, and who computes: all that the plain engine remembers.

    Parameters
    ----------
    gpus
        How many there are.
    timeline
        Takes down who computes and who sends, if anybody wants to know.
    """

    _transfers: Transfers

    def __init__(self, gpus: int, timeline: Timeline | None) -> None:
        self.events, self.paused, self._timeline = 0, False, timeline
        self._jobs: dict[int, OnGPUs] = {}  # those that are done or gone included
        self._here = 0
        self._heap: list[tuple[float, int, int, Any, Any]] = []
        self._count = 0  # of events ever planned: of equal times, first planned first served
        self._ready: list[list[tuple[tuple[int, int], int, OnGPUs]]] = [[] for _ in range(gpus)]
        self._busy: list[OnGPUs | None] = [None] * gpus
        self._look: set[int] = set()  # GPUs that may have something to begin
        self._finished: list[tuple[int, float]] = []

    def state(self) -> dict[str, Any]:
        """Return everything that later events depend on, see `Engine`."""
        kept = {number for number, _ in self._finished}
        jobs = [job for job in self._jobs.values() if job.here or job.number in kept]
        kinds = list(dict.fromkeys(job.iteration for job in jobs))
        return {
            "events": self.events,
            "count": self._count,
            "paused": self.paused,
            "finished": self._finished,
            "iterations": kinds,
            "jobs": [_state_of_job(job, kinds.index(job.iteration)) for job in jobs],
            "heap": [_state_of_event(event, self._jobs) for event in self._heap],
            "ready": [[[worker, job.number] for _, worker, job in own] for own in self._ready],
            "busy": [None if job is None else job.number for job in self._busy],
            "look": sorted(self._look),
            "transfers": self._transfers.state(),
            "timeline": None if self._timeline is None else self._timeline.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`, see `Engine`."""
        kinds = [iteration_of(each) for each in state["iterations"]]
        jobs = {int(each["number"]): _job_of(each, kinds) for each in state["jobs"]}
        self.events, self._count = int(state["events"]), int(state["count"])
        self.paused, self._jobs = bool(state["paused"]), jobs
        self._finished = [(int(job), float(when_s)) for job, when_s in state["finished"]]
        self._here = sum(job.here for job in jobs.values())
        self._heap = [_event_of(each, jobs) for each in state["heap"]]
        self._ready = [
            [(jobs[number].key, worker, jobs[number]) for worker, number in own]
            for own in state["ready"]
        ]
        self._busy = [None if number is None else jobs[number] for number in state["busy"]]
        self._look = set(state["look"])
        self._transfers.restore(state["transfers"], jobs)
        if self._timeline is not None:
            self._timeline.restore(state["timeline"])


def _state_of_job(job: OnGPUs, iteration: int) -> dict[str, Any]:
    """Return a job, its transfer included, and the number of its iteration."""
    state = {name: getattr(job, name) for name in _JOB}
    transfer = job.transfer
    sends = None if transfer is None else {name: getattr(transfer, name) for name in _TRANSFER}
    return state | {"here": job.here, "iteration": iteration, "transfer": sends}


def _job_of(state: Mapping[str, Any], iterations: Sequence[Iteration]) -> OnGPUs:
    """Return the job that was written down."""
    iteration, links = iterations[state["iteration"]], tuple(state["links"])
    job = OnGPUs(state["number"], iteration, state["left"], list(state["gpus"]), links)
    for name in ("sent", "lag", "computed_s", "moved", "here"):
        setattr(job, name, state[name])
    job.turn, job.done = tuple(state["turn"]), list(state["done"])
    job.set_key()
    if state["transfer"] is not None:
        job.transfer = Transfer(job, iteration.sends[job.sent])
        for name in _TRANSFER:
            setattr(job.transfer, name, state["transfer"][name])
    return job


def _state_of_event(event: Event, jobs: Mapping[int, OnGPUs]) -> list[Any]:
    """Return an event and whose it is: of nobody if it is void, which only stops the clock."""
    when_s, count, kind, subject, detail = event
    if kind == ASK:
        return [when_s, count, kind, None, None]
    whose, void = subject, False
    if kind in (FIRST_BYTE, LAST_BYTE):
        whose = subject.job
        void = whose.transfer is not subject or subject.stamp != detail
    void = void or not whose.here or jobs.get(whose.number) is not whose
    if void:
        return [when_s, count, TASKS, None, None]
    return [when_s, count, kind, whose.number, detail]


def _event_of(state: Sequence[Any], jobs: Mapping[int, OnGPUs]) -> Event:
    """Return the event that was written down."""
    when_s, count, kind, number, detail = state
    if kind == ASK:
        return when_s, count, kind, None, None
    if number is None:
        return when_s, count, kind, _GONE, []
    subject = jobs[number].transfer if kind in (FIRST_BYTE, LAST_BYTE) else jobs[number]
    return when_s, count, kind, subject, detail


def _nobody() -> OnGPUs:
    gone = OnGPUs(-1, Iteration(()), 0, [], ())
    gone.here = False
    return gone


_GONE = _nobody()
"""Whose events are void."""
