"""Elastic gangs that come to other machines of the same shape, where their links suit them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.mechanism.placements import Gang

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apportion.mechanism.placement import Placer
    from apportion.mechanism.places import Placement

__all__ = ["ByLinks"]


class ByLinks:
    """Places gangs again that have just been packed, by a placement that compares links.

    Parameters
    ----------
    placer
        Holds the gangs, and has the placement that compares links.
    models
        What a gang trains on a type at a place, as the placement knows it.
    """

    def __init__(self, placer: Placer, models: Callable[[int, int, Placement], str]) -> None:
        self._placer, self._models = placer, models

    def place(self, gangs: Iterable[int]) -> None:
        """Let gangs that have GPUs come to as many in machines that suit them better."""
        devices = self._placer.devices
        for gang, (kind, _) in devices.held.items():
            self._placer.remember(gang, self._models(gang, kind, devices.placement(gang)))
        wide = []
        for gang in sorted(gangs, key=lambda each: (-len(devices.held[each][1]), each)):
            where, (kind, held) = devices.placement(gang), devices.held[gang]
            if len(where) > 1:
                wide.append(Gang(gang, len(held), kind, self._models(gang, kind, where)))
        if self._placer.compares_whole:
            self._placer.compare(wide)
            return
        for each in wide:
            self._placer.place_again(each, devices.give_back(each.job)[1])

    def state(self) -> dict[str, Any]:
        """Return what the placement remembers, for JSON."""
        return self._placer.memory()

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`."""
        self._placer.recall(state)
