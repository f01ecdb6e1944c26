"""A placement of one's own, watched at each choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.errors import InputError, written
from apportion.mechanism.own import WHOLE
from apportion.own_code import answered_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.devices import Devices
    from apportion.mechanism.placements.strategy import Gang, Strategy


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
