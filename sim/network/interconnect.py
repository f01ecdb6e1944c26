"""What carries a gang's messages: one or more dimensions in a machine, one per rack and network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.annotations import check_fields
from apportion.checks import choice, number, seconds, whole
from apportion.cluster import TIERS
from apportion.errors import InputError
from apportion.sim.network.collectives import ALL_REDUCES
from apportion.sim.network.shapes import Shape, gpus_of, machines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPOLOGIES = ("ring", "fully_connected", "switch")
"""How the units of a dimension are wired."""

ORDERS = ("fifo", "lifo")
"""Which of the messages that wait for a dimension is next: the first issued, or the last."""


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
        Bytes per second and direction of one GPU, or of one link if these are counted.
    latency_s
        Seconds per hop.
    size
        Most units that it joins; ``None`` for any number.
    links_per_unit
        Links that the dimension has for each of its units, over which messages are spread: see
        `bytes_per_s`. ``None`` where the bandwidth is that of a GPU, however many units there are.
    all_reduce
        Algorithm of all-reduces, out of `apportion.sim.network.collectives.ALL_REDUCES`; the other
        collectives go round a ring.
    order
        Out of `ORDERS`.

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
    links_per_unit: int | None = None
    all_reduce: str = "ring"
    order: str = "fifo"

    def __post_init__(self) -> None:
        choice("tier", self.tier, TIERS)
        choice(f"topology of tier {self.tier!r}", self.topology, TOPOLOGIES)
        bandwidth = f"The tier {self.tier!r} has no bandwidth: bandwidth_bytes_per_s"
        number(bandwidth, self.bandwidth_bytes_per_s, strict=True)
        seconds(f"The latency_s of tier {self.tier!r}", self.latency_s)
        if self.size is not None:
            whole(f"The size of tier {self.tier!r}", self.size, 1)
        if self.links_per_unit is not None:
            whole(f"The links_per_unit of tier {self.tier!r}", self.links_per_unit, 1)
        choice(f"all-reduce algorithm of tier {self.tier!r}", self.all_reduce, ALL_REDUCES)
        choice(f"order of messages of tier {self.tier!r}", self.order, ORDERS)

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

    def bytes_per_s(self, units: int) -> float:
        """Bytes per second and direction of one GPU when so many units take part.

        Where links are counted, as in ASTRA-sim's first version, there are ``links_per_unit *
        units`` of them, and a GPU has the bandwidth of them all on a switch and on a ring, whose
        number is even and four at least. Where all are connected, every pair has an equal number.
        """
        if self.links_per_unit is None or units < 2:
            return self.bandwidth_bytes_per_s
        links = self.links_per_unit * units
        if self.topology == "ring":
            links = max(4, links + links % 2)
        elif self.topology == "fully_connected":
            links = max(1, links // (units - 1))
        return links * self.bandwidth_bytes_per_s


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
    pipelined
        Whether every dimension has a queue of its own, as in ASTRA-sim, so that one message is in
        an inner dimension while another is further out. Otherwise messages go one by one, as they
        must where dimensions share a port.

    Raises
    ------
    InputError
        If there is no dimension in a machine, one but the last has no size, or something is no
        `Dimension`.
    """

    machine: tuple[Dimension, ...]
    rack: Dimension
    network: Dimension
    pipelined: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.machine or any(dimension.size is None for dimension in self.machine[:-1]):
            raise InputError(
                "The tier 'machine' needs at least one dimension, and all but its last a size."
            )

    def choosing(self, **by_tier: Any) -> Interconnect:
        """Return the interconnect with other fields of its dimensions.

        Parameters
        ----------
        **by_tier
            Fields of `Dimension`, such as ``all_reduce`` and ``order``: one value for all, or by
            tier.

        Raises
        ------
        InputError
            For an unknown tier or value.
        """
        for field, given in by_tier.items():
            for tier in given if isinstance(given, Mapping) else ():
                choice(f"tier of {field}", tier, TIERS)

        def chosen(dimension: Dimension) -> Dimension:
            changed = {
                field: given.get(dimension.tier, getattr(dimension, field))
                if isinstance(given, Mapping)
                else given
                for field, given in by_tier.items()
            }
            return replace(dimension, **changed)

        return replace(
            self,
            machine=tuple(map(chosen, self.machine)),
            rack=chosen(self.rack),
            network=chosen(self.network),
        )

    def spans(self, shape: Shape, *, flat_if_unbalanced: bool = False) -> tuple[Span, ...]:
        """How a gang uses the dimensions, inner to outer; those with one unit are left out.

        Parameters
        ----------
        shape
            Canonical.
        flat_if_unbalanced
            Make an unbalanced gang one flat ring over the tier that it does not divide over, all
            GPUs there being units, as the code of Dally's authors does (see `is_unbalanced`).
        """
        gpus = gpus_of(shape)
        network = Span(self.network, len(shape), len(shape))
        if flat_if_unbalanced and gpus % len(shape):
            return (Span(self.network, gpus, gpus),)
        if flat_if_unbalanced and gpus % machines_of(shape):
            by_rack = [sum(rack) for rack in shape]
            spans = [Span(self.rack, max(by_rack), min(by_rack)), network]
        else:
            counts = [gpus for rack in shape for gpus in rack]
            machines = [len(rack) for rack in shape]
            inside = _inside(self.machine, max(counts), min(counts))
            spans = [*inside, Span(self.rack, max(machines), min(machines)), network]
        return tuple(span for span in spans if span.units > 1)


def is_unbalanced(shape: Shape) -> bool:
    """Whether Dally's released code would flatten a gang over its slowest tier.

    Over racks it does so where the GPUs do not divide by the racks; how they lie on the machines
    of a rack then only matters within the rack. In one rack it does so where they do not divide by
    the machines. Only totals matter: six GPUs beside two count as four beside four.
    """
    return gpus_of(shape) % (len(shape) if len(shape) > 1 else machines_of(shape)) > 0


def _inside(dimensions: tuple[Dimension, ...], most: int, fewest: int) -> Iterator[Span]:
    """Split the GPUs of the fullest and of the emptiest machine over its dimensions."""
    for dimension in dimensions:
        size = dimension.size or most
        outer, outer_fewest = math.ceil(most / size), math.ceil(fewest / size)
        units = math.ceil(most / outer)
        yield Span(dimension, units, max(1, fewest // outer_fewest))
        most, fewest = outer, outer_fewest
