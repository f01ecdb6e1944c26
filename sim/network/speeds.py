"""How fast gangs are where they sit: the throughput over 1 + exposed communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.sim.engine.speeds import ByPlace, Speeds
from apportion.sim.network.shapes import shape_of_placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.devices import Held
    from apportion.mechanism.machines import Layout
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.network.model import NetworkModel

    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]

__all__ = ["NetworkSpeeds"]


class NetworkSpeeds(Speeds):
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
    layout
        In which machines and racks devices are.
    """

    apart = True

    def __init__(
        self, free: Speeds, job_types: Sequence[str], network: NetworkModel, layout: Layout
    ) -> None:
        def slowdown(job: int, held: Held) -> float:
            shape = shape_of_placement(layout.placement(held))
            return 1 + network.overhead(job_types[job], shape)

        self._free, self._slowdown = free, ByPlace(np.ones(len(job_types)), slowdown)

    def rates(self, gangs: Gangs, there: Bools | None = None) -> Floats:
        """Return the steps/s of every line, shape (lines,)."""
        rates: Floats = self._free.rates(gangs) / self._slowdown(gangs)
        return rates
