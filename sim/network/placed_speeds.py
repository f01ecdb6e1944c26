"""What all speeds are given that depend on where gangs sit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.places import Placement
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.engine.speeds import Speeds

    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]

__all__ = ["PlacedSpeeds", "SpeedsAmongNeighbours"]


class PlacedSpeeds:
    """Base of speeds that depend on where gangs sit, see `apportion.sim.engine.speeds.Speeds`.

    Parameters
    ----------
    free
        Speeds of gangs that communicate at no cost.
    job_types
        What each job trains, length (jobs,).
    held
        What each gang has that has devices, something else when it has moved.
    where
        Returns the placement of a gang.
    """

    def __init__(
        self,
        free: Speeds,
        job_types: Sequence[str],
        held: Mapping[int, object],
        where: Callable[[int], Placement],
    ) -> None:
        self._free, self._job_types = free, job_types
        self._held, self._where = held, where


class SpeedsAmongNeighbours(PlacedSpeeds, ABC):
    """Base of those with which a gang slows others, see `NeighbourSpeeds` there."""

    def rates(self, gangs: Gangs) -> Floats:
        """Return the steps/s of every line, shape (lines,)."""
        return self.rates_among(gangs, np.ones(gangs.job.size, dtype=bool))

    @abstractmethod
    def rates_among(self, gangs: Gangs, there: Bools) -> Floats:
        """Return the steps/s of every line while some lines are there no more, shape (lines,)."""
