"""The state of the compiled engine: records of jobs, workers and transfers, lists, and settings.

Its arrays are made, given more room, and written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.errors import InputError
from apportion.resumable import array_of, plain
from apportion.sim.contention.iteration import iteration_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.sim.contention.iteration import Iteration
    from apportion.types import Floats


_INT, _FLOAT = np.int64, np.float64
# No field is called as something that every record of numpy has, such as size: it would be hidden.

JOB = np.dtype(
    [
        *((name, _INT) for name in ("here", "n", "at", "links_at", "n_links", "tasks_at")),
        *((name, _INT) for name in ("n_tasks", "sends_at", "n_sends", "left", "first", "second")),
        *((name, _INT) for name in ("key", "sent", "lag", "flow", "asked", "near", "meets")),
        *((name, _FLOAT) for name in ("begin_s", "ask_s", "flow_s", "rate", "since_s")),
        *((name, _FLOAT) for name in ("bytes", "rest", "most", "computed_s", "moved")),
        *((name, _FLOAT) for name in ("shift_s", "period_s", "done_s", "rate_then", "rest_then")),
        *((name, _FLOAT) for name in ("foreseen_s", "as_of_s")),
    ]
)
"""A job: where its workers, links, tasks and transfers begin and how many there are; how far it is;
its transfer, if it has one: `flow` tells whether it waits, starts up or sends; when it was
foreseen to end, and as of when, if no other starts, 0 if that is not known. What is worked out
and not remembered: whether it is `near` another transfer, or `meets` it, on links; the rate that it
would get, and the bytes that it would still have."""

JOB_FIELDS = JOB.names or ()
"""Its fields, in order."""

WORKER = np.dtype([("gpu", _INT), ("job", _INT), ("done", _INT), ("state", _INT)])
"""A worker: tasks done in this iteration; whether it waits, is ready, or runs."""

TASK = np.dtype([("seconds", _FLOAT), ("needs", _INT)])
"""A task of an iteration."""

SEND = np.dtype([("bytes", _FLOAT), ("after", _INT), ("most", _FLOAT), ("startup_s", _FLOAT)])
"""A transfer of an iteration."""

GPU = np.dtype([("end_s", _FLOAT), ("worker", _INT)])
"""A GPU: when its task ends, infinite if it has none; and whose it is, else -1."""

LINK = np.dtype(
    [("factor", _FLOAT), ("asked", _INT), ("used", _INT), ("reached", _INT), ("cost", _FLOAT)]
)
"""A link: its factor to b and eta, or its bytes/s if links are shared fairly; in which round of
asking the gate a transfer last began that may change answers about others on it. What is not
remembered: how many use it, whether one of those that are near does, and what a byte costs each of
those that use it, seconds."""

RULES = np.dtype(
    [("way", _INT), ("b", _FLOAT), ("eta", _FLOAT), ("gate", _INT), ("parameter", _FLOAT)]
)
"""How links are shared: the way, b, eta; the gate's number and its parameter."""

BLOCK = 16
"""GPUs of which the next end of a task is kept: to look at all of them at each event takes longer
the more there are."""

REST, READY, RUNNING = range(3)
"""States of a worker."""

WAITS, STARTUP, SENDING = 1, 2, 3
"""States of a transfer; 0 if there is none."""

UNDER_WAY, WAITING, PENDING, LOOK, DONE, LOOKED_AT, NEAR, TRIED = range(8)
"""Lists: jobs whose transfers are let in, or wait; jobs to begin; GPUs to look at; jobs done.
`LOOKED_AT` tells of every GPU whether it is to be looked at. `NEAR` and `TRIED` are room for gates:
transfers that are near one, and those of them that are under way in what is played out."""

HERE, EVENTS, ASK, NEW, SHARE, NAMED, SINCE, ROUND = range(8, 16)
"""Behind the lengths of the lists: jobs that are here, ends of tasks and transfers, and whether to
ask the gate about all, or about new ones, and to share links anew; how many times that it has named
have come since there were so many events; and the rounds of asking it."""

AT_MOST, DUAL, DUAL_FIRST, K_WAY, WHAT_IF, SHIFTED, AT_MOST_ON_A_PAIR = range(7)
"""Numbers of the gates."""

CLUSTER, FAIR = 1, 2
"""Ways to share links, beside the cost by the links of the task, 0."""


class State(NamedTuple):
    """All that the compiled functions read and write; few arrays, as each is handed over in parts.

    Attributes
    ----------
    jobs, workers, tasks, sends, gpus, links
        Records, see `JOB`, `WORKER`, `TASK`, `SEND`, `GPU` and `LINK`.
    rules
        One record, see `RULES`.
    links_of
        Links of every job, one after the other.
    residents
        Workers on each GPU; their number is in the first column.
    on
        Jobs whose transfers are on each link; their number is in the first column.
    lists, counts
        See `UNDER_WAY`, `HERE`.
    rests
        Room for bytes of transfers, or for the seconds until they end.
    near
        When the next task ends on each block of GPUs, see `BLOCK`.
    """

    jobs: Any  # records of numpy, whose fields no type checker sees
    workers: Any
    tasks: Any
    sends: Any
    gpus: Any
    links: Any
    rules: Any
    links_of: NDArray[np.int64]
    residents: NDArray[np.int64]
    on: NDArray[np.int64]
    lists: NDArray[np.int64]
    counts: NDArray[np.int64]
    rests: NDArray[np.float64]
    near: NDArray[np.float64]


_ROOM = 64
"""Jobs, workers and so on that there is room for at first."""

_RECORDS = {
    "jobs": JOB,
    "workers": WORKER,
    "tasks": TASK,
    "sends": SEND,
    "gpus": GPU,
    "links": LINK,
    "rules": RULES,
}


class FastState:
    """All that the compiled engine remembers.

    Parameters
    ----------
    gpus
        How many there are.
    factors
        Of each link, see `LINK`.
    rules
        How links are shared, and the gate, see `RULES`.
    """

    def __init__(
        self, gpus: int, factors: Floats, rules: tuple[int, float, float, int, float]
    ) -> None:
        self.paused = False
        self._spans: dict[int, tuple[int, int, int]] = {}
        self._iterations: dict[Iteration, tuple[int, int]] = {}
        self._used: dict[str, int] = dict.fromkeys(("workers", "links_of", "tasks", "sends"), 0)
        self._state = State(
            jobs=_records(_ROOM, JOB),
            workers=_records(_ROOM, WORKER),
            tasks=_records(_ROOM, TASK),
            sends=_records(_ROOM, SEND),
            gpus=_records(gpus, GPU),
            links=_records(factors.size, LINK),
            rules=_records(1, RULES),
            links_of=np.zeros(_ROOM, dtype=np.int64),
            residents=np.zeros((gpus, 5), dtype=np.int64),
            on=np.zeros((factors.size, _ROOM + 1), dtype=np.int64),
            lists=np.zeros((8, max(gpus, _ROOM)), dtype=np.int64),
            counts=np.zeros(16, dtype=np.int64),
            rests=np.zeros(_ROOM),
            near=np.full(-(-gpus // BLOCK), np.inf),
        )
        self._state.gpus.end_s, self._state.gpus.worker = np.inf, -1
        self._state.links.factor = factors
        self._state.rules[0] = rules

    @property
    def events(self) -> int:
        """Ends of tasks and transfers so far."""
        return int(self._state.counts[EVENTS])

    def state(self) -> dict[str, Any]:
        """Return everything that later events depend on, see `Engine`."""
        kept = self._state._asdict()
        for name in _RECORDS:
            kept[name] = kept[name].view(np.ndarray).view(np.uint8)
        return {
            "arrays": {name: plain(array) for name, array in kept.items()},
            "spans": [[job, *span] for job, span in self._spans.items()],
            "iterations": [[kind, *at] for kind, at in self._iterations.items()],
            "used": self._used,
            "paused": self.paused,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`, see `Engine`."""
        kept: dict[str, Any] = {name: array_of(each) for name, each in state["arrays"].items()}
        for name, kind in _RECORDS.items():
            kept[name] = kept[name].view(kind).view(np.recarray)
        self._state = State(**kept)
        self._spans = {job: (size, at, links_at) for job, size, at, links_at in state["spans"]}
        self._iterations = {iteration_of(each): (a, b) for each, a, b in state["iterations"]}
        self._used, self.paused = dict(state["used"]), bool(state["paused"])

    def _enter(self, iteration: Iteration) -> tuple[int, int]:
        """Return where the tasks and the transfers of an iteration are, equal ones once."""
        if iteration not in self._iterations:
            at = (
                self._take("tasks", len(iteration.gpu_s)),
                self._take("sends", len(iteration.sends)),
            )
            state = self._state
            for place, task in enumerate(zip(iteration.gpu_s, iteration.needs, strict=True)):
                state.tasks[at[0] + place] = task
            for place, send in enumerate(iteration.sends):
                state.sends[at[1] + place] = tuple(send)
            self._iterations[iteration] = at
        return self._iterations[iteration]

    def _span(self, job: int, gpus: int, links: int) -> tuple[int, int]:
        """Return where the workers and links of a job are: where they were, if they fit there."""
        if job not in self._spans or self._spans[job][0] != gpus:
            # Room for the links of any placement: a server and a rack for each GPU.
            at = self._take("workers", gpus), self._take("links_of", 2 * gpus + 1)
            self._spans[job] = (gpus, *at)
        if links > 2 * gpus + 1:
            raise InputError(f"Job {job} has {gpus} GPUs and {links} links.")
        return self._spans[job][1:]

    def _take(self, name: str, count: int) -> int:
        """Return where there is room for so many more of something."""
        at = self._used[name]
        self._used[name] = at + count
        self._state = self._state._replace(**{name: _grown(getattr(self._state, name), at + count)})
        return at

    def _make_room(self, job: int) -> None:
        """Have room for one more job of this number."""
        state = self._state
        size = job + 1
        if size <= state.jobs.size:
            return
        jobs = _grown(state.jobs, size)
        size = jobs.size
        self._state = state._replace(
            jobs=jobs,
            rests=_grown(state.rests, size),
            lists=_widened(state.lists, size),
            on=_widened(state.on, size + 1),
        )

    def _move_in(self, gpu: int, worker: int) -> None:
        residents = self._state.residents
        there = int(residents[gpu, 0])
        if there + 2 > residents.shape[1]:
            self._state = self._state._replace(
                residents=_widened(residents, 2 * residents.shape[1])
            )
        self._state.residents[gpu, there + 1] = worker
        self._state.residents[gpu, 0] = there + 1


def _records(size: int, kind: np.dtype[np.void]) -> Any:
    return np.zeros(size, dtype=kind).view(np.recarray)


def _grown(array: Any, size: int) -> Any:
    """Return an array with room for so many, the old entries kept."""
    if size <= array.size:
        return array
    more = np.zeros(max(size, 2 * array.size), dtype=array.dtype)
    more[: array.size] = array
    return more.view(type(array))


def _widened(array: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    if width <= array.shape[1]:
        return array
    more = np.zeros((array.shape[0], width), dtype=array.dtype)
    more[:, : array.shape[1]] = array
    return more
