"""Groups of routers that are all joined: which links a gang uses on shortest ways."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from apportion.checks import label, number, whole
from apportion.errors import InputError
from apportion.sim.network.topology import MOST_LINKS, members_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class DragonflyTopology:
    """A dragonfly: routers of a group are all joined, and so are all groups, by one link each.

    The link from group i to group j leaves from router ``k // global_ports`` of i, where k is
    j, less one if j > i. A gang forms a ring around its servers in the order of their numbers.
    Messages between two of them go the shortest way: over the link of the two groups, with a hop to
    its router and one from it, where these are others.

    Parameters
    ----------
    name
        As results show it.
    groups
        At most ``routers * global_ports + 1``.
    routers
        Of a group.
    servers
        At each router.
    gpus_per_server
        GPUs that share the link of a server.
    server_gbps, local_gbps, global_gbps
        Gb/s per direction of the link of a server to its router, between two routers of a group,
        and between two groups.
    global_ports
        Links to other groups at a router.

    Raises
    ------
    InputError
        If a number is out of range, or the groups have more pairs than the routers have ports.

    Source: Kim et al., ISCA 2008, section 3; minimal routing.
    """

    name: str
    groups: int
    routers: int
    servers: int
    gpus_per_server: int
    server_gbps: float
    local_gbps: float
    global_gbps: float
    global_ports: int = 1

    def __post_init__(self) -> None:
        label("name of a topology", self.name)
        for key in ("groups", "routers", "servers", "gpus_per_server", "global_ports"):
            whole(f"The {key} of {self.name!r}", getattr(self, key), 1)
        for key in ("server_gbps", "local_gbps", "global_gbps"):
            number(f"The {key} of {self.name!r}", getattr(self, key), strict=True)
        most = self.routers * self.global_ports + 1
        if self.groups > most:
            raise InputError(
                f"{self.name!r} has {self.groups} groups; {self.routers} routers with "
                f"{self.global_ports} global_ports each join at most {most}."
            )
        per_group = self.routers * self.servers + self.routers * (self.routers - 1) // 2
        links = self.groups * per_group + self.groups * (self.groups - 1) // 2
        if links > MOST_LINKS:
            raise InputError(f"{self.name!r} has {links:,} links; at most {MOST_LINKS:,} are told.")

    @property
    def gpus(self) -> int:
        """GPUs of the cluster, counted through servers, routers and groups."""
        return self.groups * self.routers * self.servers * self.gpus_per_server

    @property
    def capacities(self) -> Mapping[str, float]:
        """Gb/s per direction of every link."""
        return self._capacities

    @cached_property
    def _capacities(self) -> dict[str, float]:
        found = {
            f"server {server}": self.server_gbps
            for server in range(self.gpus // self.gpus_per_server)
        }
        for group in range(self.groups):
            first = group * self.routers
            for pair in combinations(range(first, first + self.routers), 2):
                found[_local(*pair)] = self.local_gbps
        for pair in combinations(range(self.groups), 2):
            found[_global(*pair)] = self.global_gbps
        return found

    def links_of(self, gpus: Iterable[int]) -> tuple[str, ...]:
        """Links that the collectives of a gang use, as `TreeTopology.links_of`."""
        members = members_of(gpus, self.gpus, self.name)
        servers = list(dict.fromkeys(gpu // self.gpus_per_server for gpu in members))
        if len(servers) == 1:
            return ()
        used = dict.fromkeys(f"server {server}" for server in servers)
        for here, there in pairwise([*servers, servers[0]]):
            way = self._way(here // self.servers, there // self.servers)
            used.update(dict.fromkeys(way))
        return tuple(used)

    def _way(self, here: int, there: int) -> list[str]:
        """Links from one router to another."""
        from_group, to_group = here // self.routers, there // self.routers
        if from_group == to_group:
            return [_local(here, there)] if here != there else []
        leaves, arrives = self._gate(from_group, to_group), self._gate(to_group, from_group)
        way = [] if here == leaves else [_local(here, leaves)]
        way.append(_global(from_group, to_group))
        return way if arrives == there else [*way, _local(arrives, there)]

    def _gate(self, group: int, other: int) -> int:
        """Router of a group from which the link to another leaves."""
        return group * self.routers + (other - (other > group)) // self.global_ports


def _local(one: int, other: int) -> str:
    return f"router {min(one, other)} - {max(one, other)}"


def _global(one: int, other: int) -> str:
    return f"group {min(one, other)} - {max(one, other)}"
