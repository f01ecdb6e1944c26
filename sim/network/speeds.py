"""How fast gangs are where they sit: the throughput over 1 + exposed communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.sim.network.shapes import shape_of_placement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.offers import Placement
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.network.model import NetworkModel

    Floats = NDArray[np.float64]

__all__ = ["NetworkSpeeds"]


class NetworkSpeeds:
    """Steps/s by the shapes of gangs, see `apportion.sim.engine.speeds.Speeds`.

    ``speed / (1 + overhead)``, the overhead being that of the job's type and the shape of its
    gang. No gang slows another.

    Parameters
    ----------
    speed
        Steps/s of each job without exposed communication, shape (jobs, types).
    job_types
        What each job trains, length (jobs,).
    network
        Knows the overheads.
    held
        Placement of each gang that has devices; kept up to date by whoever places.
    """

    def __init__(
        self,
        speed: Floats,
        job_types: Sequence[str],
        network: NetworkModel,
        held: Mapping[int, Placement],
    ) -> None:
        self._speed, self._job_types = speed, job_types
        self._network, self._held = network, held
        self._seen: list[Placement | None] = [None] * len(job_types)
        self._slowdown = np.ones(len(job_types))

    def rates(self, gangs: Gangs) -> Floats:
        """Return the steps/s of every line, shape (lines,)."""
        held, seen = self._held, self._seen
        for job, gang in zip(gangs.job.tolist(), gangs.gang.tolist(), strict=True):
            placement = held[gang]
            if placement is not seen[job]:
                seen[job] = placement
                shape = shape_of_placement(placement)
                self._slowdown[job] = 1 + self._network.overhead(self._job_types[job], shape)
        rates: Floats = self._speed[gangs.job, gangs.option] / self._slowdown[gangs.job]
        return rates
