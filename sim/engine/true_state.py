"""What is true of the jobs of a simulation, and what they have done and cost, in arrays."""

from __future__ import annotations

from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from apportion.jobs import JOB_COLUMNS, places_of_texts
from apportion.mechanism.job_table import JobTable, read_only
from apportion.mechanism.repetition import add_repeatedly
from apportion.mechanism.scheduler import NOBODY
from apportion.policies import isolated_share
from apportion.sim.sharing import PairSpeeds

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import pandas as pd

    from apportion.cluster import Cluster
    from apportion.sim.workload import Workload
    from apportion.types import Bools, Floats, Ints


# Steps that are left when a job is as good as complete, as a share of its time to run.
ROUNDING = 1e-9


class TrueState:
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
    tick_s
        Arrivals are heard of at multiples of it, seconds; at 0, at once.

    Raises
    ------
    InputError
        If a job can run nowhere on the cluster; the job is named.

    Notes
    -----
    ``told`` is the part of it that schedulers see, ``ids`` are the names of the jobs. Arrays of
    shape (jobs,): ``scale`` (GPUs), ``arrival_s``, ``start_s``, ``completion_s``, ``total`` and
    ``remaining`` (steps), ``isolated_s``, ``preemptions``; of shape (jobs, types): ``speed``
    (steps/s, 0 = cannot run), ``held_s`` (seconds on each type) and ``gpu_s`` (GPU-seconds that it
    accounts for; two jobs that share devices halve them). ``alone_slowdown`` (jobs,) is the time of
    a step of a gang that is alone on the cluster, communication included, over its compute time: 1
    unless a network counts. ``beside`` holds what jobs make beside each other, if that is known,
    and ``split_ratio`` (jobs, types) the speed of gangs that are split over machines relative to
    ``speed``, if it is to count. Gangs that no machine holds are always split: their ``speed`` is
    the one that they have then.
    """

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        *,
        placement_sensitive: bool = False,
        tick_s: float = 0.0,
    ) -> None:
        table = workload.jobs
        self.ids: list[Hashable] = table.index.tolist()
        self.capacity = cluster.counts.astype(float)
        self.prices = cluster.prices
        self.scale = table["scale_factor"].to_numpy(dtype=np.intp)
        self.speed = workload.throughput_of(cluster).to_numpy(dtype=float)
        self.arrival_s = table["arrival_s"].to_numpy(dtype=float)
        self.total = table["total_steps"].to_numpy(dtype=float)
        steps = table["steps_remaining"] if "steps_remaining" in table else table["total_steps"]
        self.remaining = steps.to_numpy(dtype=float).copy()
        self._beside: Callable[[], PairSpeeds | None] = partial(PairSpeeds.of, workload, cluster)
        self.split_ratio: Floats | None = None
        if placement_sensitive:
            self._slow_down_large_gangs(workload.split_ratio(cluster), cluster)
        self.alone_slowdown = np.ones(len(table))
        self.start_s, self.completion_s = np.full((2, len(table)), np.nan)
        self.isolated_s, self._isolated_rate = np.zeros((2, len(table)))
        self.preemptions = np.zeros(len(table), dtype=np.int64)
        self.held_s, self.gpu_s = np.zeros((2, *self.speed.shape))
        self._cells = self.held_s.reshape(-1), self.gpu_s.reshape(-1)  # the same, one by one
        self._arrived = 0
        self._heard_s = np.ceil(self.arrival_s / tick_s) * tick_s if tick_s else self.arrival_s
        self._times_heard: list[float] = [*self._heard_s.tolist(), np.inf]
        facts, texts = _facts(table)
        self.told = JobTable(
            table["job_type"].tolist(),
            read_only(self.arrival_s),
            read_only(self.scale),
            read_only(self.total),
            read_only(self.remaining),
            read_only(self.speed),
            read_only(self.capacity),
            read_only(self.prices),
            {name: read_only(values) for name, values in facts.items()},
            texts,
            cluster.accelerators,
            read_only(self.isolated_s),
            read_only(self.held_s),
            ids=self.ids,
        )
        self._are_here(self.told.active)
        # Shares of equal gangs are equal, and found once for all jobs that come or go together.
        sizes, self._size_of = np.unique(self.scale, return_inverse=True)
        self._share = cache(partial(isolated_share, self.capacity, sizes.astype(float)))
        self._divided = False

    def _slow_down_large_gangs(self, ratio: Floats, cluster: Cluster) -> None:
        """Take the speed when split for the speed of gangs that are larger than any machine."""
        machine = [cluster.machines(name).max(initial=0) for name in cluster.accelerators]
        always = self.scale[:, None] > np.array(machine)
        factor = np.where(always, ratio, 1.0)
        self.speed, beside = self.speed * factor, self._beside
        self._beside = lambda: (pairs := beside()) and pairs.slowed_down(factor)
        self.split_ratio = np.where(always, 1.0, ratio)

    @cached_property
    def beside(self) -> PairSpeeds | None:
        """What jobs make beside each other, if that is known; looked up where it matters."""
        return self._beside()

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return self.arrival_s.size

    @property
    def done(self) -> int:
        """Number of completed jobs."""
        return self._arrived - self.active.size

    @property
    def left(self) -> int:
        """Number of jobs that are not complete, those to come included."""
        return self.arrival_s.size - self._arrived + self.active.size

    @property
    def idle(self) -> bool:
        """Whether no job is there."""
        return not self.active.size

    @property
    def next_arrival_s(self) -> float:
        """When the next job is heard of, seconds; infinite after the last."""
        return self._times_heard[self._arrived]

    @property
    def more_come(self) -> bool:
        """Whether jobs are to arrive."""
        return self._arrived < self.jobs

    @property
    def fraction_done(self) -> float:
        """Mean over the jobs of the share of their steps that is done."""
        left = (self.remaining[self.active] / self.total[self.active]).sum()
        return (self._arrived - float(left)) / self.jobs

    def _are_here(self, active: Ints) -> None:
        """Say who is in the cluster, to schedulers as well, who must not write it."""
        active.flags.writeable = False
        self.active = self.told.active = active

    def admit(self, now_s: float) -> Ints:
        """Move the jobs that have arrived into the cluster and return them."""
        if now_s < self.next_arrival_s:
            return NOBODY
        until = int(self._heard_s.searchsorted(now_s, side="right"))
        arrived = np.arange(self._arrived, until)
        self._arrived = until
        self._are_here(np.concatenate([self.active, arrived]))
        self._divided = False
        return arrived

    def begin(self, remaining: Floats, isolated_s: Floats, held_s: Floats) -> None:
        """Begin in the middle: all jobs are there, with so much left and had."""
        self.remaining[:], self.isolated_s[:], self.held_s[:] = remaining, isolated_s, held_s
        self._arrived = self.jobs
        self._are_here(np.arange(self.jobs))

    def work(self, jobs: Ints, steps: Floats, *, times: int = 1) -> None:
        """Book steps done; `isolated_s` grows by the time they take in an isolated 1/n share.

        With `times`, the same steps in so many rounds.

        Gavel accounts for finish-time fairness in this way (Narayanan et al., OSDI 2020,
        section 4.2), n being the number of active jobs at the time.
        """
        alone_s = steps / self._rate_alone()[jobs]
        if times == 1:
            self.remaining[jobs] -= steps
            self.isolated_s[jobs] += alone_s
            return
        self.remaining[jobs] = add_repeatedly(self.remaining[jobs], -steps, times)
        self.isolated_s[jobs] = add_repeatedly(self.isolated_s[jobs], alone_s, times)

    def hold(
        self,
        jobs: Ints,
        types: Ints,
        seconds: Floats | float,
        gpu_seconds: Floats,
        *,
        times: int = 1,
    ) -> None:
        """Book the time and the GPU-seconds of jobs on their types, in so many equal rounds."""
        cells = jobs if self.capacity.size == 1 else jobs * self.capacity.size + types
        held, used = self._cells
        if times == 1:
            held[cells] += seconds
            used[cells] += gpu_seconds
            return
        held[cells] = add_repeatedly(held[cells], seconds, times)
        used[cells] = add_repeatedly(used[cells], gpu_seconds, times)

    def complete(self, jobs: Ints, when_s: Floats) -> Bools:
        """Take completed jobs out of the cluster; return which active jobs stay."""
        self.isolated_s[jobs] += self.remaining[jobs] / self._rate_alone()[jobs]
        self.remaining[jobs] = 0.0
        self.completion_s[jobs] = when_s
        stay = self.remaining[self.active] > 0
        self._are_here(self.active[stay])
        self._divided = False
        return stay

    def _rate_alone(self) -> Floats:
        """Steps/s of the active jobs in an isolated 1/n share, shape (jobs,)."""
        if not self._divided:
            own = self._share(self.active.size)[self._size_of[self.active]]
            rate = np.add.reduce(own * self.speed[self.active], axis=1)
            self._isolated_rate[self.active] = rate / self.alone_slowdown[self.active]
            self._divided = True
        return self._isolated_rate


_TOLD = frozenset(
    {"weight", "deadline_s", "entity", "entity_used_s", "time_limit_s", "start_included"}
)
"""Columns of `JOB_COLUMNS` that schedulers are told as they stand in the workload."""


def _facts(table: pd.DataFrame) -> tuple[dict[str, Floats], dict[str, tuple[str, ...]]]:
    """Return what policies may ask of the jobs besides, and what columns of texts say."""
    facts = {"weight": np.ones(len(table)), "deadline_s": np.full(len(table), np.nan)}
    texts: dict[str, tuple[str, ...]] = {}
    for name, values in table.items():
        if name in JOB_COLUMNS and name not in _TOLD:
            continue
        if values.dtype.kind in "biuf":
            facts[str(name)] = values.to_numpy(dtype=float)
        else:
            facts[str(name)], texts[str(name)] = places_of_texts(values)
    return facts, texts
