"""How fast gangs are where they sit: the throughput over 1 + exposed communication."""

from __future__ import annotations

from itertools import compress
from operator import is_not
from typing import TYPE_CHECKING

import numpy as np

from apportion.sim.network.shapes import shape_of_placement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.places import Placement
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.engine.speeds import Speeds
    from apportion.sim.network.model import NetworkModel

    Floats = NDArray[np.float64]

__all__ = ["NetworkSpeeds"]


class NetworkSpeeds:
    """Steps/s by the shapes of gangs, see `apportion.sim.engine.speeds.Speeds`.

    ``speed / (1 + overhead)``, the overhead being that of the job's type and the shape of its
    gang. No gang slows another.

    Parameters
    ----------
    free
        Speeds without exposed communication.
    job_types
        What each job trains, length (jobs,).
    network
        Knows the overheads.
    held
        What each gang has that has devices, something else when it has moved.
    where
        Returns the placement of a gang.
    """

    def __init__(
        self,
        free: Speeds,
        job_types: Sequence[str],
        network: NetworkModel,
        held: Mapping[int, object],
        where: Callable[[int], Placement],
    ) -> None:
        self._free, self._job_types, self._network = free, job_types, network
        self._held, self._where = held, where
        self._seen: list[object] = [None] * len(job_types)
        self._slowdown = np.ones(len(job_types))

    def rates(self, gangs: Gangs) -> Floats:
        """Return the steps/s of every line, shape (lines,)."""
        jobs, names, seen = gangs.job.tolist(), gangs.gang.tolist(), self._seen
        held = [*map(self._held.__getitem__, names)]
        others = map(is_not, held, map(seen.__getitem__, jobs))
        for job, gang, has in compress(zip(jobs, names, held, strict=True), others):
            if has != seen[job]:
                shape = shape_of_placement(self._where(gang))
                self._slowdown[job] = 1 + self._network.overhead(self._job_types[job], shape)
            seen[job] = has
        rates: Floats = self._free.rates(gangs) / self._slowdown[gangs.job]
        return rates
