"""Gangs that share GPUs: who is on which of them, and the memory that each takes there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from apportion.checks import mapping, number
from apportion.errors import InputError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.types import Bools

_SLACK = 1e-9
"""Share of a GPU's memory by which sums of what gangs take may exceed it: rounding."""


class GPUMemory:
    """What is taken of the memory of GPUs, of whom several gangs may be on one at a time.

    Parameters
    ----------
    accelerators
        Names of the accelerator types, in order.
    memory_gb
        Memory of one GPU of each, GB.
    gpus
        How many there are of each.

    Raises
    ------
    InputError
        If the memory of a type is missing, not above 0, or that of a type that does not exist.
    """

    def __init__(
        self, accelerators: Sequence[str], memory_gb: Mapping[str, float], gpus: Sequence[int]
    ) -> None:
        given = mapping("memory_gb", memory_gb)
        for name in given:
            if name not in accelerators:
                raise unknown_name("accelerator in memory_gb", name, accelerators)
        for name in accelerators:
            if name not in given:
                raise InputError(f"memory_gb has no entry for {name!r}; every type needs one.")
        self._gb = [
            number(f"memory_gb of {name!r}", given[name], strict=True) for name in accelerators
        ]
        self._on: list[dict[int, dict[int, float]]] = [{} for _ in accelerators]
        self._taken_gb = [np.zeros(count) for count in gpus]

    def fits(self, kind: int, memory_gb: float) -> bool:
        """Tell whether a GPU of a type has so much memory at all."""
        return memory_gb <= self._gb[kind] * (1 + _SLACK)

    def room(self, kind: int, memory_gb: float) -> Bools:
        """Tell which devices of a type have so much memory left, shape (devices,).

        A gang that tells nothing takes all.
        """
        wanted_gb = self._taken_gb[kind] + (memory_gb or self._gb[kind])
        return np.asarray(wanted_gb <= self._gb[kind] * (1 + _SLACK))

    def enter(self, gang: int, kind: int, devices: Sequence[int], memory_gb: float) -> list[int]:
        """Let a gang onto devices that have room for it; return those where nobody was."""
        on = self._on[kind]
        empty = [device for device in devices if device not in on]
        for device in devices:
            on.setdefault(device, {})[gang] = memory_gb or self._gb[kind]
        self._add_up(kind, devices)
        return empty

    def _add_up(self, kind: int, devices: Sequence[int]) -> None:
        """Work out what is taken of devices, the same in whichever order gangs came."""
        on, taken_gb = self._on[kind], self._taken_gb[kind]
        for device in devices:
            taken_gb[device] = math.fsum(on[device].values())

    def leave(self, gang: int, kind: int, devices: Sequence[int]) -> list[int]:
        """Take a gang off devices; return those on which nobody is left."""
        on = self._on[kind]
        for device in devices:
            del on[device][gang]
        self._add_up(kind, devices)
        empty = [device for device in devices if not on[device]]
        for device in empty:
            del on[device]
        return empty

    def hand_over(self, old: int, new: int, kind: int, devices: Sequence[int]) -> None:
        """Put one gang in the place of another."""
        for device in devices:
            on = self._on[kind][device]
            on[new] = on.pop(old)
