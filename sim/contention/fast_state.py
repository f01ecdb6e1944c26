"""The arrays of the compiled engine: made, given more room, and written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError
from apportion.resumable import array_of, plain
from apportion.sim.contention import arrays
from apportion.sim.contention.iteration import iteration_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.sim.contention.iteration import Iteration
    from apportion.types import Floats


_ROOM = 64
"""Jobs, workers and so on that there is room for at first."""

_RECORDS = {
    "jobs": arrays.JOB,
    "workers": arrays.WORKER,
    "tasks": arrays.TASK,
    "sends": arrays.SEND,
    "gpus": arrays.GPU,
    "links": arrays.LINK,
    "rules": arrays.RULES,
}


class FastState:
    """All that the compiled engine remembers.

    Parameters
    ----------
    gpus
        How many there are.
    factors
        Of each link, see `arrays.LINK`.
    rules
        How links are shared, and the gate, see `arrays.RULES`.
    """

    def __init__(
        self, gpus: int, factors: Floats, rules: tuple[int, float, float, int, float]
    ) -> None:
        self.paused = False
        self._spans: dict[int, tuple[int, int, int]] = {}
        self._iterations: dict[Iteration, tuple[int, int]] = {}
        self._used = dict.fromkeys(("workers", "links_of", "tasks", "sends"), 0)
        self._state = arrays.State(
            jobs=_records(_ROOM, arrays.JOB),
            workers=_records(_ROOM, arrays.WORKER),
            tasks=_records(_ROOM, arrays.TASK),
            sends=_records(_ROOM, arrays.SEND),
            gpus=_records(gpus, arrays.GPU),
            links=_records(factors.size, arrays.LINK),
            rules=_records(1, arrays.RULES),
            links_of=np.zeros(_ROOM, dtype=np.int64),
            residents=np.zeros((gpus, 5), dtype=np.int64),
            on=np.zeros((factors.size, _ROOM + 1), dtype=np.int64),
            lists=np.zeros((8, max(gpus, _ROOM)), dtype=np.int64),
            counts=np.zeros(16, dtype=np.int64),
            rests=np.zeros(_ROOM),
            near=np.full(-(-gpus // arrays.BLOCK), np.inf),
        )
        self._state.gpus.end_s, self._state.gpus.worker = np.inf, -1
        self._state.links.factor = factors
        self._state.rules[0] = rules

    @property
    def events(self) -> int:
        """Ends of tasks and transfers so far."""
        return int(self._state.counts[arrays.EVENTS])

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
        self._state = arrays.State(**kept)
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
