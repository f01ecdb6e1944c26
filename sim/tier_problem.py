"""The problem of a policy over network tiers, in arrays: as `solve` poses it of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.cluster import TIERS
from apportion.policies import Instance
from apportion.policies.placements.tiers import gang_limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from apportion.cluster import Cluster

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["tier_problem"]


def tier_problem(
    speed: Floats, scale: Ints, cluster: Cluster, columns: Mapping[str, Floats]
) -> Instance:
    """Pose the problem of jobs whose options are the tiers of one accelerator type.

    A gang holds its GPUs, and its part of every limit on gangs that lie in machines and in racks
    (`apportion.policies.placements.tiers.pack_gangs`).

    Parameters
    ----------
    speed
        Steps/s of each job at each tier, 0 where its gang cannot lie, shape (jobs, tiers).
    scale
        GPUs of each gang, shape (jobs,).
    cluster
        Whole racks of one type.
    columns
        Columns of the jobs table, each of shape (jobs,).
    """
    gpus, tiers = scale.astype(float), len(TIERS)
    held = [np.repeat(gpus[:, None], tiers, axis=1)]
    capacity = [float(cluster.total_gpus)]
    lies = np.where(speed > 0, scale[:, None], 0)
    for inside, of_place in enumerate((cluster.gpus_per_machine, cluster.gpus_per_rack)):
        if of_place is not None:
            limits, _ = gang_limits(np.where(np.arange(tiers) <= inside, lies, 0), of_place)
            held += limits
            capacity += [cluster.total_gpus / of_place] * len(limits)
    usage = np.stack(held, axis=2).reshape(scale.size, -1)
    always = {"weight": np.ones(scale.size), "count": np.ones(scale.size), "scale_factor": gpus}
    return Instance(
        throughput=speed,
        member_row=np.arange(scale.size),
        member_job=np.arange(scale.size),
        usage=sparse.csr_array(usage),
        capacity=np.array(capacity),
        option_accelerator=np.zeros(tiers, dtype=np.intp),
        columns=always | dict(columns),
        prices=np.append(cluster.prices, np.zeros(len(capacity) - 1)),
        types=1,
    )
