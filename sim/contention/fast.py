"""The compiled engine of iterations: the same outcome as the plain one, many times as fast."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.gates import AdaDual, AtMost, KWay, TimeShift, WhatIf
from apportion.sim.contention import arrays, kernel, kernel_jobs, sharing_kernel
from apportion.sim.contention.engine import check_links, standstill
from apportion.sim.contention.jit import compiled
from apportion.sim.contention.links import FairSharing, SharedCost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.gates import Gate
    from apportion.sim.contention.engine import Turn
    from apportion.sim.contention.iteration import Iteration
    from apportion.sim.contention.links import LinkSharing

__all__ = ["FastEngine", "why_not_fast"]

_ROOM = 64
"""Jobs, workers and so on that there is room for at first."""


def why_not_fast(sharing: LinkSharing, gate: Gate) -> str:
    """Say what the compiled engine lacks for a way to share links and a gate; nothing if it can."""
    if not compiled:
        return "numba is not installed: pip install 'apportion[fast]'"
    if type(sharing) not in (SharedCost, FairSharing):
        return f"links shared by {written(sharing)} are not compiled"
    if _number_of(gate) is None:
        return f"the gate {gate.name!r} is not compiled"
    return ""


def _number_of(gate: Gate) -> tuple[int, float] | None:
    """Return the number of a gate and its parameter, if it is compiled."""
    if type(gate) is AtMost:
        return sharing_kernel.AT_MOST, float(gate.transfers)
    if type(gate) is AdaDual:
        first = gate.conflicts == "first"
        return (sharing_kernel.DUAL_FIRST if first else sharing_kernel.DUAL), 0.0
    numbers = {
        KWay: sharing_kernel.K_WAY,
        WhatIf: sharing_kernel.WHAT_IF,
        TimeShift: sharing_kernel.SHIFTED,
    }
    number = numbers.get(type(gate))
    return None if number is None else (number, 0.0)


def _law(sharing: LinkSharing, links: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how links are shared, and the figure of each link, as `arrays.Arrays` has them."""
    of_link = np.ones(links)
    way = 0
    if isinstance(sharing, FairSharing):
        way = arrays.FAIR
        of_link[:] = sharing.capacity[:links]
    elif isinstance(sharing, SharedCost):
        way = arrays.CLUSTER if sharing.counted_over == "cluster" else 0
        for link, factor in sharing.slower:
            of_link[link] = factor
    return np.array([way, sharing.s_per_byte, sharing.penalty_s_per_byte]), of_link


class FastEngine:
    """Lets iterations run, see `apportion.sim.contention.Engine`.

    Parameters
    ----------
    gpus, links, sharing, gate, names
        As for `apportion.sim.contention.PlainEngine`.

    Raises
    ------
    InputError
        If the gate, or the way in which links are shared, is not compiled.

    Notes
    -----
    Without numba it runs as Python, slower than the plain engine: for tests.
    """

    def __init__(
        self,
        gpus: int,
        links: int,
        sharing: LinkSharing,
        gate: Gate,
        names: Sequence[object] = (),
    ) -> None:
        check_links(sharing, links)
        number = _number_of(gate)
        if number is None or type(sharing) not in (SharedCost, FairSharing):
            raise InputError(f"engine='fast': {why_not_fast(sharing, gate)}; use engine='plain'.")
        self._gate, self._links, self._names = gate, links, names
        law, of_link = _law(sharing, links)
        self._spans: dict[int, tuple[int, int, int]] = {}
        self._iterations: dict[Iteration, tuple[int, int]] = {}
        self._used = dict.fromkeys(("workers", "links_of", "tasks", "sends"), 0)
        self._arrays = arrays.Arrays(
            jobs=_records(_ROOM, arrays.JOB),
            workers=_records(_ROOM, arrays.WORKER),
            tasks=_records(_ROOM, arrays.TASK),
            sends=_records(_ROOM, arrays.SEND),
            links_of=np.zeros(_ROOM, dtype=np.int64),
            gpu_end_s=np.full(gpus, np.inf),
            gpu_worker=np.full(gpus, -1, dtype=np.int64),
            residents=np.zeros((gpus, 5), dtype=np.int64),
            on=np.zeros((links, _ROOM + 1), dtype=np.int64),
            lists=np.zeros((6, max(gpus, _ROOM)), dtype=np.int64),
            counts=np.zeros(13, dtype=np.int64),
            done_s=np.zeros(_ROOM),
            law=law,
            of_link=of_link,
            gate=np.array(number, dtype=float),
            used=np.zeros(links, dtype=np.int64),
            rates=np.zeros(_ROOM),
        )

    @property
    def events(self) -> int:
        """Ends of tasks and transfers so far."""
        return int(self._arrays.counts[arrays.EVENTS])

    def add(
        self,
        job: int,
        iteration: Iteration,
        times: int,
        gpus: Sequence[int],
        links: Sequence[int],
        turn: Turn,
        ready_s: float,
    ) -> None:
        """Put a job on GPUs, see `apportion.sim.contention.Engine`."""
        check_links(None, self._links, job, links)
        self._make_room(job)
        tasks_at, sends_at = self._enter(iteration)
        at, links_at = self._span(job, len(gpus), len(links))
        state = self._arrays
        new = state.jobs[job]
        new.here, new.n, new.at, new.links_at, new.n_links = 1, len(gpus), at, links_at, len(links)
        new.tasks_at, new.n_tasks = tasks_at, len(iteration.gpu_s)
        new.sends_at, new.n_sends = sends_at, len(iteration.sends)
        new.left, (new.first, new.second), new.begin_s = times, turn, ready_s
        new.computed_s = new.moved = new.rate = 0.0
        new.flow, new.flow_s, new.ask_s = 0, math.inf, math.inf
        new.shift_s, new.period_s = self._turns_of(job)
        state.links_of[links_at : links_at + len(links)] = links
        for worker, gpu in enumerate(gpus, at):
            state.workers[worker] = (gpu, job, 0, arrays.REST)
            self._move_in(gpu, worker)
        counts = self._arrays.counts
        self._arrays.lists[arrays.PENDING, counts[arrays.PENDING]] = job
        counts[arrays.PENDING] += 1
        counts[arrays.HERE] += 1

    def drop(self, job: int) -> None:
        """Take a job off its GPUs, see `apportion.sim.contention.Engine`."""
        s = self._arrays
        kernel_jobs.take_away(
            *(job, s.jobs, s.workers, s.links_of, s.gpu_end_s, s.gpu_worker, s.residents),
            *(s.on, s.lists, s.counts),
        )

    def run(
        self, now_s: float, until_s: float, *, to_completion: bool, more_come: bool = False
    ) -> tuple[float, list[tuple[int, float]]]:
        """Let jobs run, see `apportion.sim.contention.Engine`.

        Raises
        ------
        SolveError
            If they would stand still for ever; it says who waits for what.
        """
        state = self._arrays
        end_s, why = kernel.advance(float(now_s), float(until_s), bool(to_completion), *state)
        if why == kernel.STANDSTILL and more_come:
            end_s, why = until_s, kernel.REACHED
        if why != kernel.REACHED:
            raise self._standstill(end_s, in_vain=why == kernel.PUT_OFF)
        done = int(state.counts[arrays.DONE])
        jobs, when_s = state.lists[arrays.DONE, :done].tolist(), state.done_s[:done].tolist()
        return float(end_s), list(zip(jobs, when_s, strict=True))

    def left(self, job: int) -> int:
        """Return the iterations that are not over."""
        return int(self._arrays.jobs[job].left)

    def computed_s(self, job: int) -> float:
        """Return the GPU-seconds of the tasks that are over."""
        return float(self._arrays.jobs[job].computed_s)

    def sent(self, job: int) -> float:
        """Return the bytes that had moved when its rate was last looked at."""
        return float(self._arrays.jobs[job].moved)

    def _turns_of(self, job: int) -> tuple[float, float]:
        if isinstance(self._gate, TimeShift) and job in self._gate.shifts:
            return self._gate.shifts[job]
        return 0.0, 0.0

    def _enter(self, iteration: Iteration) -> tuple[int, int]:
        """Return where the tasks and the transfers of an iteration are, equal ones once."""
        if iteration not in self._iterations:
            at = (
                self._take("tasks", len(iteration.gpu_s)),
                self._take("sends", len(iteration.sends)),
            )
            state = self._arrays
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
        self._arrays = self._arrays._replace(
            **{name: _grown(getattr(self._arrays, name), at + count)}
        )
        return at

    def _make_room(self, job: int) -> None:
        """Have room for one more job of this number."""
        state = self._arrays
        size = job + 1
        if size <= state.jobs.size:
            return
        jobs = _grown(state.jobs, size)
        size = jobs.size
        self._arrays = state._replace(
            jobs=jobs,
            done_s=_grown(state.done_s, size),
            rates=_grown(state.rates, size),
            lists=_widened(state.lists, size),
            on=_widened(state.on, size + 1),
        )

    def _move_in(self, gpu: int, worker: int) -> None:
        residents = self._arrays.residents
        there = int(residents[gpu, 0])
        if there + 2 > residents.shape[1]:
            self._arrays = self._arrays._replace(
                residents=_widened(residents, 2 * residents.shape[1])
            )
        self._arrays.residents[gpu, there + 1] = worker
        self._arrays.residents[gpu, 0] = there + 1

    def _standstill(self, now_s: float, *, in_vain: bool) -> Exception:
        state = self._arrays
        waiting = []
        for job in state.lists[arrays.WAITING, : state.counts[arrays.WAITING]].tolist():
            record = state.jobs[job]
            at = int(record.links_at)
            links = state.links_of[at : at + int(record.n_links)].tolist()
            waiting.append((job, float(record.bytes), links))
        return standstill(now_s, self._gate.name, waiting, self._names, in_vain=in_vain)


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
