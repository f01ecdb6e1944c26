"""Elastic jobs as a workload whose steps are progress, for books and tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from apportion.cluster import Cluster
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload

__all__ = ["as_progress"]


def as_progress(workload: ElasticWorkload, cluster: Cluster) -> Workload:
    """Return jobs whose steps are progress, in steps of their initial batch.

    Their gangs and speeds are those that their users set, as far as the largest type goes: what
    finish-time fairness compares with is the rigid job in an isolated 1/n share.
    """
    most = max(cluster.gpus.values())
    machine = max(int(cluster.machines(name).max(initial=1)) for name in cluster.accelerators)
    jobs = workload.jobs.assign(gpus=np.minimum(workload.jobs["gpus"], most))
    rigid = replace(workload, jobs=jobs).rigid(cluster.accelerators, machine)
    progress = np.array(
        [float(workload.applications[name].training.progress[-1]) for name in jobs["application"]]
    )
    keys = list(zip(rigid.jobs["job_type"], rigid.jobs["scale_factor"], strict=True))
    gain = dict(zip(keys, progress / rigid.jobs["total_steps"].to_numpy(), strict=True))
    own = rigid.throughputs
    throughputs = own.mul([gain[key] for key in own.index], axis=0)
    table = rigid.jobs.assign(total_steps=progress)
    note = "steps are progress: those of the initial batch that get a job as far"
    return replace(rigid, jobs=table, throughputs=throughputs, notes=(note,))
