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
    speed: Floats,
    scale: Ints,
    cluster: Cluster,
    columns: Mapping[str, Floats],
    entities: tuple[str, ...] = (),
) -> Instance:
    """Pose the problem of jobs whose options are the tiers of accelerator types.

    Option ``type * 3 + tier`` is a tier of a type. A gang holds its GPUs, and its part of every
    limit on gangs that lie in machines and in racks
    (`apportion.policies.placements.tiers.pack_gangs`).

    Parameters
    ----------
    speed
        Steps/s of each job at each option, 0 where its gang cannot lie, shape (jobs, options).
    scale
        GPUs of each gang, shape (jobs,).
    cluster
        Whole racks, each of one type.
    columns
        Columns of the jobs table, each of shape (jobs,).
    entities
        Names of the entities, if ``columns`` has their places.
    """
    gpus, types = scale.astype(float), len(cluster.accelerators)
    kind, tier = np.divmod(np.arange(speed.shape[1]), len(TIERS))
    held = [gpus[:, None] * (kind == own) for own in range(types)]
    capacity = [float(count) for count in cluster.counts]
    lies = np.where(speed > 0, scale[:, None], 0)
    for own, inside in np.ndindex(types, 2):
        of_place = (cluster.gpus_per_machine, cluster.gpus_per_rack)[inside]
        if of_place is not None:
            here = (kind == own) & (tier <= inside)
            limits, _ = gang_limits(np.where(here, lies, 0), of_place)
            held += limits
            capacity += [capacity[own] / of_place] * len(limits)
    usage = np.stack(held, axis=2).reshape(scale.size, -1)
    always = {"weight": np.ones(scale.size), "count": np.ones(scale.size), "scale_factor": gpus}
    return Instance(
        throughput=speed,
        member_row=np.arange(scale.size),
        member_job=np.arange(scale.size),
        usage=sparse.csr_array(usage),
        capacity=np.array(capacity),
        option_accelerator=kind,
        columns=always | dict(columns),
        prices=np.append(cluster.prices, np.zeros(len(capacity) - types)),
        types=types,
        entities=entities,
    )
