"""How fast gangs really are: the part of the fluid runtime that another model replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.placement import Placer
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.engine.truth import Truth

    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]

__all__ = ["NeighbourSpeeds", "Speeds", "TableSpeeds", "TimedSpeeds"]


class Speeds(Protocol):
    """Who slows whom."""

    def rates(self, gangs: Gangs) -> Floats:
        """Return the steps/s of every line, given where all of them are, shape (lines,).

        Asked at every decision, with all that have devices from then on: what a gang makes may
        depend on its neighbours.
        """
        ...


@runtime_checkable
class NeighbourSpeeds(Speeds, Protocol):
    """Speeds that change when another gang is done, even if nobody decides anything then."""

    def rates_among(self, gangs: Gangs, there: Bools) -> Floats:
        """Return the steps/s of every line while only those are there that are marked."""
        ...


@runtime_checkable
class TimedSpeeds(NeighbourSpeeds, Protocol):
    """Speeds that also change by themselves as time goes by, and that are told what was done."""

    def at(self, now_s: float) -> bool:
        """Take note of the time; return whether speeds must be asked for anew."""
        ...

    def changes_s(self) -> float:
        """Return when speeds change next if nothing else happens; infinite for never."""
        ...

    def worked(self, gangs: Gangs, worked_s: Floats) -> None:
        """Take down how long each line worked at the speeds that were asked for last."""
        ...

    def state(self) -> dict[str, Any]:
        """Return everything that later speeds depend on, for JSON."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`."""
        ...


class TableSpeeds:
    """The workload's throughputs: of jobs alone, of pairs, of gangs split over machines.

    Parameters
    ----------
    truth
        Has the tables.
    devices
        Knows which gangs are split.
    """

    def __init__(self, truth: Truth, devices: Placer | None) -> None:
        self._truth, self._devices = truth, devices

    def rates(self, gangs: Gangs) -> Floats:
        """Look up table speed, or speed beside the mate, times the ratio of split gangs."""
        truth, (job, gang, option, _, mate, _) = self._truth, gangs
        rate = np.asarray(truth.speed[job, option], dtype=float)
        if mate is not None and truth.beside is not None:
            paired = (mate != np.arange(mate.size)).nonzero()[0]
            own = truth.beside.beside(job[paired], job[mate[paired]])
            rate[paired] = own[np.arange(paired.size), option[paired]]
        if truth.split_ratio is not None and self._devices is not None:
            split = self._devices.is_split(gang)
            rate = rate * np.where(split, truth.split_ratio[job, option], 1.0)
        return rate
