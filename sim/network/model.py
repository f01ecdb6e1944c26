"""What every network model answers: what is exposed of an iteration, how slow a placement is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from apportion.checks import number
from apportion.errors import InputError, written
from apportion.mechanism.devices import Devices
from apportion.mechanism.placements.by_speed import Placing
from apportion.mechanism.placements.registry import ON_LINKS, PLACEMENTS
from apportion.own_code import answered_by
from apportion.sim.network.shapes import Shape, canonical_shape, gpus_of, shape_of_placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.cluster import Cluster
    from apportion.mechanism.decider import About
    from apportion.mechanism.leases import Placement
    from apportion.mechanism.placements.by_speed import Pace
    from apportion.sim.engine.speeds import Speeds
    from apportion.sim.network.cassini import GangLinks
    from apportion.sim.workload import Workload
    from apportion.types import Floats


@runtime_checkable
class NetworkModel(Protocol):
    """How much slower a placement makes a gang."""

    @property
    def name(self) -> str:
        """Name of the model, as results show it."""
        ...

    def overhead(self, job_type: str, shape: Shape) -> float:
        """Exposed communication over compute time of one iteration.

        A gang with overhead o makes 1 / (1 + o) of the steps per second that it would make if
        communication were free.

        Parameters
        ----------
        job_type
            The model that is trained.
        shape
            Where its GPUs are.

        Returns
        -------
        float
            >= 0, without unit; 0 for a single GPU.

        Raises
        ------
        InputError
            If the model of the job type is unknown, or the shape is none.
        """
        ...


@dataclass(frozen=True)
class NoNetwork:
    """Communication is free: every placement is as fast as one machine."""

    name: str = "none"

    def overhead(self, job_type: str, shape: Shape) -> float:
        """Return 0 for every job type and shape."""
        return 0.0

    def speeds(self, alone: Speeds, about: About) -> Speeds:
        """Return how fast gangs are that have the network for themselves."""
        return alone


@dataclass(frozen=True)
class MemoizedNetwork:
    """A network model on a given cluster that computes each overhead once.

    Parameters
    ----------
    model
        What to ask the first time.
    cluster
        Shapes that it cannot hold are refused.
    """

    model: NetworkModel
    cluster: Cluster
    _known: dict[tuple[str, Shape], float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def name(self) -> str:
        """Name of the model inside."""
        return self.model.name

    def on_cluster(self, cluster: Cluster) -> MemoizedNetwork:
        """Return the same model on a cluster."""
        return MemoizedNetwork(self.model, cluster)

    @property
    def gang_links(self) -> GangLinks | None:
        """What tells which links gangs use, if the model knows (`CassiniNetwork.gang_links`)."""
        make = getattr(self.model, "gang_links", None)
        return None if make is None else make(self.cluster)

    def overhead(self, job_type: str, shape: Shape) -> float:
        """Exposed communication over compute time, as `NetworkModel.overhead`.

        Raises
        ------
        InputError
            As the model inside, if the cluster cannot hold the shape, and if what the model says is
            no finite number >= 0.
        """
        key = (job_type, shape)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._ask(job_type, canonical_shape(shape))
        return known

    def _ask(self, job_type: str, shape: Shape) -> float:
        """Check the shape and ask the model; a single GPU has nobody to talk to."""
        self._check(shape)
        if gpus_of(shape) == 1:
            return 0.0
        answer, what = self.model.overhead(job_type, shape), f"overhead of job type {job_type!r}"
        try:
            return number(what, answer, words="a finite number")
        except InputError as error:
            where = f"says the network {self.name!r} of the shape {shape}"
            whose = answered_by(self.model, "overhead")
            raise InputError(f"The {str(error).rstrip('.')}; so {where}.{whose}") from error

    def _check(self, shape: Shape) -> None:
        """Refuse a shape with more GPUs in a machine, or machines or racks, than there are."""
        gpus, machines = self.cluster.largest_machine, self.cluster.machines_per_rack
        if machines is None and len(shape) > 1:
            raise InputError(f"The shape {shape} does not fit a single rack (machines_per_rack).")
        if max(map(max, shape)) > gpus:
            raise InputError(f"The shape {shape} does not fit machines of {gpus} GPUs.")
        if machines is not None and max(map(len, shape)) > machines:
            raise InputError(f"The shape {shape} does not fit racks of {machines} machines.")


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
    if name not in ON_LINKS:
        return network
    if network is None or not hasattr(network.model, "gang_links"):
        raise InputError(
            f"The placement {name!r} compares the links of gangs; it needs a network that "
            "knows them: 'cassini', 'phases', these with '_unshifted', or a CassiniNetwork."
        )
    return network


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
        f"which communication is free, or 'static', a part of the speed by tier for any job type; "
        f"on the command line --mechanism 'leases(network=none)'."
    ) from unknown[first]


def _pair(cluster: Cluster) -> Shape:
    """Return the tightest shape of two GPUs that a cluster holds."""
    if cluster.largest_machine > 1:
        return ((2,),)
    return ((1,), (1,)) if cluster.machines_per_rack == 1 else ((1, 1),)
