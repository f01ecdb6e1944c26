"""What carries a gang's messages: one or more dimensions in a machine, one per rack and network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from apportion.checks import choice, number, seconds, whole
from apportion.cluster import TIERS
from apportion.errors import InputError
from apportion.sim.network.shapes import Shape, gpus_of, machines_of, tier_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TOPOLOGIES", "Dimension", "Interconnect", "Span", "is_unbalanced"]

TOPOLOGIES = ("ring", "fully_connected", "switch")
"""How the units of a dimension are wired."""


@dataclass(frozen=True)
class Dimension:
    """One dimension of a hierarchical network (ASTRA-sim's analytical model).

    Parameters
    ----------
    tier
        Tier that it belongs to, out of `apportion.cluster.TIERS`.
    topology
        Out of `TOPOLOGIES`.
    bandwidth_bytes_per_s
        Bytes per second and direction of one GPU.
    latency_s
        Seconds per hop.
    size
        Most units that it joins; ``None`` for any number.

    Raises
    ------
    InputError
        If the tier has no bandwidth (0, NaN, missing), or something else is out of range; it
        names the tier.
    """

    tier: str
    topology: str
    bandwidth_bytes_per_s: float
    latency_s: float = 0.0
    size: int | None = None

    def __post_init__(self) -> None:
        choice("tier", self.tier, TIERS)
        choice(f"topology of tier {self.tier!r}", self.topology, TOPOLOGIES)
        bandwidth = f"The bandwidth_bytes_per_s of tier {self.tier!r}"
        number(bandwidth, self.bandwidth_bytes_per_s, strict=True)
        seconds(f"The latency_s of tier {self.tier!r}", self.latency_s)
        if self.size is not None:
            whole(f"The size of tier {self.tier!r}", self.size, 1)

    def hops(self, units: int, distance: int = 1) -> int:
        """Hops between two of so many units, that far apart in their order.

        1 where all are connected, 2 through a switch, and the shorter way around a ring.
        """
        if self.topology == "ring":
            return min(distance % units, -distance % units)
        return 2 if self.topology == "switch" else 1

    @property
    def alpha_s(self) -> float:
        """Seconds that a message of no length takes to a neighbor."""
        return self.hops(2) * self.latency_s


class Span(NamedTuple):
    """How a gang lies in one dimension.

    ``units`` is the most that take part anywhere, which sets the number of steps; ``narrowest``
    the fewest, which sets how many ways the bytes are divided for the dimensions outside.
    """

    dimension: Dimension
    units: int
    narrowest: int


@dataclass(frozen=True)
class Interconnect:
    """The dimensions of a cluster, from the inside of a machine outwards.

    Parameters
    ----------
    machine
        One dimension or more between the GPUs of a machine, inner first; all but the last have
        a size.
    rack
        Between the machines of a rack.
    network
        Between racks.

    Raises
    ------
    InputError
        If there is no dimension in a machine, or one but the last has no size.
    """

    machine: tuple[Dimension, ...]
    rack: Dimension
    network: Dimension

    def __post_init__(self) -> None:
        if not self.machine or any(dimension.size is None for dimension in self.machine[:-1]):
            raise InputError(
                "The tier 'machine' needs at least one dimension, and all but its last a size."
            )

    def spans(self, shape: Shape, *, flat_if_unbalanced: bool = False) -> tuple[Span, ...]:
        """How a gang uses the dimensions, inner to outer; those with one unit are left out.

        Parameters
        ----------
        shape
            Canonical.
        flat_if_unbalanced
            Make an unbalanced gang one flat ring over its slowest tier, all GPUs being units, as
            the code of Dally's authors does (see `is_unbalanced`).
        """
        tier = tier_of(shape)
        if flat_if_unbalanced and is_unbalanced(shape):
            gpus = gpus_of(shape)
            return (Span((self.rack, self.network)[tier - 1], gpus, gpus),)
        counts = [gpus for rack in shape for gpus in rack]
        machines = [len(rack) for rack in shape]
        spans = [
            *_inside(self.machine, max(counts), min(counts)),
            Span(self.rack, max(machines), min(machines)),
            Span(self.network, len(shape), len(shape)),
        ]
        return tuple(span for span in spans if span.units > 1)


def is_unbalanced(shape: Shape) -> bool:
    """Whether Dally's released code would flatten a gang.

    It does so where the GPUs do not divide by the racks or machines that the gang uses, and where
    every machine holds a single one. Machines that do not divide by racks count too, as they leave
    no hierarchy to build. Only totals matter: six GPUs beside two count as four beside four.
    """
    gpus, machines, racks = gpus_of(shape), machines_of(shape), len(shape)
    if machines == 1:
        return False
    return gpus == machines or any((gpus % machines, gpus % racks, machines % racks))


def _inside(dimensions: tuple[Dimension, ...], most: int, fewest: int) -> Iterator[Span]:
    """Split the GPUs of the fullest and of the emptiest machine over its dimensions."""
    for dimension in dimensions:
        size = dimension.size or most
        outer, outer_fewest = math.ceil(most / size), math.ceil(fewest / size)
        units = math.ceil(most / outer)
        yield Span(dimension, units, max(1, fewest // outer_fewest))
        most, fewest = outer, outer_fewest
