"""The books of a simulation: what every job needs, has done and has cost, in arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.mechanism.repetition import add_repeatedly
from apportion.policies import isolated_share
from apportion.sim.sharing import PairSpeeds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.pairs import PairThroughputs
    from apportion.sim.workload import Workload

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

__all__ = ["Ledger"]

# Steps that are left when a job is as good as complete, as a share of its time to run.
ROUNDING = 1e-9


class Ledger:
    """Entries per job in order of submission, and ``active``: the jobs that are in the cluster.

    Only entries of active jobs are touched between arrivals, so finished jobs cost nothing.

    Parameters
    ----------
    workload
        Jobs and their throughputs.
    cluster
        Where they run.
    placement_sensitive
        Whether gangs that are split over machines run at another speed.
    estimates, learns
        What the policy is told of pairs instead of the truth, and whether it learns.

    Raises
    ------
    InputError
        If a job can run nowhere on the cluster; the job is named.

    Notes
    -----
    ``entities`` are the names of the entities. Arrays of shape (jobs,): ``scale`` (GPUs),
    ``arrival_s``, ``start_s``, ``completion_s``, ``total`` and ``remaining`` (steps),
    ``isolated_s``, ``preemptions``; of shape (jobs, types): ``speed`` (steps/s, 0 = cannot run),
    ``held_s`` (seconds on each type) and ``gpu_s`` (GPU-seconds that it accounts for; two jobs
    that share devices halve them). ``alone_slowdown`` (jobs,) is the time of a step of a gang that
    is alone on the cluster, communication included, over its compute time: 1 unless a network
    counts. ``beside`` holds what jobs make beside each other, if that is known, and ``split_ratio``
    (jobs, types) the speed of gangs that are split over machines relative to ``speed``, if it is
    to count. Gangs that no machine holds are always split: their ``speed`` is the one that they
    have then.
    """

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        *,
        placement_sensitive: bool = False,
        estimates: PairThroughputs | None = None,
        learns: bool = False,
    ) -> None:
        table = workload.jobs
        self.capacity = cluster.counts.astype(float)
        self.prices = cluster.prices
        self.scale = table["scale_factor"].to_numpy(dtype=np.intp)
        self.speed = workload.throughput_of(cluster).to_numpy(dtype=float)
        self.arrival_s = table["arrival_s"].to_numpy(dtype=float)
        self.total = table["total_steps"].to_numpy(dtype=float)
        steps = table["steps_remaining"] if "steps_remaining" in table else table["total_steps"]
        self.remaining = steps.to_numpy(dtype=float).copy()
        self.beside = PairSpeeds.of(workload, cluster, estimates, learns)
        self.split_ratio: Floats | None = None
        if placement_sensitive:
            self._slow_down_large_gangs(workload.split_ratio(cluster), cluster)
        self._to_do, self._fastest = self.remaining.copy(), self.speed.max(axis=1)
        self.alone_slowdown = np.ones(len(table))
        optional = {"weight": 1.0, "deadline_s": np.nan}
        self._columns = {
            name: table[name].to_numpy(dtype=float) if name in table else np.full(len(table), other)
            for name, other in optional.items()
        }
        self.entities: tuple[str, ...] = ()
        if "entity" in table:
            code, names = pd.factorize(table["entity"], sort=True)
            self._columns["entity"] = code.astype(float)
            self.entities = tuple(map(str, names))
        self.start_s, self.completion_s = np.full((2, len(table)), np.nan)
        self.isolated_s, self._isolated_rate = np.zeros((2, len(table)))
        self.preemptions = np.zeros(len(table), dtype=np.int64)
        self.held_s, self.gpu_s = np.zeros((2, *self.speed.shape))
        self.active = np.empty(0, dtype=np.intp)
        self._arrived = 0
        # Shares of equal gangs are equal, and found once for all jobs that come or go together.
        sizes, self._size_of = np.unique(self.scale, return_inverse=True)
        self._sizes, self._divided = sizes.astype(float), False

    def _slow_down_large_gangs(self, ratio: Floats, cluster: Cluster) -> None:
        """Take the speed when split for the speed of gangs that are larger than any machine."""
        machine = [cluster.machines(name).max(initial=0) for name in cluster.accelerators]
        always = self.scale[:, None] > np.array(machine)
        factor = np.where(always, ratio, 1.0)
        self.speed = self.speed * factor
        if self.beside is not None:
            self.beside = self.beside.slowed_down(factor)
        self.split_ratio = np.where(always, 1.0, ratio)

    @property
    def weight(self) -> Floats:
        """Priority weight of each job, shape (jobs,)."""
        return self._columns["weight"]

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return self.arrival_s.size

    @property
    def done(self) -> int:
        """Number of completed jobs."""
        return self._arrived - self.active.size

    @property
    def next_arrival_s(self) -> float:
        """When the next job arrives, seconds; infinite after the last."""
        return float(self.arrival_s[self._arrived]) if self._arrived < self.jobs else np.inf

    @property
    def fraction_done(self) -> float:
        """Mean over the jobs of the share of their steps that is done."""
        left = (self.remaining[self.active] / self.total[self.active]).sum()
        return (self._arrived - float(left)) / self.jobs

    def admit(self, now_s: float) -> Ints:
        """Move the jobs that have arrived into the cluster and return them."""
        if now_s < self.next_arrival_s:
            return np.empty(0, dtype=np.intp)
        until = int(np.searchsorted(self.arrival_s, now_s, side="right"))
        arrived = np.arange(self._arrived, until)
        self._arrived = until
        self.active = np.concatenate([self.active, arrived])
        self._divided = False
        return arrived

    def work(self, jobs: Ints, steps: Floats, *, times: int = 1) -> None:
        """Book steps done; `isolated_s` grows by the time they take in an isolated 1/n share.

        With `times`, the same steps in so many rounds.

        Gavel accounts for finish-time fairness in this way (Narayanan et al., OSDI 2020,
        section 4.2), n being the number of active jobs at the time.
        """
        self.remaining[jobs] = add_repeatedly(self.remaining[jobs], -steps, times)
        alone_s = steps / self._rate_alone()[jobs]
        self.isolated_s[jobs] = add_repeatedly(self.isolated_s[jobs], alone_s, times)

    def hold(
        self, jobs: Ints, types: Ints, seconds: Floats, gpu_seconds: Floats, *, times: int = 1
    ) -> None:
        """Book the time and the GPU-seconds of jobs on their types, in so many equal rounds."""
        cells = jobs * self.capacity.size + types
        held, used = self.held_s.reshape(-1), self.gpu_s.reshape(-1)
        held[cells] = add_repeatedly(held[cells], seconds, times)
        used[cells] = add_repeatedly(used[cells], gpu_seconds, times)

    def complete(self, jobs: Ints, when_s: Floats) -> Bools:
        """Take completed jobs out of the cluster; return which active jobs stay."""
        self.isolated_s[jobs] += self.remaining[jobs] / self._rate_alone()[jobs]
        self.remaining[jobs] = 0.0
        self.completion_s[jobs] = when_s
        stay = self.remaining[self.active] > 0
        self.active = self.active[stay]
        self._divided = False
        return stay

    def columns(self, now_s: float) -> dict[str, Floats]:
        """Return the columns of the jobs table that policies may ask for, active jobs only."""
        now = {
            "arrival_s": self.arrival_s,
            "steps_remaining": self.remaining,
            "total_steps": self.total,
            "isolated_elapsed_s": self.isolated_s,
        }
        columns = {name: values[self.active] for name, values in (self._columns | now).items()}
        columns["elapsed_s"] = now_s - columns["arrival_s"]
        columns["order"] = self.active.astype(float)
        columns["network_priority"] = self._network_priority()
        return columns

    def _network_priority(self) -> Floats:
        """Seconds that the steps done take on the fastest type, over the seconds they took.

        0 for an active job that never ran (Dally, its priority of jobs). Rounds know no network:
        all that made a job slower than it can be counts as delay.
        """
        jobs = self.active
        held_s = self.held_s[jobs].sum(axis=1)
        least_s = (self._to_do[jobs] - self.remaining[jobs]) / self._fastest[jobs]
        priority = np.zeros(jobs.size)
        np.divide(least_s, held_s, out=priority, where=held_s > 0)
        return priority

    def _rate_alone(self) -> Floats:
        """Steps/s of the active jobs in an isolated 1/n share, shape (jobs,)."""
        if not self._divided:
            share = isolated_share(self.capacity, self._sizes, self.active.size)
            own = share[self._size_of[self.active]]
            rate = (own * self.speed[self.active]).sum(axis=1)
            self._isolated_rate[self.active] = rate / self.alone_slowdown[self.active]
            self._divided = True
        return self._isolated_rate
