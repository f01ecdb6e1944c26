"""The jobs of a floor: groups of equal jobs, and the time cut into intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from apportion.cluster import Cluster
    from apportion.sim.workload import Workload
    from apportion.types import Floats


@dataclass(frozen=True, eq=False)
class JobGroups:
    """Groups of equal jobs in an order of their own, which rows and labels do not change.

    Attributes
    ----------
    arrival_s, steps, gang, weight, count
        When its jobs arrive, seconds after the first of all, their steps still to do, GPUs, the
        weight of each, and how many jobs there are; shape (groups,).
    speed
        Steps/s of a gang, 0 where it cannot run; shape (groups, types).
    alone
        The same as time in an isolated share is counted, which knows no gang that is faster when
        it is split.
    gpus
        Shape (types,).
    """

    arrival_s: Floats
    steps: Floats
    gang: Floats
    weight: Floats
    count: Floats
    speed: Floats
    alone: Floats
    gpus: Floats

    @classmethod
    def of(cls, workload: Workload, cluster: Cluster) -> JobGroups:
        """Put equal jobs together; a gang that is faster when split counts as fast as that."""
        speed = alone = workload.throughput_of(cluster).to_numpy(dtype=float)
        if workload.unconsolidated is not None:
            speed = speed * np.maximum(workload.split_ratio(cluster), 1.0)
        jobs = workload.jobs
        steps = "steps_remaining" if "steps_remaining" in jobs else "total_steps"
        facts = jobs[["arrival_s", steps, "scale_factor", "weight"]].to_numpy(dtype=float)
        facts[:, 0] -= facts[:, 0].min()  # or late jobs would be lost in rounding
        rows, count = np.unique(np.column_stack([facts, speed, alone]), axis=0, return_counts=True)
        arrival_s, left, gang, weight = rows[:, :4].T
        speed, alone = np.split(rows[:, 4:], 2, axis=1)
        gpus = cluster.counts.astype(float)
        return cls(arrival_s, left, gang, weight, count.astype(float), speed, alone, gpus)

    @property
    def progress(self) -> Floats:
        """Part of the work that a second on each type does, shape (groups, types)."""
        return np.asarray(self.speed / self.steps[:, None], dtype=float)

    @property
    def least_s(self) -> Floats:
        """Seconds that the work takes on the fastest type, shape (groups,)."""
        return np.asarray(self.steps / self.speed.max(axis=1), dtype=float)


def coarse_cuts(first_s: float, last_s: float, end_s: float) -> Floats:
    """Cut the time evenly while jobs arrive, then geometrically; the last interval has no end.

    Parameters
    ----------
    first_s, last_s
        The first and the last arrival.
    end_s
        Where the last interval begins, > `last_s`.
    """
    after = last_s + (end_s - last_s) * np.geomspace(1 / 64, 1, 6)
    return np.unique(np.concatenate([np.linspace(first_s, last_s, 7), after]))


def halved(cuts: Floats) -> Floats:
    """Cut each interval in two."""
    return np.unique(np.concatenate([cuts, (cuts[:-1] + cuts[1:]) / 2]))


def rooms(jobs: JobGroups, cuts: Floats) -> tuple[Floats, Floats]:
    """Return when a job can begin in each interval, and for how long it can run there.

    Returns
    -------
    tuple of ndarray
        Seconds after its arrival, shape (groups, intervals + 1), the last interval without end
        included; and seconds, shape (groups, intervals).
    """
    begin_s = np.maximum(cuts[None, :], jobs.arrival_s[:, None])
    room_s = np.clip(cuts[None, 1:] - begin_s[:, :-1], 0.0, None)
    return begin_s - jobs.arrival_s[:, None], room_s
