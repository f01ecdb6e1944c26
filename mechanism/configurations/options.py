"""Which (type, GPUs) an elastic gang may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from apportion.annotations import explained
from apportion.checks import choice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.machines import MachinePool

    Ints = NDArray[np.intp]

__all__ = ["GANG_SIZES", "GangOptions"]

GANG_SIZES = ("every", "whole_nodes")
"""Ways to limit the GPUs of gangs."""


@dataclass(frozen=True, eq=False)
class GangOptions:
    """The options of a decision, type by type and ascending by GPUs; arrays of shape (options,).

    Attributes
    ----------
    kind
        Place of the accelerator type.
    gpus
        GPUs of the gang.
    nodes
        Machines that it needs, if it is packed.
    """

    kind: Ints
    gpus: Ints
    nodes: Ints

    @classmethod
    @explained
    def of(cls, pools: Sequence[MachinePool], sizes: str = "every") -> GangOptions:
        """List the options on machines.

        Parameters
        ----------
        pools
            Machines of each type.
        sizes
            ``"every"``: from 1 to all GPUs of a type. ``"whole_nodes"`` (Sia, section 3): 1, 2, 4,
            ... GPUs of one machine, and all GPUs of several machines of the largest kind. Gangs
            of such sizes can be placed so that no two that are distributed share a machine.

        Raises
        ------
        InputError
            For another word.
        """
        choice("gang_sizes", sizes, GANG_SIZES)
        listed: list[tuple[int, int, int]] = []
        for kind, pool in enumerate(pools):
            machines = np.sort(pool.gpus[pool.gpus > 0])[::-1]
            pairs = _every(machines) if sizes == "every" else _whole(machines)
            listed += [(kind, gpus, nodes) for gpus, nodes in pairs]
        table = np.array(listed, dtype=np.intp).reshape(-1, 3)
        return cls(*table.T)

    @property
    def count(self) -> int:
        """Number of options."""
        return self.kind.size

    def place(self, kind: int, gpus: int) -> int:
        """Return the place of the option of a type with so many GPUs."""
        return int(np.flatnonzero((self.kind == kind) & (self.gpus == gpus))[0])

    def largest(self, kind: int, gpus: int) -> int:
        """Return the place of the option of a type with most GPUs, up to so many; -1 for none."""
        fits = np.flatnonzero((self.kind == kind) & (self.gpus <= gpus))
        return int(fits[-1]) if fits.size else -1


def _every(machines: NDArray[np.int64]) -> list[tuple[int, int]]:
    """List every number of GPUs, with the fewest machines that have as many."""
    ends = np.cumsum(machines)
    gpus = np.arange(1, int(ends[-1]) + 1)
    nodes = np.searchsorted(ends, gpus) + 1
    return list(zip(gpus.tolist(), nodes.tolist(), strict=True))


def _whole(machines: NDArray[np.int64]) -> list[tuple[int, int]]:
    """List powers of two within a machine, and several whole machines."""
    most = int(machines[0])
    alike = int(np.count_nonzero(machines == most))
    parts = [2**power for power in range(most.bit_length()) if 2**power <= most]
    if parts[-1] < most:
        parts.append(most)
    return [(gpus, 1) for gpus in parts] + [(n * most, n) for n in range(2, alike + 1)]
