"""Gangs whose phases meet on links slow each other down: a model of the network."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from apportion.checks import LARGEST_COUNT, mapping, number, whole, yes_no
from apportion.errors import InputError, written
from apportion.mechanism.time_shifts import CommunicationProfile, LinkScores
from apportion.mechanism.time_shifts.circle import EPOCH_S, PACE
from apportion.names import model_of
from apportion.sim.network.models.communicating import COMMUNICATING_MODELS, communication_profile
from apportion.sim.network.topology import Topology
from apportion.sim.network.topology.named import get_topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.cluster import Cluster
    from apportion.mechanism.decider import About
    from apportion.mechanism.scheduler import Placement
    from apportion.sim.engine.speeds import Speeds
    from apportion.sim.network.shapes import Shape

ROUNDING = 1e-9
"""Part of a link by which demands may exceed it."""


@dataclass(frozen=True)
class CassiniNetwork:
    """An iteration takes ``2 - score`` of its time alone, by the worst link of the gang.

    The score of a link is the compatibility of the jobs on it (`apportion.compatibility`): under
    the best shifts if the affinity graph of these jobs has no loop, else the mean over random
    starts. Links are those of machines, and those of racks upwards.
    Throughputs of the workload are those of jobs that have the network for themselves. The law is
    exact only where `law_is_exact` says so; `PhaseNetwork` follows links phase by phase.

    Parameters
    ----------
    machine_gbps
        Of the link of a machine, Gb/s.
    oversubscription
        Gb/s of the machines of a rack over those of the rack's own link.
    shifted
        Whether jobs are shifted; if not, they start at random everywhere.
    pace
        Part by which iterations may be stretched so that jobs fit whose periods are nearly equal,
        or nearly multiples: the faster ones wait for the others, where it costs clearly less than
        random starts. 0 paces nobody.
    topology
        Which links there are in place of these: a `Topology`, the name of one, or a ``.toml`` file
        (`get_topology`). Every accelerator type has a network of its own, whose GPUs are counted
        through machines and racks; of a machine a gang is taken to have the first. Models then
        send at the Gb/s of the slowest link.
    profiles
        Communication profiles by job type, whatever the number of GPUs, in place of those of
        `communication_profile`.
    candidates
        N: so many whole placements are compared under ``placement="cassini"``, the scheduler's own
        and others drawn at random (10 in the paper).

    Raises
    ------
    InputError
        If a number is out of range, or something is no profile.

    Warns
    -----
    UserWarning
        If a profile wants more than a link has: it is compatible with nobody.
    """

    shares_links: ClassVar[bool] = True

    machine_gbps: float = 50.0
    oversubscription: float = 2.0
    shifted: bool = True
    pace: float = PACE
    topology: Topology | str | None = None
    profiles: Mapping[str, CommunicationProfile] = field(default_factory=dict, repr=False)
    candidates: int = 10

    def __post_init__(self) -> None:
        number("machine_gbps", self.machine_gbps, strict=True)
        number("oversubscription", self.oversubscription, least=1)
        yes_no("shifted", self.shifted)
        whole("candidates", self.candidates, 1, LARGEST_COUNT)
        number("pace", self.pace, most=0.5)
        if self.topology is not None:
            object.__setattr__(self, "topology", get_topology(self.topology))
        for name, profile in mapping("profiles", self.profiles).items():
            if not isinstance(profile, CommunicationProfile):
                raise InputError(f"The profile of {written(name)} is no CommunicationProfile.")
            if profile.peak_gbps > self.gbps * (1 + ROUNDING):
                warnings.warn(
                    f"The job type {written(name)} wants {profile.peak_gbps:g} Gb/s of a link of "
                    f"{self.gbps:g} Gb/s; it is never compatible.",
                    stacklevel=3,
                )

    @property
    def name(self) -> str:
        """``cassini``, or ``cassini_unshifted``."""
        return "cassini" if self.shifted else "cassini_unshifted"

    @property
    def gbps(self) -> float:
        """Gb/s at which a gang sends that has the links for itself."""
        if isinstance(self.topology, Topology):
            return min(self.topology.capacities.values(), default=self.machine_gbps)
        return self.machine_gbps

    def profile(self, job_type: str, gpus: int) -> CommunicationProfile:
        """Return what a job type sends in an iteration on so many GPUs.

        Raises
        ------
        InputError
            For a model that is not known.
        """
        if job_type in self.profiles:
            return self.profiles[job_type]
        model = model_of(job_type, COMMUNICATING_MODELS, kind=CommunicationProfile.__name__)
        return communication_profile(model, gbps=self.gbps, gpus=gpus)

    def gang_links(self, cluster: Cluster) -> GangLinks:
        """Return what tells which links the gangs of a cluster use."""
        return GangLinks(self, cluster)

    def with_topology(self, topology: str | Topology) -> Self:
        """Return the same network with the links of a topology."""
        return replace(self, topology=get_topology(topology))

    def for_elastic(
        self, profiles: Mapping[str, CommunicationProfile], *, beside_requests: bool
    ) -> Self:
        """Return the same network for elastic jobs, which send by these profiles.

        Beside requests, which call GPUs back between two decisions, speeds must not change by
        themselves: only `PhaseNetwork` has to be told.
        """
        return replace(self, profiles=profiles)

    def speeds(self, alone: Speeds, about: About) -> Speeds:
        """Return how fast gangs are by the law of the score."""
        from apportion.sim.links.phase_speeds import CompatibleSpeeds

        return CompatibleSpeeds(alone, about.job_types, self, about.cluster, about.layout)

    def overhead(self, job_type: str, shape: Shape) -> float:
        """Return 0: alone, no gang is slower than its throughput says.

        Raises
        ------
        InputError
            For a model that is not known.
        """
        self.profile(job_type, 2)
        return 0.0


class GangLinks:
    """Which links the gangs of a cluster use, as placements and speeds ask it.

    Parameters
    ----------
    network
        Knows the profiles and the Gb/s.
    cluster
        Machines and racks.
    """

    def __init__(self, network: CassiniNetwork, cluster: Cluster) -> None:
        self.network, self._topology = network, network.topology
        epoch_s = getattr(network, "epoch_s", EPOCH_S)
        self.scores = LinkScores(network.profile, network.pace, epoch_s)
        self.candidates = network.candidates
        self._machines, self._gpus = cluster.machines_per_rack or 1, cluster.largest_machine
        self._rack_gbps = self._machines * network.machine_gbps / network.oversubscription
        self._known: dict[Placement, dict[Any, float]] = {}
        self._check(cluster)

    def __call__(self, model: str, placement: Placement) -> float:
        """Return 1, the time of a step that has the links for itself over that same time."""
        return 1.0

    def links_of(self, placement: Placement) -> dict[Any, float]:
        """Return the links that a ring around a gang uses, with their Gb/s."""
        if len(placement) < 2:
            return {}
        if isinstance(self._topology, Topology):
            return self._of_topology(placement, self._topology)
        links: dict[Any, float] = {
            ("machine", rack, machine): self.network.machine_gbps for rack, machine, _ in placement
        }
        racks = {rack for rack, _, _ in placement}
        if len(racks) > 1:
            links |= {("rack", rack, 0): self._rack_gbps for rack in sorted(racks)}
        return links

    def _of_topology(self, placement: Placement, topology: Topology) -> dict[Any, float]:
        known = self._known.get(placement)
        if known is None:
            first = [
                (rack * self._machines + machine) * self._gpus for rack, machine, _ in placement
            ]
            gpus = [
                start + each
                for start, (_, _, count) in zip(first, placement, strict=True)
                for each in range(count)
            ]
            capacities = topology.capacities
            known = {link: capacities[link] for link in topology.links_of(gpus)}
            self._known[placement] = known
        return known

    def _check(self, cluster: Cluster) -> None:
        """Refuse a topology that is too small."""
        if not isinstance(self._topology, Topology):
            return
        for name, gpus in cluster.gpus.items():
            if gpus > self._topology.gpus:
                raise InputError(
                    f"The topology {self._topology.name!r} has {self._topology.gpus} GPUs; the "
                    f"cluster has {gpus} of type {name!r}. Give a larger one."
                )
