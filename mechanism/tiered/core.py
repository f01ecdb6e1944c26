"""Rounds whose shares are of tiers: who gets a machine, a rack, or any GPUs of a type.

`TierRoom` says how many more gangs pack into machines and racks, each within its tier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.cluster import TIERS
from apportion.mechanism.core import RoundCore
from apportion.mechanism.core_rows import GangRound
from apportion.mechanism.placements.counts import BestFit, choose
from apportion.mechanism.placements.strategy import Gang
from apportion.mechanism.priorities import idle_first
from apportion.mechanism.scheduler import MACHINE, NETWORK, RACK

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from apportion.mechanism.devices import Held
    from apportion.mechanism.placement import Placer
    from apportion.mechanism.scheduler import Placement
    from apportion.types import Bools, Floats, Int64s, Ints


_MANY = np.iinfo(np.int64).max


class Spot(NamedTuple):
    """Where a gang has been packed: a tier, and the rack and the machine where these are chosen."""

    tier: int
    rack: int = -1
    machine: int = -1

    def holds(self, placement: Placement) -> bool:
        """Tell whether a gang that lies there already has what it was packed for."""
        if self.tier == NETWORK:
            return True
        if self.tier == RACK:
            return all(rack == self.rack for rack, _, _ in placement)
        return all((rack, at) == (self.rack, self.machine) for rack, at, _ in placement)


class TierRoom:
    """GPUs of a type that are left in machines, in racks and in all.

    Gangs within a rack leave open in which of its machines they lie, others in which racks: so
    whoever comes later finds a machine if there can be one. All that were taken fit at once: those
    in machines first, then those in racks, then the others.

    Parameters
    ----------
    gpus
        GPUs of each machine, shape (racks, machines per rack).
    """

    def __init__(self, gpus: Int64s) -> None:
        self._machines, self._racks, self.left = gpus.copy(), gpus.sum(axis=1), int(gpus.sum())

    def take(self, gpus: int, tier: int) -> Spot | None:
        """Make room for a gang within a tier, in the fullest machine or rack, if there is any."""
        if gpus > self.left:
            return None
        spot = Spot(tier)
        if tier == RACK:
            rack = int(np.where(self._racks >= gpus, self._racks, _MANY).argmin())
            if self._racks[rack] < gpus:
                return None
            spot = Spot(tier, rack)
        elif tier == MACHINE:
            fits = (self._machines >= gpus) & (self._racks >= gpus)[:, None]
            if not fits.any():
                return None
            place = int(np.where(fits, self._machines, _MANY).argmin())
            spot = Spot(tier, *divmod(place, self._machines.shape[1]))
            self._machines[spot.rack, spot.machine] -= gpus
        if tier != NETWORK:
            self._racks[spot.rack] -= gpus
        self.left -= gpus
        return spot


class TieredCore(RoundCore):
    """Gavel's rounds over shares of tiers: column ``type * 3 + tier`` is a tier of a type.

    Priorities are those of columns, so that a job gets the fraction of time in a machine that it
    has a share for, and the fraction anywhere else. Gangs are taken by priority while they pack:
    each within the tier that it is taken for. A gang in a tighter one has what it was taken for;
    gangs stay where they are if all can have their tiers so, and else those of the round are
    packed anew. Whoever is lent GPUs takes what is left, and its time counts at the tier that it
    got.

    Parameters are those of `RoundCore`. Source: Gavel (Narayanan et al., OSDI 2020), sections 3.1
    and 5: placement-sensitive jobs have a consolidated and an unconsolidated option of each type.
    """

    def __init__(
        self, capacity: ArrayLike, placer: Placer, round_seconds: float, **how: Any
    ) -> None:
        super().__init__(capacity, placer, round_seconds, columns_of_type=len(TIERS), **how)

    def ask(self) -> GangRound:
        """Choose the gangs of the next round and give them devices within their tiers."""
        running = np.flatnonzero(self.last_type >= 0)
        before = {row: self.placer.held[int(self.ids[row])] for row in running.tolist()}
        rows, columns, spots, wanted = self._packed()
        declined = self._stay_or_place(rows, columns, before)
        if declined is None:
            declined = []
            self._place_anew(rows, columns, spots, before)
        there = np.ones(rows.size, dtype=bool)
        there[declined] = False
        lent = np.arange(rows.size) >= wanted
        rows, columns, lent = rows[there], columns[there], lent[there]
        for line in np.flatnonzero(lent).tolist():
            tier = self.placer.devices.tier(int(self.ids[rows[line]]))
            columns[line] = self.kind[columns[line]] * len(TIERS) + tier
        self.last_type = np.full(self.ids.size, -1)
        self.last_type[rows] = columns
        now = self.placer.held_by(self.ids[rows])
        starts = [before.get(row) != held for row, held in zip(rows.tolist(), now, strict=True)]
        fresh = np.array(starts, dtype=bool)
        gone = set(running.tolist()) - set(rows[~fresh].tolist())
        stopped = self.slots[np.array(sorted(gone), dtype=np.intp), 0]
        return GangRound(
            *(rows, self.kind[columns], fresh[:, None], stopped),
            declined=bool(declined),
            columns=columns,
        )

    def _packed(self) -> tuple[Ints, Ints, list[Spot], int]:
        """Take gangs by priority while they pack, then lend what is left.

        Returns
        -------
        Rows and columns, where they are packed, and how many have a share, which come first.
        """
        if self.settled:  # all stay, in whatever order they would pack
            wanted = self.candidates
            many = wanted.rows.size
            return wanted.rows, wanted.types.copy(), [Spot(NETWORK)] * many, many
        rows, columns = self.wanted()
        rooms = [TierRoom(pool.gpus) for pool in self.placer.pools]
        taken = np.zeros(self.ids.size, dtype=bool)
        held = None if self.resources is None else (self.resources[0], self.resources[1].copy())
        chosen, spots = self._fitting(rows, columns, rooms, taken, held)
        rows, columns = rows[chosen], columns[chosen]
        free = np.array([room.left for room in rooms], dtype=np.intp)
        if self.work_conserving and free.any():
            waiting = self._waiting(taken, free)
            if waiting.any():
                speed = _at_widest_tier(self.speed)
                more, where = idle_first(self.served, speed, waiting, self.preference)
                lent, others = self._fitting(more, where, rooms, taken, held)
                rows = np.concatenate([rows, more[lent]])
                columns = np.concatenate([columns, where[lent]])
                spots += others
        return rows, columns, spots, len(chosen)

    def _fitting(
        self,
        rows: Ints,
        columns: Ints,
        rooms: list[TierRoom],
        taken: Bools,
        held: tuple[Floats, Floats] | None,
    ) -> tuple[list[int], list[Spot]]:
        """Take rows in order, each once, while there is room within their tiers.

        `held` is what they hold beside GPUs, and what is left of that, which is updated.
        """
        chosen, spots = [], []
        usage, left = (np.zeros((*self.speed.shape, 0)), np.zeros(0)) if held is None else held
        units = usage[rows, columns]
        each = zip(rows.tolist(), columns.tolist(), self.scale[rows].tolist(), strict=True)
        for place, (row, column, gpus) in enumerate(each):
            if taken[row] or (left.size and (units[place] > left).any()):
                continue
            kind, tier = divmod(column, len(TIERS))
            spot = rooms[kind].take(gpus, tier)
            if spot is not None:
                left -= units[place]
                taken[row] = True
                chosen.append(place)
                spots.append(spot)
        return chosen, spots

    def _stay_or_place(
        self, rows: Ints, columns: Ints, before: dict[int, Held]
    ) -> list[int] | None:
        """Leave gangs where they are within their tiers, and place the others as there is room.

        Returns
        -------
        Lines that the placement declines; None if somebody finds no room within its tier.
        """
        kinds, tiers = np.divmod(columns, len(TIERS))
        devices, stay = self.placer.devices, set[int]()
        for line, row in enumerate(rows.tolist()):
            held = before.get(row)
            here = held is not None and held[0] == kinds[line]
            if here and devices.tier(int(self.ids[row])) <= tiers[line]:
                stay.add(line)
        staying = {int(rows[line]) for line in stay}
        devices.release(int(self.ids[row]) for row in before if row not in staying)
        models = [""] * rows.size if self.models is None else self.models(rows)
        declined, placed = [], []
        # Tight tiers and large gangs first: what they leave in pieces serves the others.
        for line in np.lexsort((-self.scale[rows], tiers)).tolist():
            if line in stay:
                continue
            gpus, widest = int(self.scale[rows[line]]), int(tiers[line])
            room = self.placer.pools[kinds[line]].room
            first = next((tier for tier in range(widest + 1) if room[tier] >= gpus), None)
            if first is None:
                return None
            name, kind = int(self.ids[rows[line]]), int(kinds[line])
            gang = Gang(name, gpus, kind, models[line], (first, widest))
            if self.placer.give(gang, first=True) is None:
                declined.append(line)
            else:
                placed.append(gang)
        self.placer.compare(placed)
        return declined

    def _place_anew(
        self, rows: Ints, columns: Ints, spots: list[Spot], before: dict[int, Held]
    ) -> None:
        """Give each gang the machine or rack that it was packed into, and others the rest."""
        devices = self.devices
        names = self.ids[rows].tolist()
        devices.release([name for name in names if name in devices.held])
        kinds, tiers = np.divmod(columns, len(TIERS))
        # Who needs one machine takes it before wider gangs take parts of it.
        for line in np.argsort(tiers, kind="stable").tolist():
            kind, pool = int(kinds[line]), self.placer.pools[kinds[line]]
            gpus, spot, held = int(self.scale[rows[line]]), spots[line], before.get(int(rows[line]))
            stays = held is not None and held[0] == kind and pool.are_free(held[1])
            if held is not None and stays and spot.holds(pool.placement(held[1])):
                devices.hold(names[line], kind, held[1])
                continue
            placement: Placement
            if spot.tier == MACHINE:
                placement = ((spot.rack, spot.machine, gpus),)
            elif spot.tier == RACK:
                inside = BestFit().several(pool.free[spot.rack], gpus)
                placement = tuple((spot.rack, each, part) for each, part in sorted(inside.items()))
            else:
                placement = choose(pool.free, gpus, NETWORK, BestFit())
            devices.hold(names[line], kind, pool.lowest(placement))


def _at_widest_tier(speed: Floats) -> Floats:
    """Keep the speed at the widest tier of each type at which a row can run; 0 elsewhere."""
    by_type = (speed > 0).reshape(len(speed), -1, len(TIERS))
    widest = by_type & (by_type[:, :, ::-1].cumsum(axis=2)[:, :, ::-1] == 1)
    return np.asarray(speed * widest.reshape(speed.shape), dtype=np.float64)
