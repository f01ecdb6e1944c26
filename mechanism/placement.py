"""Where gangs run: devices by a placement; gangs that continue are left where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from apportion.annotations import explained
from apportion.errors import InputError
from apportion.mechanism.devices import Devices, Held
from apportion.mechanism.placements import PLACEMENTS, Gang, get_placement
from apportion.mechanism.placements.by_speed import Placing
from apportion.mechanism.placements.strategy import WatchedPlacement
from apportion.mechanism.scheduler import Placement, can_hold, tier_of
from apportion.own_code import answered_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.placements import Strategy
    from apportion.mechanism.placements.by_speed import Pace
    from apportion.mechanism.scheduler import Gangs


class Placer:
    """Devices, and the placement by which gangs get them.

    Parameters
    ----------
    cluster
        Machines of each accelerator type, or devices.
    strategy
        A placement: its name (`PLACEMENTS`), or its class.
    seed
        Seed of placements that draw at random, or what they draw from.
    pace
        How slow models are on placements. ``None`` if it does not count where gangs are.

    Attributes
    ----------
    devices
        Who holds what.
    rng
        What placements at random draw from.

    Raises
    ------
    InputError
        If there is no placement of that name.
    """

    @explained
    def __init__(
        self,
        cluster: Cluster | Devices,
        strategy: Any = "consolidated",
        seed: int | np.random.Generator = 0,
        *,
        pace: Pace | None = None,
    ) -> None:
        self.devices = cluster if isinstance(cluster, Devices) else Devices.of(cluster)
        self.strategy = PLACEMENTS.name_of(strategy)
        self.rng = np.random.default_rng(seed)
        self.placings: list[Placing] = []
        if pace is not None:
            self.placings = [Placing(pool.gpus, pace) for pool in self.devices.pools]
        self._choice = get_placement(strategy, self.rng, self.placings)
        self._own = not type(self._choice).__module__.startswith("apportion.")
        if self._own:
            self._choice = cast("Strategy", WatchedPlacement(self._choice))
        self.accelerators = self.devices.accelerators
        self.pools = self.devices.pools

    @property
    def held(self) -> dict[int, Held]:
        """Type and devices of every gang that has some; not to be changed."""
        return self.devices.held

    def held_by(self, gangs: NDArray[np.intp]) -> list[Held]:
        """Return type and devices of each of some gangs that have some."""
        return [*map(self.devices.held.__getitem__, gangs.tolist())]

    def gangs(self, jobs: NDArray[np.intp]) -> Gangs:
        """Return the gangs of jobs that have devices, as `Devices.gangs`."""
        return self.devices.gangs(jobs)

    @property
    def chooses_anew(self) -> bool:
        """Whether the placement is asked about gangs whose leases end, though they could stay."""
        return self._choice.chooses_anew

    @property
    def compares_whole(self) -> bool:
        """Whether the placement compares all gangs that are placed at once."""
        return self._choice.compares_whole

    def figures(self) -> dict[str, list[int]]:
        """Return what a run is to tell of the placement; see `Strategy.figures`."""
        return self._choice.figures()

    def remember(self, gang: int, model: str) -> None:
        """Tell the placement what a gang trains now that has devices."""
        self._choice.remember(gang, model)

    def place_again(self, gang: Gang, stay: Sequence[int]) -> None:
        """Give a gang devices that has none for a moment: these that it had, or better ones."""
        self._hold(gang, self._choice.choose_again(gang, stay, self.devices))

    def release(self, gangs: Iterable[int]) -> None:
        """Free the devices of gangs."""
        self.devices.release(gangs)

    def place(
        self,
        gangs: Sequence[int],
        types: Sequence[int],
        gpus: Sequence[int],
        models: Sequence[str] | None = None,
    ) -> list[int]:
        """Give devices to gangs that have none; return the positions of those that got none.

        Parameters
        ----------
        gangs, types, gpus
            Number, type and GPUs of each.
        models
            What each trains, as the pace knows it.
        """
        order: Iterable[int] = range(len(gangs))
        if self._choice.largest_first:
            order = sorted(order, key=gpus.__getitem__, reverse=True)
        whole = self._choice.compares_whole
        choose = self._choice.first if whole else self._choice.choose
        devices, declined, placed = self.devices, [], list[Gang]()
        for k in order:
            gang = Gang(gangs[k], gpus[k], types[k], models[k] if models else "")
            chosen = choose(gang, devices)
            if whole and chosen is not None:
                placed.append(gang)
            if chosen is None:
                declined.append(k)
            elif len(chosen) == gpus[k]:  # as `_hold` does, in which many gangs spend their time
                try:
                    devices.hold(gangs[k], types[k], chosen)
                except InputError as error:
                    raise self._refused(gang, chosen, error) from error
            else:
                self._hold(gang, chosen)
        self.compare(placed)
        return declined

    def compare(self, gangs: Sequence[Gang]) -> None:
        """Let gangs that have just got devices come to others that suit all of them better.

        Nothing happens with a placement that does not compare whole ones.
        """
        if not (gangs and self._choice.compares_whole):
            return
        before = [self.devices.give_back(gang.job)[1] for gang in gangs]
        gangs = [gang._replace(before=has) for gang, has in zip(gangs, before, strict=True)]
        moved = []
        for gang, where in zip(gangs, self.together(gangs), strict=True):
            if where == self.pools[gang.kind].placement(gang.before or ()):
                self._hold(gang, gang.before or ())
            else:
                moved.append((gang, where))
        for gang, where in moved:
            self._hold(gang, self.pools[gang.kind].lowest(where))

    def together(self, gangs: Sequence[Gang]) -> Sequence[Placement]:
        """Return where gangs are to be, whose devices of before are free; see `Strategy`."""
        return self._choice.choose_together(gangs, self.devices)

    def give(
        self, gang: Gang, *, first: bool = False, accepted: bool = False
    ) -> Sequence[int] | None:
        """Give a gang the devices that it gets by `choose`, if it gets any; return them.

        With `accepted` it gets none that lie in a wider tier than it accepts, which a placement of
        one's own may choose.

        Raises
        ------
        InputError
            If the placement chooses what the gang cannot have.
        """
        chosen = self.choose(gang, first=first)
        if accepted and chosen is not None and gang.tiers is not None:
            chosen = chosen if tier_of(self.where(gang, chosen)) <= gang.tiers[1] else None
        if chosen is not None:
            self._hold(gang, chosen)
        return chosen

    def choose(self, gang: Gang, *, first: bool = False) -> Sequence[int] | None:
        """Return the devices that a gang would get, or None; `first` if all are compared later.

        What it had until now it keeps, or as many GPUs of the same machines, if they are free and
        within the tiers that it accepts, unless others are better for it or the placement chooses
        anew.
        """
        stay = self._stay(gang)
        if first and self._choice.compares_whole:
            return self._choice.first(gang, self.devices) if stay is None else stay
        if stay is None:
            return self._choice.choose(gang, self.devices)
        return self._choice.choose_again(gang, stay, self.devices)

    def _stay(self, gang: Gang) -> Sequence[int] | None:
        """Return what a gang had until now, or what is better for it; None if it cannot stay."""
        if gang.before is None or gang.tiers is None:
            return None
        pool, widest = self.devices.free_for(gang), gang.tiers[1]
        before = self.devices.layout.placement((gang.kind, gang.before))
        if tier_of(before) > widest or not can_hold(pool.free, before):
            return None
        better = None
        if self.placings:
            better = self.placings[gang.kind].better(
                pool.free, gang.model, gang.gpus, widest, before
            )
        if better is None and pool.are_free(gang.before):
            return gang.before
        return pool.lowest(better or before)

    def where(self, gang: Gang, chosen: Sequence[int]) -> Placement:
        """Return where the devices are that a placement has chosen for a gang.

        Raises
        ------
        InputError
            If one of the user's own has not chosen so many free devices; it names the placement.
        """
        free = not self._own or self.devices.free_for(gang).are_free(chosen)
        if not free or not len(set(chosen)) == len(chosen) == gang.gpus:
            raise self._refused(gang, chosen, InputError("They must be free, and as many."))
        return self.devices.layout.placement((gang.kind, chosen))

    def _hold(self, gang: Gang, chosen: Sequence[int]) -> None:
        """Give a gang what the placement has chosen."""
        try:
            if len(chosen) != gang.gpus:
                raise InputError(f"There are {len(chosen)}.")
            self.devices.hold(gang.job, gang.kind, chosen, gang.memory_gb, gang.load)
        except InputError as error:
            raise self._refused(gang, chosen, error) from error

    def _refused(self, gang: Gang, chosen: Sequence[int], why: InputError) -> InputError:
        """Say that the placement has chosen what the gang cannot have."""
        return InputError(
            f"The placement {self.strategy!r} chose {list(chosen)} for job {gang.job}, which needs "
            f"{gang.gpus} free devices of type {self.accelerators[gang.kind]!r}. {why}"
            f"{answered_by(getattr(self._choice, 'own', None), 'choose')}"
        )

    def is_split(self, gangs: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Tell which gangs have devices in more than one machine, shape (gangs,)."""
        return self.devices.is_split(gangs)
