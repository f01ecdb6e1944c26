"""Nodes on a torus: which links between neighbours a gang uses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import TYPE_CHECKING

from apportion.checks import label, listed, number, whole
from apportion.errors import InputError
from apportion.sim.network.topology import MOST_LINKS, members_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
