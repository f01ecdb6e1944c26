"""The compiled engine of iterations: the same outcome as the plain one, many times as fast."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError
from apportion.mechanism.gates import TimeShift
from apportion.sim.contention import arrays, kernel, kernel_jobs
from apportion.sim.contention.arrays import FastState
from apportion.sim.contention.choice import gate_number, why_not_fast
from apportion.sim.contention.engine import SoFar, check_links, standstill
from apportion.sim.network.link_sharing import FairSharing, SharedCost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.gates import Gate
    from apportion.sim.contention.engine import Turn
    from apportion.sim.contention.iteration import Iteration
    from apportion.sim.network.link_sharing import LinkSharing
    from apportion.types import Ints


_NO_LIMIT = 2**62


def _law(sharing: LinkSharing, links: int) -> tuple[tuple[int, float, float], NDArray[np.float64]]:
    """Return how links are shared, and the factor of each link, see `RULES` and `LINK`."""
    of_link = np.ones(links)
    way = 0
    if isinstance(sharing, FairSharing):
        way = arrays.FAIR
        of_link[:] = sharing.capacity[:links]
    elif isinstance(sharing, SharedCost):
        way = arrays.CLUSTER if sharing.counted_over == "cluster" else 0
        for link, factor in sharing.slower:
            of_link[link] = factor
    return (way, sharing.s_per_byte, sharing.penalty_s_per_byte), of_link


class FastEngine(FastState):
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

    at_once = 1_000_000

    def __init__(
        self, gpus: int, links: int, sharing: LinkSharing, gate: Gate, names: Sequence[object] = ()
    ) -> None:
        check_links(sharing, links)
        number = gate_number(gate)
        if number is None or type(sharing) not in (SharedCost, FairSharing):
            raise InputError(f"engine='fast': {why_not_fast(sharing, gate)}; use engine='plain'.")
        self._gate, self._links, self._names = gate, links, names
        law, factors = _law(sharing, links)
        super().__init__(gpus, factors, law + number)

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
        state, (shift_s, period_s) = self._state, self._turns_of(job)
        new = {
            **{"here": 1, "n": len(gpus), "at": at, "links_at": links_at, "n_links": len(links)},
            **{"tasks_at": tasks_at, "n_tasks": len(iteration.gpu_s)},
            **{"sends_at": sends_at, "n_sends": len(iteration.sends)},
            **{"left": times, "first": turn[0], "second": turn[1], "begin_s": ready_s},
            **{"flow_s": math.inf, "ask_s": math.inf, "shift_s": shift_s, "period_s": period_s},
        }
        state.jobs[job] = tuple([new.get(name, 0) for name in arrays.JOB_FIELDS])
        state.links_of[links_at : links_at + len(links)] = links
        for worker, gpu in enumerate(gpus, at):
            state.workers[worker] = (gpu, job, 0, arrays.REST)
            self._move_in(gpu, worker)
        counts = self._state.counts
        self._state.lists[arrays.PENDING, counts[arrays.PENDING]] = job
        counts[arrays.PENDING] += 1
        counts[arrays.HERE] += 1

    def drop(self, job: int) -> None:
        """Take a job off its GPUs, see `apportion.sim.contention.Engine`."""
        kernel_jobs.take_away(self._state, job)

    def run(
        self,
        now_s: float,
        until_s: float,
        *,
        to_completion: bool,
        more_come: bool = False,
        pauses: bool = False,
    ) -> tuple[float, list[tuple[int, float]]]:
        """Let jobs run, see `apportion.sim.contention.Engine`.

        Raises
        ------
        SolveError
            If they would stand still for ever; it says who waits for what.
        """
        state = self._state
        if not self.paused:
            state.counts[arrays.DONE] = 0
        most = self.events + self.at_once if pauses else _NO_LIMIT
        end_s, why = kernel.advance(state, float(now_s), float(until_s), bool(to_completion), most)
        self.paused = why == kernel.PAUSED
        if self.paused:
            return float(end_s), []
        if why == kernel.STANDSTILL and more_come:
            end_s, why = until_s, kernel.REACHED
        if why != kernel.REACHED:
            raise self._standstill(end_s, in_vain=why == kernel.PUT_OFF)
        done = int(state.counts[arrays.DONE])
        jobs = state.lists[arrays.DONE, :done]
        when_s = state.jobs.done_s[jobs]
        return float(end_s), list(zip(jobs.tolist(), when_s.tolist(), strict=True))

    def so_far(self, jobs: Ints) -> SoFar:
        """Return what jobs have done, see `apportion.sim.contention.Engine`."""
        of = self._state.jobs
        return SoFar(of["left"][jobs], of["computed_s"][jobs], of["moved"][jobs])

    def _turns_of(self, job: int) -> tuple[float, float]:
        if isinstance(self._gate, TimeShift) and job in self._gate.shifts:
            return self._gate.shifts[job]
        return 0.0, 0.0

    def _standstill(self, now_s: float, *, in_vain: bool) -> Exception:
        state = self._state
        waiting = []
        for job in state.lists[arrays.WAITING, : state.counts[arrays.WAITING]].tolist():
            record = state.jobs[job]
            at = int(record.links_at)
            links = state.links_of[at : at + int(record.n_links)].tolist()
            waiting.append((job, float(record.bytes), links))
        return standstill(now_s, self._gate.name, waiting, self._names, in_vain=in_vain)
