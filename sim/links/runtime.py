"""The runtime in which gangs go through iterations, see `apportion.sim.engine.loop.Runtime`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.errors import InputError
from apportion.mechanism.scheduler import NO_GANGS, Decision, GangProgress, Gangs
from apportion.sim.links.engine import instant_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from apportion.mechanism.devices import Held
    from apportion.mechanism.machines import Layout
    from apportion.sim.engine.true_state import TrueState
    from apportion.sim.links.engine import LinkEngine
    from apportion.sim.links.iteration import Iteration
    from apportion.types import Floats, Ints


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


class Iterating:
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

    def __init__(
        self,
        truth: TrueState,
        engine: LinkEngine,
        links: LinkMap,
        iteration: Callable[[int, int, int], Iteration],
        *,
        time_sliced: bool = False,
    ) -> None:
        self._truth, self.engine, self._links = truth, engine, links
        self._iteration, self._time_sliced = iteration, time_sliced
        self._gangs: Gangs = NO_GANGS
        self.computed_s, self.sent, self._computed = np.zeros((3, truth.jobs))
        self._left = np.zeros(truth.jobs)  # iterations of each job that is there

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
        goes = self._left > 0
        goes[gangs.job[~decision.starts]] = False
        gone = goes.nonzero()[0]
        if gone.size:
            self._leave(gone)
        for job in gone.tolist():
            self.engine.drop(job)
        lines = np.flatnonzero(decision.starts)
        new = gangs.job[lines]
        truth.start_s[new] = np.fmin(truth.start_s[new], now_s)
        # Iterations are whole; what is left was subtracted, and 2.000000001 are two.
        self._left[new] = np.maximum(np.ceil(truth.remaining[new] - 1e-9), 1)
        self._computed[new] = 0.0
        ready_s = np.broadcast_to(now_s + np.asarray(decision.lost_s, dtype=float), gangs.job.shape)
        each = new, self._left[new], gangs.option[lines], ready_s[lines], lines
        for job, times, option, from_s, line in zip(*(one.tolist() for one in each), strict=True):
            gpus, links = self._links.of(gangs.devices[line])
            turn = (0, job) if decision.turns is None else decision.turns[job]
            servers = sum(link < self._links.servers for link in links)
            work = self._iteration(job, option, servers)
            self.engine.add(job, work, int(times), gpus, links, turn, from_s)
        self._gangs = gangs

    def run(
        self, now_s: float, length_s: float, until_s: float, *, to_completion: bool
    ) -> tuple[float, GangProgress]:
        """Let gangs work for a while, see `apportion.sim.engine.loop.Runtime`."""
        gangs, arrival_s = self._gangs, self._truth.next_arrival_s
        stop_s = now_s + length_s
        if abs(stop_s - arrival_s) <= instant_s(now_s):  # sums of seconds may miss it
            stop_s = arrival_s
        end_s, finished = self.engine.run(
            now_s, stop_s, to_completion=to_completion, more_come=math.isfinite(arrival_s)
        )
        if not gangs.job.size and (math.isinf(end_s) or math.isinf(until_s)):
            nothing = np.zeros(0)
            return math.inf, GangProgress(gangs, nothing, nothing, nothing, gangs.job, length_s)
        done = np.array([job for job, _ in finished], dtype=np.intp)
        done_s = np.array([when_s for _, when_s in finished], dtype=float)
        order = done.argsort()
        done, done_s = done[order], done_s[order]
        if not to_completion and done.size and done.size == np.count_nonzero(self._left):
            end_s = float(done_s.max())
        over_s = np.full(self._left.size, end_s)
        over_s[done] = done_s
        stayed_s: Floats = over_s[gangs.job] - now_s
        steps, computed_s = self._progress(gangs.job, done)
        held_s = computed_s / gangs.gpus if self._time_sliced else stayed_s
        self._truth.work(gangs.job, steps)
        self._truth.hold(gangs.job, gangs.option, stayed_s, held_s * gangs.gpus)
        if done.size:
            self._leave(done)
            self._truth.complete(done, done_s)
        rate = np.divide(steps, held_s, out=np.zeros(steps.size), where=held_s > 0)
        return end_s, GangProgress(gangs, rate, held_s, held_s, done, end_s - now_s)

    def awaits(self, starts: NDArray[np.bool_]) -> bool:
        """Tell whether a gang that did not just start is on its way to the end of an iteration."""
        return not starts.all()

    def _progress(self, jobs: Ints, done: Ints) -> tuple[Floats, Floats]:
        """Return the steps of each line since the last time, and its GPU-seconds of tasks."""
        so_far, before = self.engine.so_far(jobs), self._left[jobs]
        self._left[jobs] = so_far.left
        self._left[done] = 0
        steps = np.minimum(before - self._left[jobs], self._truth.remaining[jobs])
        computed_s = so_far.computed_s - self._computed[jobs]
        self._computed[jobs] = so_far.computed_s
        return steps, computed_s

    def _leave(self, jobs: Ints) -> None:
        """Take down what jobs have done in all, before they are forgotten."""
        so_far = self.engine.so_far(jobs)
        self.computed_s[jobs] += so_far.computed_s
        self.sent[jobs] += so_far.sent
        self._left[jobs] = 0

    def tables(self, jobs: pd.Index) -> dict[str, pd.DataFrame]:
        """Return what the engine has done."""
        counted = {"engine": [type(self.engine).__name__], "events": [self.engine.events]}
        return {"engine": pd.DataFrame(counted)}
