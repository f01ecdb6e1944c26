"""A network model as the lease mechanism asks it: how slow a model is on a placement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.devices import Devices
from apportion.mechanism.placements.by_speed import Placing
from apportion.mechanism.placements.registry import ON_LINKS, PLACEMENTS
from apportion.sim.network.model import MemoizedNetwork
from apportion.sim.network.shapes import shape_of_placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.cluster import Cluster
    from apportion.mechanism.offers import Placement
    from apportion.mechanism.placements.by_speed import Pace
    from apportion.sim.network.model import NetworkModel
    from apportion.sim.network.shapes import Shape
    from apportion.sim.workload import Workload
    from apportion.types import Floats


def pace_of(network: NetworkModel) -> Pace:
    """Return what tells the time of a step on a placement over its compute time.

    Of a network that knows the links of gangs, also these (`GangLinks`).
    """
    links = getattr(network, "gang_links", None)
    if links is not None:
        return links  # type: ignore[no-any-return]

    def slowdown(model: str, placement: Placement) -> float:
        return 1 + network.overhead(model, shape_of_placement(placement))

    return slowdown


def placings_of(cluster: Cluster, network: NetworkModel) -> list[Placing]:
    """Return what chooses placements on a cluster, by accelerator type."""
    return [Placing(pool.gpus, pace_of(network)) for pool in Devices.of(cluster).pools]


def least_slowdowns(workload: Workload, placings: Sequence[Placing]) -> Floats:
    """Time of a step of gangs that are alone on a cluster, over its compute time, shape (jobs,).

    Where a gang can be on several types, on that on which it is slowed least.
    """
    jobs = workload.jobs
    gangs = list(zip(jobs["job_type"].tolist(), jobs["scale_factor"].tolist(), strict=True))
    least = {
        gang: min(min(each.slowdowns(*gang)) for each in placings) for gang in dict.fromkeys(gangs)
    }
    return np.array([least[gang] for gang in gangs])


def network_beside(placement: Any, network: MemoizedNetwork | None) -> MemoizedNetwork | None:
    """Return the network as it is beside a placement that compares the links of gangs.

    Raises
    ------
    InputError
        If the network knows of no links; it names those that do.
    """
    name = PLACEMENTS.name_of(placement)
    strategy = ON_LINKS.get(name)
    if strategy is None:
        return network
    if network is None or not hasattr(network.model, "gang_links"):
        raise InputError(
            f"The placement {name!r} compares the links of gangs; it needs a network that "
            "knows them: 'cassini', 'phases', these with '_unshifted', or a CassiniNetwork."
        )
    with_loops = getattr(network.model, "with_loops", None)
    if with_loops is None or not strategy.network_loops:
        return network
    model = with_loops(strategy.network_loops)
    return network if model is network.model else MemoizedNetwork(model, network.cluster)


def check_models(network: NetworkModel, workload: Workload, cluster: Cluster) -> None:
    """Ask the network for every model that is trained on several GPUs before anything runs.

    Raises
    ------
    InputError
        If it knows nothing of some; of a network of the package, with networks that need not.
    """
    gangs, unknown = workload.jobs["scale_factor"] > 1, {}
    for job_type in workload.jobs.loc[gangs, "job_type"].unique().tolist():
        try:
            network.overhead(job_type, _pair(cluster))
        except InputError as error:
            unknown[job_type] = error
    if not unknown:
        return
    first, *others = unknown
    model = getattr(network, "model", network)
    if not type(model).__module__.startswith("apportion."):
        raise unknown[first]
    with_profiles = f"get_network({network.name!r}, cluster=cluster, profiles=...)"
    if hasattr(model, "gang_links"):
        with_profiles = f"{type(model).__name__}(profiles=...)"
    also = f" Nor have {', '.join(map(written, others))}." if others else ""
    raise InputError(
        f"{unknown[first]}{also} Simulations take a network that has it as "
        f"network=apportion.sim.network.{with_profiles}. Without profiles: network='none', by "
        f"which communication is free, or 'static', a part of the speed by tier for any job type."
    ) from unknown[first]


def _pair(cluster: Cluster) -> Shape:
    """Return the tightest shape of two GPUs that a cluster holds."""
    if cluster.largest_machine > 1:
        return ((2,),)
    return ((1,), (1,)) if cluster.machines_per_rack == 1 else ((1, 1),)
