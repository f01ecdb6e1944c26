"""The GPUs of all types in racks: who holds which, what is free, what was given back just now."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from apportion.mechanism.offers.racks import Racks
from apportion.mechanism.places import Placement, Room, room_of, tier_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from apportion.mechanism.placement import Placer
    from apportion.mechanism.placements import Gang

    Ints = NDArray[np.int64]

__all__ = ["Holdings"]


class Holdings:
    """Takes GPUs from jobs and gives them some, by a placement.

    Parameters
    ----------
    placer
        GPUs in whole racks, each of one accelerator type, and their placement.

    Attributes
    ----------
    held
        Where the GPUs of each job are that has some.
    racks
        Those of each type.
    """

    def __init__(self, placer: Placer) -> None:
        self.placer = placer
        self.held: dict[int, Placement] = {}
        kinds = range(len(placer.pools))
        self.racks = [Racks(self.placer.devices, kind, self.held) for kind in kinds]
        self._given_back: dict[int, tuple[int, Sequence[int], Placement]] = {}

    @property
    def room(self) -> Sequence[int]:
        """Most GPUs that one gang can have free at each option, type by type."""
        return _behind_each_other([each.room for each in self.racks])

    @cached_property
    def room_of_all(self) -> Sequence[int]:
        """The same if all were free."""
        return _behind_each_other([each.room_of_all for each in self.racks])

    def room_with(self, job: int) -> Sequence[int]:
        """Return the room that there would be if a job gave its GPUs back."""
        return _behind_each_other([room_of(free) for free in self.free_with(job)])

    def free_with(self, job: int) -> list[Ints]:
        """Free GPUs of the machines of each type if a job gave its own back."""
        own = self.placer.held[job][0]
        return [
            racks.free_with(job) if kind == own else racks.free
            for kind, racks in enumerate(self.racks)
        ]

    def give_back(self, job: int) -> None:
        """Free the GPUs of a job for good."""
        self.racks[self.placer.held[job][0]].give_back(job)

    def lend_back(self, job: int) -> None:
        """Free the GPUs of a job that may have them again in the same instant."""
        kind, devices = self.placer.held[job]
        self._given_back[job] = kind, devices, self.racks[kind].give_back(job)

    def forget(self) -> None:
        """Let the instant be over: what was given back is as any other."""
        self._given_back.clear()

    def before(self, job: int) -> tuple[int, Placement] | None:
        """Return type and placement of what a job has given back in this instant, if anything."""
        if job not in self._given_back:
            return None
        kind, _, placement = self._given_back[job]
        return kind, placement

    def hold_planned(self, job: int, kind: int, placement: Placement) -> bool:
        """Give a job GPUs where a plan says, its own if it had them; return whether it had."""
        _, devices, _ = self._given_back.get(job, (kind, None, placement))
        again = self.before(job) == (kind, placement)
        free = again and devices is not None and self.placer.pools[kind].are_free(devices)
        self.hold(job, kind, placement, devices if free else None)
        return again

    def choose(self, gang: Gang) -> tuple[Sequence[int], Placement, bool] | None:
        """Return devices for a gang, where they are, and whether it had these before; or None.

        `None` if the placement has none for it within the tiers that it accepts.
        """
        kind, before, lay = self._given_back.get(gang.job, (gang.kind, None, None))
        if kind != gang.kind:
            before = lay = None
        gang = gang._replace(before=before)
        devices = self.placer.choose(gang, first=True)
        if devices is None:
            return None
        if lay is not None and devices is before:
            return devices, lay, True
        placement = self.placer.where(gang, devices)
        if gang.tiers is not None and tier_of(placement) > gang.tiers[1]:
            return None
        return devices, placement, lay == placement

    def hold(
        self, job: int, kind: int, placement: Placement, devices: Sequence[int] | None = None
    ) -> None:
        """Give a job GPUs of a type; by default those with the lowest numbers."""
        self.racks[kind].hold(job, placement, devices)

    def state(self) -> dict[str, Any]:
        """Return who holds what of all types, and what was given back, for JSON."""
        return {
            "racks": self.racks[0].state(),
            "given_back": [[job, *held[:2]] for job, held in self._given_back.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`, where nobody holds GPUs yet."""
        self.racks[0].restore(state["racks"])
        self._given_back = {
            job: (kind, devices, self.placer.pools[kind].placement(devices))
            for job, kind, devices in state["given_back"]
        }


def _behind_each_other(rooms: Sequence[Room]) -> Sequence[int]:
    """Return the room at every option, in the order of the types."""
    return rooms[0] if len(rooms) == 1 else tuple(gpus for room in rooms for gpus in room)
