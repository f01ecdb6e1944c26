"""Switches in a tree, with or without rails: which uplinks a gang uses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from apportion.checks import label, listed, number, whole
from apportion.errors import InputError, written
from apportion.sim.network.topology import MOST_LINKS, members_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class SwitchLevel:
    """One level of a tree: units of one size, each with links to the level above.

    Parameters
    ----------
    name
        What a unit is: a server, a leaf, a pod.
    size
        Units of the level below in each; GPUs at the innermost level.
    uplink_gbps
        Gb/s per direction of all links from one unit to the level above.
    rails
        Planes into which these links are divided evenly. GPU i sends over plane i modulo this,
        as in rail-optimised networks.

    Raises
    ------
    InputError
        If a number is out of range; it names the level.
    """

    name: str
    size: int
    uplink_gbps: float
    rails: int = 1

    def __post_init__(self) -> None:
        label("name of a level", self.name)
        whole(f"The size of level {self.name!r}", self.size, 1)
        number(f"The uplink_gbps of level {self.name!r}", self.uplink_gbps, strict=True)
        whole(f"The rails of level {self.name!r}", self.rails, 1)


@dataclass(frozen=True)
class TreeTopology:
    """Switches in a tree; parallel links between two levels count as one of their sum.

    A gang uses the uplinks of every unit that it has GPUs in, at every level at which it is in
    several units: a ring around its GPUs enters and leaves each of them once. Traffic is taken to
    be spread evenly over parallel links.

    Parameters
    ----------
    name
        As results show it.
    levels
        From the inside out. Above the outermost there is one switch.
    units
        Units of the outermost level.

    Raises
    ------
    InputError
        If there is no level, two have one name, or rails do not fit GPUs or those of the level
        below.
    """

    name: str
    levels: tuple[SwitchLevel, ...]
    units: int

    def __post_init__(self) -> None:
        label("name of a topology", self.name)
        levels = listed(f"The levels of {self.name!r}", self.levels)
        for level in levels:
            if not isinstance(level, SwitchLevel):
                raise InputError(f"A level of {self.name!r} is {written(level)}; give SwitchLevel.")
        if not levels or len({level.name for level in levels}) < len(levels):
            raise InputError(f"The topology {self.name!r} needs levels with names of their own.")
        whole(f"The units of {self.name!r}", self.units, 1)
        object.__setattr__(self, "levels", tuple(levels))
        self._check_rails()
        links = sum(self.gpus // size * level.rails for level, size in self._sized)
        if links > MOST_LINKS:
            raise InputError(f"{self.name!r} has {links:,} links; at most {MOST_LINKS:,} are told.")

    def _check_rails(self) -> None:
        """Refuse rails without GPUs, and those that no rail of the level below leads to."""
        for level, gpus in self._sized:
            if gpus % level.rails:
                raise InputError(
                    f"The level {level.name!r} of {self.name!r} has {level.rails} rails for "
                    f"{gpus} GPUs of a unit; give as many to each rail."
                )
        for below, level in pairwise(self.levels):
            if below.rails % level.rails and below.rails > 1:
                raise InputError(
                    f"The level {level.name!r} of {self.name!r} has {level.rails} rails over the "
                    f"{below.rails} of {below.name!r}; each must take up as many of these."
                )

    @property
    def gpus(self) -> int:
        """GPUs of the cluster."""
        return self.units * math.prod(level.size for level in self.levels)

    @property
    def capacities(self) -> Mapping[str, float]:
        """Gb/s per direction of every uplink, or of each rail of it."""
        return self._capacities

    @cached_property
    def _capacities(self) -> dict[str, float]:
        return {
            _uplink(level, unit, rail): level.uplink_gbps / level.rails
            for level, size in self._sized
            for unit in range(self.gpus // size)
            for rail in range(level.rails)
        }

    @property
    def _sized(self) -> list[tuple[SwitchLevel, int]]:
        """Levels, each with the GPUs of one unit."""
        sizes = [level.size for level in self.levels]
        return [(level, math.prod(sizes[: at + 1])) for at, level in enumerate(self.levels)]

    def links_of(self, gpus: Iterable[int]) -> tuple[str, ...]:
        """Links that the collectives of a gang use, inner first.

        Parameters
        ----------
        gpus
            Numbers of its GPUs, counted through the units of the innermost level.

        Raises
        ------
        InputError
            For a number that is none of a GPU.
        """
        members = members_of(gpus, self.gpus, self.name)
        used: list[str] = []
        for level, size in self._sized:
            if len({gpu // size for gpu in members}) > 1:
                used += dict.fromkeys(
                    _uplink(level, gpu // size, gpu % level.rails) for gpu in members
                )
        return tuple(used)


def _uplink(level: SwitchLevel, unit: int, rail: int) -> str:
    return f"{level.name} {unit}" + (f" rail {rail}" if level.rails > 1 else "")
