"""How many more gangs pack into the machines and racks of a type, each within its tier."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.mechanism.places import MACHINE, NETWORK, RACK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.places import Placement

    Ints = NDArray[np.int64]

__all__ = ["Spot", "TierRoom"]

_MANY = np.iinfo(np.int64).max


class Spot(NamedTuple):
    """Where a gang has been packed: a tier, and the rack and the machine where these are chosen."""

    tier: int
    rack: int = -1
    machine: int = -1

    def holds(self, placement: Placement) -> bool:
        """Tell whether a gang that lies there already has what it was packed for."""
        if self.tier == NETWORK:
            return True
        if self.tier == RACK:
            return all(rack == self.rack for rack, _, _ in placement)
        return all((rack, at) == (self.rack, self.machine) for rack, at, _ in placement)


class TierRoom:
    """GPUs of a type that are left in machines, in racks and in all.

    Gangs within a rack leave open in which of its machines they lie, others in which racks: so
    whoever comes later finds a machine if there can be one. All that were taken fit at once: those
    in machines first, then those in racks, then the others.

    Parameters
    ----------
    gpus
        GPUs of each machine, shape (racks, machines per rack).
    """

    def __init__(self, gpus: Ints) -> None:
        self._machines, self._racks, self.left = gpus.copy(), gpus.sum(axis=1), int(gpus.sum())

    def take(self, gpus: int, tier: int) -> Spot | None:
        """Make room for a gang within a tier, in the fullest machine or rack, if there is any."""
        if gpus > self.left:
            return None
        spot = Spot(tier)
        if tier == RACK:
            rack = int(np.where(self._racks >= gpus, self._racks, _MANY).argmin())
            if self._racks[rack] < gpus:
                return None
            spot = Spot(tier, rack)
        elif tier == MACHINE:
            fits = (self._machines >= gpus) & (self._racks >= gpus)[:, None]
            if not fits.any():
                return None
            place = int(np.where(fits, self._machines, _MANY).argmin())
            spot = Spot(tier, *divmod(place, self._machines.shape[1]))
            self._machines[spot.rack, spot.machine] -= gpus
        if tier != NETWORK:
            self._racks[spot.rack] -= gpus
        self.left -= gpus
        return spot
