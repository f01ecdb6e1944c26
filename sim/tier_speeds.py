"""How fast jobs run at each tier of a cluster of racks, for policies that choose among tiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.cluster import TIERS
from apportion.sim.network import canonical_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.sim.network import NetworkModel, Shape
    from apportion.sim.workload import Workload

__all__ = ["natural_shape", "tier_speeds"]


def natural_shape(gpus: int, tier: int, cluster: Cluster) -> Shape | None:
    """Return how a gang lies at a tier if it has its way: few machines and racks, evenly filled.

    Parameters
    ----------
    gpus
        GPUs of the gang.
    tier
        Position in `apportion.cluster.TIERS`.
    cluster
        Whole racks of one accelerator type.

    Returns
    -------
    Shape or None
        None if no gang of that size lies at the tier: it is too large for it, or cannot be spread.
    """
    racks = cluster.racks(cluster.accelerators[0])
    per_machine, per_rack = cluster.gpus_per_machine, int(racks[0].sum())
    if tier == 0:
        return ((gpus,),) if gpus <= per_machine else None
    if tier == 1:
        machines = max(2, -(-gpus // per_machine))
        fits = gpus <= per_rack and 2 <= machines <= min(gpus, len(racks[0]))
        return canonical_shape([_evenly(gpus, machines)]) if fits else None
    count = max(2, -(-gpus // per_rack))
    if not 2 <= count <= min(gpus, len(racks)):
        return None
    return canonical_shape(_evenly(part, -(-part // per_machine)) for part in _evenly(gpus, count))


def tier_speeds(workload: Workload, cluster: Cluster, network: NetworkModel) -> NDArray[np.float64]:
    """Steps/s of every job at each tier, at its natural shape, shape (jobs, tiers).

    Its throughput without exposed communication over 1 + overhead; 0 where it cannot be.

    Raises
    ------
    InputError
        If a job cannot run on the cluster, or the network model does not know its job type.
    """
    alone = workload.throughput_of(cluster).to_numpy(dtype=float)[:, 0]
    speeds = np.zeros((len(workload), len(TIERS)))
    job_types, gangs = workload.jobs["job_type"].tolist(), workload.jobs["scale_factor"].tolist()
    for job, (job_type, gpus) in enumerate(zip(job_types, gangs, strict=True)):
        for tier in range(len(TIERS)):
            shape = natural_shape(gpus, tier, cluster)
            if shape is not None:
                speeds[job, tier] = alone[job] / (1 + network.overhead(job_type, shape))
    return speeds


def _evenly(gpus: int, parts: int) -> list[int]:
    """Divide GPUs into parts that differ by one at most."""
    whole, rest = divmod(gpus, parts)
    return [whole + (part < rest) for part in range(parts)]
