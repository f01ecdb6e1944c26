"""Jobs that come one by one into a job table with room for them, and leases without a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError
from apportion.mechanism.deciders import get_scheduler
from apportion.mechanism.job_table import JobTable
from apportion.mechanism.offers import LeaseMechanism
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements.by_speed import by_tier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.cluster import Cluster
    from apportion.mechanism.offers import OfferScheduler


def table_with_room(jobs: int, types: int = 1) -> JobTable:
    """Return a table in which nobody has arrived yet."""
    each, options = (np.zeros(jobs) for _ in range(5)), np.zeros((jobs, types))
    arrival_s, total, remaining, isolated_s, _ = each
    return JobTable(
        job_type=[],
        arrival_s=arrival_s,
        scale=np.zeros(jobs, dtype=np.intp),
        total=total,
        remaining=remaining,
        speed=options,
        capacity=np.ones(types),
        prices=np.full(types, np.nan),
        facts={},
        texts={},
        accelerators=(),
        isolated_s=isolated_s,
        held_s=options.copy(),
    )


def add(
    told: JobTable, arrival_s: float, scale: int, total: float, speed: Sequence[float] = (1.0,)
) -> int:
    """Let a job of the type ``m`` arrive; return its number."""
    return _added(told, arrival_s, "m", scale, total, speed)


def _added(
    told: JobTable, arrival_s: float, name: str, scale: int, total: float, speed: Sequence[float]
) -> int:
    job = len(told.job_type)
    told.job_type = [*told.job_type, name]
    told.arrival_s[job], told.scale[job], told.speed[job] = arrival_s, scale, speed
    told.total[job] = told.remaining[job] = total
    told.active = np.append(told.active, job)
    return job


def leave(told: JobTable, job: int) -> None:
    """Let a job be done."""
    told.active = told.active[told.active != job]


class Alone(LeaseMechanism):
    """A lease mechanism with a job table of its own, on which only the tier counts."""

    def __init__(
        self,
        scheduler: OfferScheduler | str,
        cluster: Cluster,
        *,
        seed: int = 0,
        told: JobTable | None = None,
        room: int = 100,
    ) -> None:
        known = get_scheduler(scheduler)
        told = told or table_with_room(room, len(cluster.accelerators))
        placer = Placer(cluster, known.placement, seed, pace=by_tier)
        super().__init__(known, cluster, told, placer)

    def arrive(
        self,
        now_s: float,
        *,
        scale_factor: int,
        job_type: str,
        ideal_s: float,
        speed: Sequence[float] | None = None,
    ) -> int:
        """Let a job in; it waits."""
        told = self.jobs.told
        alike = [1.0] * told.speed.shape[1]
        relative = alike if speed is None else [each / max(speed) for each in speed]
        job = _added(told, now_s, job_type, scale_factor, ideal_s, relative)
        try:
            self.admit(job, now_s, job_type)
        except InputError:
            told.job_type = told.job_type[:-1]
            leave(told, job)
            raise
        return job

    def complete(self, job: int) -> None:
        """Let a job go that holds GPUs and is done."""
        super().complete(job)
        leave(self.jobs.told, job)
