"""Networks without a tree: nodes on a torus, and groups of routers that are all joined."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING

from apportion.checks import label, listed, number, whole
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


@dataclass(frozen=True)
class TorusTopology:
    """Nodes on a grid whose ends are joined, with a link to each neighbour.

    A gang forms a ring around its nodes in the order of their numbers. Messages between two of
    them go the shorter way in one dimension after the other.

    Parameters
    ----------
    name
        As results show it.
    dimensions
        Nodes along each; the last varies fastest in their numbers.
    link_gbps
        Gb/s per direction of a link.
    gpus_per_node
        GPUs that share the links of a node.
    """

    name: str
    dimensions: tuple[int, ...]
    link_gbps: float
    gpus_per_node: int = 1

    def __post_init__(self) -> None:
        label("name of a topology", self.name)
        sizes = listed(f"The dimensions of {self.name!r}", self.dimensions)
        if not sizes:
            raise InputError(f"The torus {self.name!r} has no dimensions.")
        sizes = [whole(f"A dimension of {self.name!r}", size, 1) for size in sizes]
        object.__setattr__(self, "dimensions", tuple(sizes))
        number(f"The link_gbps of {self.name!r}", self.link_gbps, strict=True)
        whole(f"The gpus_per_node of {self.name!r}", self.gpus_per_node, 1)
        if math.prod(sizes) * len(sizes) > MOST_LINKS:
            raise InputError(f"{self.name!r} has more than {MOST_LINKS:,} links.")

    @property
    def gpus(self) -> int:
        """GPUs of the cluster."""
        return self.gpus_per_node * math.prod(self.dimensions)

    @property
    def capacities(self) -> Mapping[str, float]:
        """Gb/s per direction of every link."""
        return self._capacities

    @cached_property
    def _capacities(self) -> dict[str, float]:
        return {
            self._link(place, dimension): self.link_gbps
            for place in product(*map(range, self.dimensions))
            for dimension, size in enumerate(self.dimensions)
            if size > 2 or place[dimension] < size - 1
        }

    def links_of(self, gpus: Iterable[int]) -> tuple[str, ...]:
        """Links that the collectives of a gang use, as `TreeTopology.links_of`."""
        members = members_of(gpus, self.gpus, self.name)
        nodes = list(dict.fromkeys(gpu // self.gpus_per_node for gpu in members))
        if len(nodes) == 1:
            return ()
        used: dict[str, None] = {}
        for here, there in pairwise([*nodes, nodes[0]]):
            used.update(dict.fromkeys(self._route(self._place(here), self._place(there))))
        return tuple(used)

    def _place(self, node: int) -> tuple[int, ...]:
        place = []
        for size in reversed(self.dimensions):
            node, at = divmod(node, size)
            place.append(at)
        return tuple(reversed(place))

    def _route(self, here: tuple[int, ...], there: tuple[int, ...]) -> list[str]:
        """Links from one node to another."""
        links, place = [], list(here)
        for dimension, size in enumerate(self.dimensions):
            up = (there[dimension] - here[dimension]) % size
            forwards = up <= size - up
            for _ in range(min(up, size - up)):
                if not forwards:
                    place[dimension] = (place[dimension] - 1) % size
                links.append(self._link(tuple(place), dimension))
                if forwards:
                    place[dimension] = (place[dimension] + 1) % size
        return links

    def _link(self, place: tuple[int, ...], dimension: int) -> str:
        """Name of the link from a node to the next in a dimension."""
        size = self.dimensions[dimension]
        if size == 2:  # one link joins two nodes, not two
            place = (*place[:dimension], 0, *place[dimension + 1 :])
        ahead = (*place[:dimension], (place[dimension] + 1) % size, *place[dimension + 1 :])
        return f"{'.'.join(map(str, place))} - {'.'.join(map(str, ahead))}"
