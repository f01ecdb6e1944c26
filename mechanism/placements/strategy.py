"""What a placement is: it sees a gang and the devices and chooses some that are free, or none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.own import WHOLE
from apportion.own_code import answered_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.devices import Devices
    from apportion.mechanism.placements.by_speed import Placing
    from apportion.mechanism.scheduler import Placement


class Gang(NamedTuple):
    """A gang that needs devices.

    Attributes
    ----------
    job
        Its number.
    gpus
        How many it needs.
    kind
        Position of the accelerator type that it gets.
    model
        What it trains, as a network model knows it.
    tiers
        Where the gang has been offered GPUs tier by tier: the tightest tier that it accepts and
        that has room for it, and the widest that it accepts. ``None`` if it may lie anywhere and
        nobody knows of tiers.
    before
        Devices that it had until now, which others may have taken in the same instant.
    memory_gb
        Memory that it takes of each GPU, GB; 0 if that does not count.
    load
        Service that it is due on each, GPU-seconds.
    """

    job: int
    gpus: int
    kind: int = 0
    model: str = ""
    tiers: tuple[int, int] | None = None
    before: Sequence[int] | None = None
    memory_gb: float = 0.0
    load: float = 0.0


class Strategy(ABC):
    """Chooses devices for one gang after the other; gangs that keep theirs are never asked about.

    A class of one's own has a `name`, says what it does in `choose`, and is made known by
    `apportion.mechanism.placements.register`.

    Parameters
    ----------
    rng
        What it may draw from.
    placings
        How fast gangs are where, by accelerator type; empty if nobody knows.
    """

    name: ClassVar[str]
    """Name in the registry."""
    chooses_anew: ClassVar[bool] = False
    """Whether gangs whose leases end are asked about, though what they had is free again."""
    largest_first: ClassVar[bool] = False
    """Whether, of gangs that start in one round, those with most GPUs choose first."""

    compares_whole: ClassVar[bool] = False
    """Whether all gangs that are placed at once are compared together, by `choose_together`."""

    def __init__(
        self, rng: np.random.Generator | None = None, placings: Sequence[Placing] = ()
    ) -> None:
        self.rng = np.random.default_rng(0) if rng is None else rng
        self.placings = placings

    @abstractmethod
    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        """Choose devices of the gang's type that are free for it, and change nothing.

        Parameters
        ----------
        gang
            Who needs them.
        devices
            What there is: `Devices.free_for` tells the machines with what is free for the gang,
            `Devices.are_free_for` the same device by device, `Devices.loads` what is due on each,
            `Devices.held` who holds what.

        Returns
        -------
        sequence of int or None
            Numbers of as many different devices as the gang has GPUs, or None: it has to wait.
        """

    def choose_again(self, gang: Gang, stay: Sequence[int], devices: Devices) -> Sequence[int]:
        """Choose for a gang whose lease has ended and that could stay, as it does as a rule.

        Parameters
        ----------
        gang, devices
            As in `choose`.
        stay
            What it had until now, or what the network makes better for it; all of it is free.
        """
        return stay

    def first(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        """Choose for a gang before all are compared, as it chooses for one as a rule."""
        return self.choose(gang, devices)

    def choose_together(self, gangs: Sequence[Gang], devices: Devices) -> Sequence[Placement]:
        """Choose where gangs are that are placed at once: where they would be, as a rule.

        Parameters
        ----------
        gangs
            Each with the devices that it would have, `Gang.before`, which are free for now.
        devices
            As in `choose`.

        Returns
        -------
        sequence of Placement
            As many GPUs in each machine as it says, for each gang.
        """
        return [devices.free_for(gang).placement(gang.before or ()) for gang in gangs]

    def remember(self, gang: int, model: str) -> None:  # most remember nothing
        """Take down what a gang trains now that holds devices."""
        return

    def figures(self) -> dict[str, list[int]]:
        """Return what a run is to tell of the placement, a column each; nothing as a rule."""
        return {}


class WatchedPlacement:
    """Asks a placement of one's own, and refuses in words what no devices are; see `Strategy`.

    Whether they are free is known to whoever gives them.
    """

    def __init__(self, own: Strategy) -> None:
        self.own = own

    def __getattr__(self, name: str) -> Any:
        """Return what else it has."""
        return getattr(self.own, name)

    def choose(self, gang: Gang, devices: Devices) -> list[int] | None:
        """Ask which devices a gang gets; None if it has to wait."""
        chosen = self.own.choose(gang, devices)
        return None if chosen is None else self._numbers(chosen, gang, "choose")

    def choose_again(self, gang: Gang, stay: Sequence[int], devices: Devices) -> list[int]:
        """Ask which it gets that could stay."""
        again = self.own.choose_again(gang, stay, devices)
        return self._numbers(again, gang, "choose_again")

    def _numbers(self, chosen: Any, gang: Gang, method: str) -> list[int]:
        try:
            numbers = list(chosen)
        except TypeError:
            numbers = [chosen]
        if not all(type(each) in WHOLE for each in numbers):
            raise InputError(
                f"The placement {self.own.name!r} chose {written(chosen)} for job {gang.job}; it "
                f"must be a list of {gang.gpus} devices, by their numbers, or None from choose."
                f"{answered_by(self.own, method)}"
            )
        return [int(each) for each in numbers]
