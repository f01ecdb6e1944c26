"""Where a gang gets its GPUs: of the placements that are free, the one on which it is fastest."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from apportion.mechanism.placements.counts import (
    BestFit,
    choose,
    evenly_over,
    evenly_over_machines,
    fewest_places,
)
from apportion.mechanism.scheduler import MACHINE, NETWORK, RACK, Placement, tier_of
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from apportion.types import Int64s

    Worth = tuple[float, int]
    Parts = tuple[tuple[int, int], ...]

# Placements whose worth is known by heart: those of a cluster come again and again.
_REMEMBERED = 50_000
# Bytes of what is free, kept with the placements that were found best there.
_REMEMBERED_BYTES = 2**23


class Pace(Protocol):
    """How long a step takes on a placement, in units of its compute time: 1 or more."""

    def __call__(self, model: str, placement: Placement) -> float:
        """Return the time of a step of a model over its compute time."""
        ...


def by_tier(model: str, placement: Placement) -> float:
    """Know nothing of the network but that a tighter tier is faster."""
    return 1.0 + tier_of(placement)


class _Recipe(NamedTuple):
    """A way to spread a gang, and how slow it is where everything is free.

    ``racks`` and ``machines`` are how many share it evenly; 0 stands for as few as can be, each
    filled in turn. Over several racks 1 stands for as few machines as can be, shared evenly.
    """

    worth: Worth
    racks: int
    machines: int


class _Room:
    """What is free in each machine and each rack, and racks that hold a gang, the fullest first."""

    def __init__(self, free: Int64s, gpus: int) -> None:
        self.free, self._gpus = free, gpus

    @cached_property
    def by_rack(self) -> Int64s:
        return np.asarray(np.add.reduce(self.free, axis=1))

    @cached_property
    def racks(self) -> list[int]:
        order = self.by_rack.argsort(kind="stable")
        racks: list[int] = order[self.by_rack[order] >= self._gpus].tolist()
        return racks


class Placing:
    """Chooses placements by their speed, then by their tier.

    Placements of equal speed are those in which the fullest machines and racks are filled up. Not
    every placement is looked at: gangs are packed into few machines, or spread evenly over 2, 3,
    ... machines of a rack; over racks they are packed, or spread evenly over 2, 3, ... racks with
    few machines in each. Where GPUs of others are in the way, as evenly as these allow.

    Parameters
    ----------
    gpus
        GPUs of each machine, shape (racks, machines per rack).
    pace
        How slow a model is on a placement.
    """

    def __init__(self, gpus: Int64s, pace: Pace) -> None:
        self._all, self.pace, self._best_fit = gpus, pace, BestFit()
        self._recipes: dict[tuple[str, int, int], list[_Recipe]] = {}
        self._simple: dict[tuple[str, int], list[tuple[int, _Recipe]]] = {}
        self._alone: dict[tuple[int, int, int], Placement | None] = {}
        self._worths: dict[tuple[str, Placement], Worth] = {}
        self._parts: dict[tuple[bytes, int, int], Parts | None] = {}
        self._found: dict[tuple[bytes, str, int, int, Worth | None], Placement | None] = {}

    def worth(self, model: str, placement: Placement) -> Worth:
        """Time of a step over its compute time, and tier: less is better.

        Rounded, or the last digits of a sum would tell equal shapes apart.
        """
        worth = self._worths.get((model, placement))
        if worth is None:
            if len(self._worths) > _REMEMBERED:
                self._worths.clear()
            worth = significant(self.pace(model, placement)), tier_of(placement)
            self._worths[model, placement] = worth
        return worth

    def slowdowns(self, model: str, gpus: int) -> list[float]:
        """Time of a step on the best placement at each tier, everything being free.

        Over its compute time; infinite where no gang of that size lies at the tier.
        """
        ways = self._ways(model, gpus, NETWORK)
        return [
            min((way.worth[0] for way in ways if way.worth[1] == tier), default=math.inf)
            for tier in (MACHINE, RACK, NETWORK)
        ]

    def least_worth(self, model: str, gpus: int) -> Worth:
        """Return the `worth` of the best placement on the whole cluster; infinite for none."""
        ways = self._ways(model, gpus, NETWORK)
        return ways[0].worth if ways else (math.inf, NETWORK)

    def fastest(self, free: Int64s, model: str, gpus: int, widest: int) -> Placement | None:
        """Return the fastest of the free placements within a tier; None if there is none."""
        return self._best(free, model, gpus, widest, None)

    def better(
        self, free: Int64s, model: str, gpus: int, tier: int, before: Placement
    ) -> Placement | None:
        """Return the best placement, if it is better than one; its GPUs are among the free."""
        return self._best(free, model, gpus, tier, self.worth(model, before))

    def _best(
        self, free: Int64s, model: str, gpus: int, tier: int, below: Worth | None
    ) -> Placement | None:
        """Return the best free placement that is below a worth.

        Of a full cluster little is free, and so the same GPUs are often offered to gangs alike.
        """
        ways = self._ways(model, gpus, tier)
        if not ways or (below is not None and ways[0].worth >= below):
            return None
        key = free.tobytes(), model, gpus, tier, below
        if key not in self._found:
            if len(self._found) * free.nbytes > _REMEMBERED_BYTES:
                self._found.clear()
            self._found[key] = self._tried(ways, free, model, gpus, below)
        return self._found[key]

    def _tried(
        self, ways: list[_Recipe], free: Int64s, model: str, gpus: int, below: Worth | None
    ) -> Placement | None:
        """Try the ways from the best on, until those that are left cannot be better."""
        found, room = None, _Room(free, gpus)
        for way in ways:
            if below is not None and way.worth >= below:
                break
            for placement in self._realised(way, room, gpus):
                worth = self.worth(model, placement)
                if below is None or worth < below:
                    found, below = placement, worth
                if worth <= way.worth:
                    break
        return found

    def _ways(self, model: str, gpus: int, tier: int) -> list[_Recipe]:
        """Ways to place a gang within a tier, the best first."""
        known = self._recipes.get((model, gpus, tier))
        if known is None:
            simple = self._simple_ways(model, gpus)
            recipes = [way for widest, way in simple if widest <= tier]
            if tier >= NETWORK:
                best = min((way.worth for way in recipes), default=(math.inf, 0))
                finer = self._judged(self._finer_kinds(gpus), model, gpus)
                recipes += [way for way in finer if way.worth < best]
            known = self._recipes[model, gpus, tier] = sorted(recipes, key=lambda way: way.worth)
        return known

    def _simple_ways(self, model: str, gpus: int) -> list[tuple[int, _Recipe]]:
        """Tiers within which gangs are packed or spread evenly, and in which ways."""
        known = self._simple.get((model, gpus))
        if known is None:
            known = self._simple[model, gpus] = [
                (tier, way)
                for tier in (MACHINE, RACK, NETWORK)
                for way in self._judged(self._kinds(tier), model, gpus)
            ]
        return known

    def _judged(self, kinds: Iterable[tuple[int, int]], model: str, gpus: int) -> Iterator[_Recipe]:
        """Those of some ways that hold a gang, with their worth where everything is free."""
        for racks, machines in kinds:
            placement = self._where_all_is_free(_Recipe((0.0, 0), racks, machines), gpus)
            if placement is not None:
                yield _Recipe(self.worth(model, placement), racks, machines)

    def _where_all_is_free(self, way: _Recipe, gpus: int) -> Placement | None:
        """Where a gang of any model lies in one way, everything being free; None for nowhere."""
        key = way.racks, way.machines, gpus
        if key not in self._alone:
            room = _Room(self._all, gpus)
            self._alone[key] = next(self._realised(way, room, gpus), None)
        return self._alone[key]

    def _kinds(self, tier: int) -> Iterator[tuple[int, int]]:
        """Racks and machines of all ways just within a tier; ties are broken in this order."""
        racks, machines = self._all.shape
        if tier == MACHINE:
            yield 1, 1
        elif tier == RACK:
            yield from ((1, count) for count in (0, *range(2, machines + 1)))
        else:
            yield 0, 0
            yield from ((count, inside) for count in range(2, racks + 1) for inside in (0, 1))

    def _finer_kinds(self, gpus: int) -> Iterator[tuple[int, int]]:
        """Racks, up to twice as many as it takes, and machines in all, not as few as can be."""
        held, inside = self._all.sum(axis=1), self._all.shape[1]
        for racks in range(2, min(held.size, 2 * fewest_places(held, gpus)) + 1):
            yield from ((racks, machines) for machines in range(racks, racks * inside + 1))

    def _realised(self, way: _Recipe, room: _Room, gpus: int) -> Iterator[Placement]:
        """Placements on what is free in one way, as near to it as that allows."""
        if way.racks == 1:
            if way.machines == 1:
                return self._in_a_machine(room.free, gpus)
            return self._in_a_rack(way, room, gpus)
        return self._over_racks(way, room, gpus)

    def _in_a_machine(self, free: Int64s, gpus: int) -> Iterator[Placement]:
        if free.max() >= gpus:
            yield choose(free, gpus, MACHINE, self._best_fit)

    def _in_a_rack(self, way: _Recipe, room: _Room, gpus: int) -> Iterator[Placement]:
        """Placements over several machines of one rack, in the fullest racks first."""
        for rack in room.racks:
            parts = self._inside(room.free[rack], gpus, way.machines)
            if parts is not None and len(parts) > 1:
                yield tuple([(rack, machine, part) for machine, part in parts])

    def _over_racks(self, way: _Recipe, room: _Room, gpus: int) -> Iterator[Placement]:
        """At most one placement over several racks."""
        free = room.free
        spread: Mapping[int, Parts | None] | None = None
        if way.machines > 1:
            shares = evenly_over_machines(free, way.racks, way.machines, gpus) or {}
            spread = {rack: tuple(sorted(inside.items())) for rack, inside in shares.items()}
        elif way.racks:
            by_rack = evenly_over(room.by_rack.tolist(), way.racks, gpus) or {}
            spread = {
                rack: self._inside(
                    free[rack], part, way.machines and fewest_places(free[rack], part)
                )
                for rack, part in by_rack.items()
            }
        elif room.by_rack.sum() >= gpus:
            by_rack = self._best_fit.several(room.by_rack, gpus)
            spread = {rack: self._inside(free[rack], part, 0) for rack, part in by_rack.items()}
        if spread:
            yield _placement(spread)

    def _inside(self, free: Int64s, gpus: int, machines: int) -> Parts | None:
        """Share GPUs over machines of a rack: so many evenly, or packed for 0; None if it fails.

        Racks are free in few ways, and asked for the same again and again.
        """
        key = free.tobytes(), gpus, machines
        if key not in self._parts:
            if len(self._parts) > _REMEMBERED:
                self._parts.clear()
            if machines:
                shares = evenly_over(free.tolist(), machines, gpus)
            else:
                shares = self._best_fit.several(free, gpus)
            self._parts[key] = None if shares is None else tuple(sorted(shares.items()))
        return self._parts[key]


def _placement(shares: Mapping[int, Parts | None]) -> Placement:
    """Write GPUs by rack and machine as a placement."""
    return tuple(
        (rack, machine, part)
        for rack, inside in sorted(shares.items())
        for machine, part in inside or ()
    )
