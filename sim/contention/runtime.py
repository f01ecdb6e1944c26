"""The runtime in which gangs go through iterations, see `apportion.sim.engine.loop.Runtime`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.errors import InputError
from apportion.mechanism.scheduler import NO_GANGS, Decision, GangProgress, Gangs
from apportion.resumable import Resumable
from apportion.sim.contention.engine import instant_s

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.devices import Held
    from apportion.mechanism.machines import Layout
    from apportion.sim.contention.engine import Engine
    from apportion.sim.contention.iteration import Iteration
    from apportion.sim.engine.true_state import TrueState

    Floats = NDArray[np.float64]

__all__ = ["Iterating", "LinkMap"]


class LinkMap:
    """Which links a gang sends over: one for each server, and one for each rack if these count.

    Parameters
    ----------
    layout
        In which machines and racks devices are.
    racks
        Whether gangs in several racks use links of their racks too, which come after those of the
        servers.

    Attributes
    ----------
    gpus, links
        How many there are of all types.
    """

    def __init__(self, layout: Layout, *, racks: bool = False) -> None:
        self._layout, self._racks = layout, racks
        sizes = [len(pool.machine_of) for pool in layout.pools]
        servers = [max(pool.machine_of, default=-1) + 1 for pool in layout.pools]
        in_racks = [pool.gpus.shape[0] for pool in layout.pools]
        self._first_gpu = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        self._first_server = np.concatenate([[0], np.cumsum(servers)]).tolist()
        self.servers = self._first_server[-1]
        self._first_rack = (self.servers + np.concatenate([[0], np.cumsum(in_racks)])).tolist()
        self.gpus = self._first_gpu[-1]
        self.links = self._first_rack[-1] if racks else self.servers

    def of(self, held: Held) -> tuple[list[int], list[int]]:
        """Return the GPUs of a gang, and its links: none within one server."""
        kind, devices = held
        machine_of = self._layout.pools[kind].machine_of
        servers = sorted({machine_of[device] for device in devices})
        links = [self._first_server[kind] + server for server in servers]
        if self._racks:
            racks = sorted({rack for rack, _, _ in self._layout.placement(held)})
            if len(racks) > 1:
                links += [self._first_rack[kind] + rack for rack in racks]
        gpus = [self._first_gpu[kind] + device for device in devices]
        return gpus, links if len(servers) > 1 else []


class Iterating(Resumable):
    """Lets gangs go through iterations, and books the whole ones in the truth.

    A gang that loses its devices loses what it has done of an iteration.

    Parameters
    ----------
    truth
        The books.
    engine
        Lets iterations run.
    links
        Which links a gang uses.
    iteration
        Returns what a job does in an iteration on a type, in so many servers (0 for one alone).
    other_engine
        Makes an engine by the name of its class, if it was another one that left a state.
    time_sliced
        Whether GPUs have several jobs: then a gang accounts for the time in which its GPUs compute,
        and else for all of the time that it has them.

    Attributes
    ----------
    engine
        That which lets them run.
    computed_s, sent
        GPU-seconds of tasks, and bytes, of the jobs that are done, shape (jobs,).
    """

    kept = ("_gangs", "_at_s", "_left", "_computed", "computed_s", "sent")

    def __init__(
        self,
        truth: TrueState,
        engine: Engine,
        links: LinkMap,
        iteration: Callable[[int, int, int], Iteration],
        *,
        other_engine: Callable[[str], Engine] | None = None,
        time_sliced: bool = False,
    ) -> None:
        self._truth, self.engine, self._links = truth, engine, links
        self._other_engine = other_engine
        self._at_s: float | None = None  # where the engine pauses
        self._iteration, self._time_sliced = iteration, time_sliced
        self._gangs: Gangs = NO_GANGS
        self._left: dict[int, int] = {}  # iterations of each job that is there
        self.computed_s = np.zeros(truth.jobs)
        self.sent = np.zeros(truth.jobs)
        self._computed: dict[int, float] = {}

    def apply(self, now_s: float, decision: Decision) -> None:
        """Let the gangs of a decision have their devices; count who starts and who is stopped.

        Raises
        ------
        InputError
            If two jobs are to share all of their GPUs as one gang, or have shares of time: these
            are of the fluid runtime.
        """
        gangs, truth = decision.gangs, self._truth
        if gangs.mate is not None or gangs.share is not None or decision.duty_cycle is not None:
            raise InputError(
                "Iterations run in rounds and queues, without space sharing: exact shares, pairs "
                "of jobs and leases are for mechanisms without iterations."
            )
        truth.preemptions[decision.stop] += 1
        new = set(gangs.job[decision.starts].tolist())
        stay = set(gangs.job.tolist()) - new
        for job in [job for job in self._left if job not in stay]:
            self._leave(job)
            self.engine.drop(job)
        ready_s = np.broadcast_to(now_s + np.asarray(decision.lost_s, dtype=float), gangs.job.shape)
        each = (gangs.job.tolist(), gangs.devices, gangs.option.tolist(), ready_s.tolist())
        for job, held, option, from_s in zip(*each, strict=True):
            if job not in new:
                continue
            truth.start_s[job] = np.fmin(truth.start_s[job], now_s)
            times = max(math.ceil(truth.remaining[job] - 1e-9), 1)
            gpus, links = self._links.of(held)
            turn = (0, job) if decision.turns is None else decision.turns[job]
            servers = sum(link < self._links.servers for link in links)
            work = self._iteration(job, option, servers)
            self.engine.add(job, work, times, gpus, links, turn, from_s)
            self._left[job], self._computed[job] = times, 0.0
        self._gangs = gangs

    def run(
        self, now_s: float, length_s: float, until_s: float, *, to_completion: bool
    ) -> tuple[float, GangProgress] | None:
        """Let gangs work for a while, see `apportion.sim.engine.loop.Runtime`."""
        gangs, arrival_s = self._gangs, self._truth.next_arrival_s
        stop_s = now_s + length_s
        if abs(stop_s - arrival_s) <= instant_s(now_s):  # sums of seconds may miss it
            stop_s = arrival_s
        end_s, finished = self.engine.run(
            now_s if self._at_s is None else self._at_s,
            stop_s,
            to_completion=to_completion,
            more_come=math.isfinite(arrival_s),
            pauses=True,
        )
        self._at_s = end_s if self.engine.paused else None
        if self._at_s is not None:
            return None
        if not gangs.job.size and (math.isinf(end_s) or math.isinf(until_s)):
            nothing = np.zeros(0)
            return math.inf, GangProgress(gangs, nothing, nothing, nothing, gangs.job, length_s)
        when_s = dict(sorted(finished))
        if not to_completion and finished and len(finished) == len(self._left):
            end_s = max(when_s.values())
        jobs = gangs.job.tolist()
        over_s = np.array([when_s.get(job, end_s) for job in jobs])
        stayed_s: Floats = over_s - now_s
        steps, computed_s = self._progress(jobs, when_s)
        held_s = computed_s / gangs.gpus if self._time_sliced else stayed_s
        self._truth.work(gangs.job, steps)
        self._truth.hold(gangs.job, gangs.option, stayed_s, held_s * gangs.gpus)
        done = np.array(list(when_s), dtype=np.intp)
        for job in when_s:
            self._leave(job)
        if done.size:
            self._truth.complete(done, np.array(list(when_s.values())))
        rate = np.divide(steps, held_s, out=np.zeros(len(jobs)), where=held_s > 0)
        return end_s, GangProgress(gangs, rate, held_s, held_s, done, end_s - now_s)

    def awaits(self, starts: NDArray[np.bool_]) -> bool:
        """Tell whether a gang that did not just start is on its way to the end of an iteration."""
        return not starts.all()

    def _progress(self, jobs: Sequence[int], when_s: dict[int, float]) -> tuple[Floats, Floats]:
        """Return the steps of each line since the last time, and its GPU-seconds of tasks."""
        steps, computed_s = np.zeros((2, len(jobs)))
        for line, job in enumerate(jobs):
            left = 0 if job in when_s else self.engine.left(job)
            steps[line] = min(self._left[job] - left, self._truth.remaining[job])
            so_far_s = self.engine.computed_s(job)
            computed_s[line] = so_far_s - self._computed[job]
            self._left[job], self._computed[job] = left, so_far_s
        return steps, computed_s

    def _leave(self, job: int) -> None:
        """Take down what a job has done in all, before it is forgotten."""
        self.computed_s[job] += self.engine.computed_s(job)
        self.sent[job] += self.engine.sent(job)
        del self._left[job], self._computed[job]

    def tables(self, jobs: pd.Index) -> dict[str, pd.DataFrame]:
        """Return what the engine has done."""
        counted = {"engine": [type(self.engine).__name__], "events": [self.engine.events]}
        return {"engine": pd.DataFrame(counted)}

    def state(self) -> dict[str, Any]:
        """Return who iterates and how far each is, for JSON."""
        return {"kind": type(self.engine).__name__, "engine": self.engine.state()} | super().state()

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`, with the engine that left it.

        Raises
        ------
        InputError
            If that one cannot go on here.
        """
        if state["kind"] != type(self.engine).__name__ and self._other_engine is not None:
            self.engine = self._other_engine(state["kind"])
        self.engine.restore(state["engine"])
        super().restore(state)
