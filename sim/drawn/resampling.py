"""Bootstrap: workloads that are like one that is known, to see how much of a result is chance."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, overload

from apportion.annotations import checked
from apportion.jobs import RECORDED_TIMES
from apportion.sim.drawn.draws import streams

if TYPE_CHECKING:
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload

__all__ = ["resample"]


@overload
def resample(workload: Workload, seed: int) -> Workload: ...


@overload
def resample(workload: ElasticWorkload, seed: int) -> ElasticWorkload: ...


@checked
def resample(workload: Workload | ElasticWorkload, seed: int) -> Workload | ElasticWorkload:
    """Draw as many jobs as a workload has out of its jobs, with replacement.

    Arrival times stay as they are, and whose they are is drawn. The ids of the jobs drawn are
    ``<id>-1``, ``<id>-2`` and so on for the copies of a job.

    Parameters
    ----------
    workload
        Where the jobs come from; its throughputs, or applications, are kept.
    seed
        Same seed, same jobs.

    Raises
    ------
    InputError
        If the seed is not a whole number >= 0.

    Notes
    -----
    Source: Efron, Bootstrap methods: another look at the jackknife (Annals of Statistics, 1979).
    """
    jobs = workload.jobs.drop(columns=[*RECORDED_TIMES], errors="ignore")  # of other arrivals
    rng = streams(["jobs"], seed)["jobs"]
    drawn = jobs.iloc[rng.integers(len(jobs), size=len(jobs))]
    copies: Counter[object] = Counter()
    names = []
    for job in drawn.index.tolist():
        copies[job] += 1
        names.append(f"{job}-{copies[job]}")
    table = drawn.set_axis(names, axis=0).assign(arrival_s=jobs["arrival_s"].to_numpy())
    note = f"jobs resampled with replacement, seed {seed}"
    return replace(
        workload,
        name=f"{workload.name}-resampled-{seed}",
        jobs=table,
        notes=(*workload.notes, note),
    )
