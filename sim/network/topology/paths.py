"""Several equal paths between switches: which of a unit's parallel uplinks a gang takes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from apportion.checks import label, mapping, number, whole
from apportion.errors import InputError, written
from apportion.sim.network.topology import MOST_LINKS, check_gangs, members_of
from apportion.sim.network.topology.tree import TreeTopology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class ParallelUplinks:
    """A tree whose units have several links upwards, each a link of its own.

    All flows of a gang out of a unit take one of the unit's links: by a hash of the gang, the unit
    and a seed, as equal-cost multipath routing (ECMP) does, so that two gangs may meet on one link
    while another is idle; or the one that was chosen for it (`chosen_paths`). Traffic that is
    spread evenly over parallel links is what `TreeTopology` itself tells, as one link of their sum.

    Parameters
    ----------
    tree
        Units, and the Gb/s of all parallel links of a unit together.
    links
        Parallel links of a unit of each level, by the level's name; 1 for those not named. Rails
        are parallel links that the GPU chooses, so that a level has either.
    seed
        Of the hash.
    chosen
        Number of the link that a gang takes out of a unit, by (GPUs in ascending order, link of
        the tree); the hash decides for others.

    Raises
    ------
    InputError
        For a level that is not in the tree or has rails, and a number that is out of range.
    """

    tree: TreeTopology
    links: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    chosen: Mapping[tuple[tuple[int, ...], str], int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.tree, TreeTopology):
            raise InputError(f"tree is {written(self.tree)}; it must be a TreeTopology.")
        whole("seed", self.seed, 0)
        levels = {level.name: level for level in self.tree.levels}
        for name, count in mapping("links", self.links).items():
            if name not in levels:
                raise InputError(f"{label('level', name)} is no level of {self.tree.name!r}.")
            whole(f"The parallel links of level {name!r}", count, 1, MOST_LINKS)
            if levels[name].rails > 1 and count > 1:
                raise InputError(
                    f"The level {name!r} has rails; give it no parallel links as well."
                )

    @property
    def name(self) -> str:
        """As results show it."""
        return self.tree.name

    @property
    def gpus(self) -> int:
        """GPUs of the cluster."""
        return self.tree.gpus

    @property
    def capacities(self) -> Mapping[str, float]:
        """Gb/s per direction of every link."""
        return self._capacities

    @cached_property
    def _capacities(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for link, gbps in self.tree.capacities.items():
            count = self._count(link)
            found |= {each: gbps / count for each in _numbered(link, count)}
        return found

    def links_of(self, gpus: Iterable[int]) -> tuple[str, ...]:
        """Links that the collectives of a gang use, as `TreeTopology.links_of`."""
        members = members_of(gpus, self.gpus, self.name)
        used: list[str] = []
        for link in self.tree.links_of(members):
            every = self.parallel(link)
            hashed = self._hash(members, link)
            used.append(every[self.chosen.get((tuple(members), link), hashed) % len(every)])
        return tuple(used)

    def parallel(self, link: str) -> list[str]:
        """Return the parallel links of a link of the tree."""
        return _numbered(link, self._count(link))

    def _count(self, link: str) -> int:
        unit = link.partition(" rail ")[0]
        return self.links.get(unit.rpartition(" ")[0], 1)

    def _hash(self, members: list[int], link: str) -> int:
        told = f"{self.seed} {link} {members}".encode()
        return int.from_bytes(hashlib.sha256(told).digest()[:8], "big")


def chosen_paths(
    topology: ParallelUplinks,
    gangs: Mapping[Any, Iterable[int]],
    gbps: Mapping[Any, float],
    first: Mapping[Any, float],
) -> ParallelUplinks:
    """Return the topology in which gangs take the idlest links, one gang after the other.

    Crux's path selection: jobs choose in the order of their GPU intensity, the largest first; of
    the links out of each unit a job takes the one on which those before it send least.

    Parameters
    ----------
    topology
        Parallel links.
    gangs
        GPUs of each job, by job.
    gbps
        What each job sends on average, by job (`CommunicationProfile.mean_gbps`).
    first
        GPU intensity of each job (`apportion.sim.links.gpu_intensity`), 0 for those not named.

    Raises
    ------
    InputError
        For a topology without parallel links, a GPU of two gangs, and a rate that is missing.

    Source: Cao et al., Crux, SIGCOMM 2024, section 4.1.
    """
    if not isinstance(topology, ParallelUplinks):
        raise InputError(
            f"topology is {written(topology)}; paths are chosen among ParallelUplinks only."
        )
    members = {
        job: tuple(members_of(gpus, topology.gpus, topology.name))
        for job, gpus in mapping("gangs", gangs).items()
    }
    check_gangs(members)
    rates, order = mapping("gbps", gbps), mapping("first", first)
    for job in members:
        if job not in rates:
            raise InputError(f"gbps has no rate of the gang {written(job)}.")
        number(f"The gbps of gang {written(job)}", rates[job])
        number(f"The intensity of gang {written(job)}", order.get(job, 0.0))
    sent: dict[str, float] = {}
    chosen: dict[tuple[tuple[int, ...], str], int] = {}
    for job in sorted(members, key=lambda job: -order.get(job, 0.0)):
        for link in topology.tree.links_of(members[job]):
            every = topology.parallel(link)
            idlest = min(every, key=lambda each: sent.get(each, 0.0))
            sent[idlest] = sent.get(idlest, 0.0) + rates[job]
            chosen[members[job], link] = every.index(idlest)
    return replace(topology, chosen=chosen)


def _numbered(link: str, count: int) -> list[str]:
    return [link] if count == 1 else [f"{link} link {number}" for number in range(count)]
