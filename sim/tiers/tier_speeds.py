"""How fast jobs run at each tier of each type of racks, for policies that choose among tiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.cluster import TIERS
from apportion.mechanism.places import MACHINE, RACK
from apportion.sim.network import get_network
from apportion.sim.network.pace import placings_of

if TYPE_CHECKING:
    from apportion.cluster import Cluster
    from apportion.sim.network import NetworkModel
    from apportion.sim.workload import Workload
    from apportion.types import Floats


def tier_speeds(workload: Workload, cluster: Cluster, network: NetworkModel) -> Floats:
    """Steps/s of every job at each option, shape (jobs, options).

    Option ``type * 3 + tier`` is a tier of an accelerator type.

    Its throughput without exposed communication over 1 + overhead, on the fastest placement that
    the gang can have at the tier where everything is free; 0 where it can have none: it is too
    large, or cannot be spread, or run on the type. The lease mechanism chooses placements in the
    same way.

    Raises
    ------
    InputError
        If a job cannot run on the cluster, or the network model does not know its job type.
    """
    alone = workload.throughput_of(cluster).to_numpy(dtype=float)
    return at_tiers(alone, tier_slowdowns(workload, cluster, network))


def at_tiers(alone: Floats, slowdown: Floats) -> Floats:
    """Steps/s at each option, of jobs that make `alone` on each type without communication.

    Parameters
    ----------
    alone
        Shape (jobs, types).
    slowdown
        As `tier_slowdowns` returns it, shape (jobs, options).
    """
    speeds = alone[:, :, None] / slowdown.reshape(*alone.shape, len(TIERS))
    return np.asarray(speeds.reshape(slowdown.shape), dtype=np.float64)


def tier_slowdowns(workload: Workload, cluster: Cluster, network: NetworkModel) -> Floats:
    """Time of a step of every job at each option over its compute time, shape (jobs, options).

    On the fastest placement at the tier; infinite where the gang can have none.

    Raises
    ------
    InputError
        If the network model does not know a job type.
    """
    placings = placings_of(cluster, network)
    slowdowns = np.full((len(workload), len(placings), len(TIERS)), np.inf)
    job_types, gangs = workload.jobs["job_type"].tolist(), workload.jobs["scale_factor"].tolist()
    for job, (job_type, gpus) in enumerate(zip(job_types, gangs, strict=True)):
        for kind, tier in np.ndindex(len(placings), len(TIERS)):
            placing = placings[kind]
            placement = placing.best_alone(job_type, gpus, tier)
            if placement is not None:
                slowdowns[job, kind, tier] = placing.worth(job_type, placement)[0]
    return slowdowns.reshape(len(workload), -1)


def seen_slowdowns(
    workload: Workload,
    cluster: Cluster,
    network: NetworkModel | None,
    split_ratio: Floats | None,
) -> Floats | None:
    """Time of a step at each option over that on the type, or None if it is the same everywhere.

    Parameters
    ----------
    workload, cluster
        Jobs, and where they run.
    network
        A network model that slows gangs down, if one counts.
    split_ratio
        Speed of gangs in several machines relative to that in one, shape (jobs, types), if it is
        to count. A gang that runs in a machine and whose speed in several is told to be 0 can
        only lie in one.

    Returns
    -------
    ndarray or None
        Shape (jobs, options), as `tier_slowdowns`; infinite where a gang cannot lie.
    """
    if network is None and (split_ratio is None or workload.unconsolidated is None):
        return None
    free = tier_slowdowns(workload, cluster, get_network("none", cluster=cluster))
    slowdown = free.copy() if network is None else tier_slowdowns(workload, cluster, network)
    if split_ratio is not None and workload.unconsolidated is not None:
        by_type = slowdown.reshape(*split_ratio.shape, len(TIERS))
        keys = pd.MultiIndex.from_frame(workload.jobs[["job_type", "scale_factor"]])
        told = workload.unconsolidated.reindex(index=keys, columns=list(cluster.accelerators))
        never = np.isfinite(by_type[:, :, MACHINE]) & (told.to_numpy(dtype=float) == 0)
        by_type[:, :, RACK:] /= split_ratio[:, :, None]
        by_type[:, :, RACK:][never] = np.inf
    return None if np.array_equal(slowdown, free) else slowdown
