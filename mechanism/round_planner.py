"""Who runs in the next round, and on which devices: the planner of rounds.

GangTable   who is next
    v
RoundPlanner.plan
    |  select: by priority while there is `Room`; lend what is left
    |  stay, hand over, place
    v
Plan
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.mechanism.gang_table import GangTable
from apportion.mechanism.placements.counts import BestFit, choose
from apportion.mechanism.placements.strategy import Gang
from apportion.mechanism.scheduler import MACHINE, NETWORK, NOBODY, RACK, Gangs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.devices import Held
    from apportion.mechanism.placement import Placer
    from apportion.mechanism.scheduler import Placement
    from apportion.types import Bools, Floats, Int64s, Ints


class Spot(NamedTuple):
    """Where a gang has been packed: a tier, and the rack and the machine where these are chosen."""

    tier: int = NETWORK
    rack: int = -1
    machine: int = -1

    def holds(self, placement: Placement) -> bool:
        """Tell whether a gang that lies there already has what it was packed for."""
        return self.tier == NETWORK or all(
            rack == self.rack and (self.tier == RACK or machine == self.machine)
            for rack, machine, _ in placement
        )


_ANYWHERE = Spot()


class Room:
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
        self._machines: Int64s = gpus.copy()
        self._racks: Int64s = gpus.sum(axis=1)
        self.left = int(self._racks.sum())

    def take(self, gpus: int, tier: int) -> Spot | None:
        """Make room for a gang within a tier, in the fullest machine or rack, if there is any."""
        if gpus > self.left:
            return None
        spot = _ANYWHERE
        if tier != NETWORK:
            left = self._racks if tier == RACK else self._machines
            fits = left >= gpus
            if tier == MACHINE:
                fits &= (self._racks >= gpus)[:, None]
            if not fits.any():
                return None
            place = int(np.where(fits, left, np.inf).argmin())
            spot = Spot(tier, place)
            if tier == MACHINE:
                spot = Spot(tier, *divmod(place, left.shape[1]))
                self._machines[spot.rack, spot.machine] -= gpus
            self._racks[spot.rack] -= gpus
        self.left -= gpus
        return spot


class Plan(NamedTuple):
    """The gangs of a round.

    Attributes
    ----------
    gangs
        A line for each gang, behind them one for the second job of each pair.
    starts
        Whether each line's job is new on these devices, shape (lines,).
    stopped
        Jobs that ran in the round before and have lost their devices: they wait, or have moved.
    declined
        Whether the placement had no devices for some gang that was to run.
    """

    gangs: Gangs
    starts: Bools
    stopped: Ints
    declined: bool


class _Chosen(NamedTuple):
    """Gangs of a round: rows, options, names and GPUs; where each packs; how many have a share."""

    rows: Ints
    options: Ints
    names: list[int]
    gpus: list[int]
    spots: Sequence[Spot]
    wanted: int


class RoundPlanner:
    """Gavel's rounds over a table of gangs; knows neither the clock nor who finds the shares.

    Gangs are taken by priority while they pack: each within the tier that it is taken for. A gang
    in a tighter one has what it was taken for; gangs stay where they are if all can have their
    tiers so, and else those of the round are packed anew. Whoever is lent GPUs takes what is left,
    and its time counts at the tier that it got. A type without tiers is one that is wide enough for
    all. Source: Narayanan et al., OSDI 2020, sections 3.1 and 5.

    Parameters
    ----------
    placer
        Gives the devices.
    round_s
        Length of a round, seconds.
    tiers
        Options of each type: its tiers, or 1 for shares of types.
    carry_over
        Whether new shares begin with what jobs are owed from those before.
    work_conserving
        Whether GPUs that the shares leave idle are lent to whoever can run there.
    in_turn
        Whether a job has the types of its shares one after the other, unless devices are shared.
    models
        What each job trains, by number, if it matters to the placement.

    Attributes
    ----------
    table
        The rows.
    rows, options
        Rows that run in the round under way, and the options at which their time counts.
    where
        Devices of each job in it.
    resources
        What rows hold at each option beside GPUs, shape (rows, options, resources), and how much
        there is, shape (resources,); ``None`` for nothing. For one round.
    """

    def __init__(
        self,
        placer: Placer,
        round_s: float,
        *,
        tiers: int = 1,
        carry_over: bool = True,
        work_conserving: bool = True,
        in_turn: bool = False,
        models: Sequence[str] | None = None,
    ) -> None:
        capacity = np.array([pool.gpus.sum() for pool in placer.pools], dtype=np.intp)
        by_name = np.argsort(np.argsort(placer.accelerators))
        self.table = GangTable(capacity, by_name, tiers, round_s, carry_over=carry_over)
        self.placer, self.work_conserving, self._in_turn = placer, work_conserving, in_turn
        self._models = models
        tier = np.arange(tiers) if tiers > 1 else np.array([NETWORK])
        self._kind, self._tier = self.table.kind.tolist(), np.tile(tier, capacity.size).tolist()
        self.rows = self.options = NOBODY
        self.where: dict[int, Held] = {}
        self.resources: tuple[Floats, Floats] | None = None

    def hold(self, job: int, held: Held, model: str) -> None:
        """Let a job have devices from before the first round."""
        table, devices = self.table, self.placer.devices
        row = int(table.rows_of(np.array([job]), np.array([job]))[0])
        gang = int(table.gang[row])
        devices.hold(gang, *held)
        self.placer.remember(gang, model)
        tier = devices.tier(gang) if table.tiers > 1 else 0
        table.running[row] = held[0] * table.tiers + tier
        self.where[job] = devices.held[gang]

    def complete(self, done: Ints) -> None:
        """Drop jobs and their pairs; who shared devices with a job that is done keeps them."""
        table, devices = self.table, self.placer.devices
        gone = np.isin(table.first, done), np.isin(table.second, done)
        either = gone[0] | gone[1]
        for row in np.flatnonzero(either & (table.running >= 0)).tolist():
            gang = int(table.gang[row])
            if gone[0][row] and gone[1][row]:
                devices.release([gang])
                continue
            stays = (table.second if gone[0][row] else table.first)[[row]]
            own = int(table.rows_of(stays, stays)[0])
            devices.hand_over(gang, int(table.gang[own]))
            table.running[own] = table.running[row]
        for job in done.tolist():
            self.where.pop(job, None)
        table.take(np.flatnonzero(~either))

    @property
    def settled(self) -> bool:
        """Whether every round is as the last one until the rows or the target change.

        So it is if each row holds one job, has a share of the one option at which it runs, and all
        of them fit: then priorities, which change from round to round, decide nothing.
        """
        table, held = self.table, self.resources
        rows, options, _ = table.wanted
        if not (self.work_conserving and table.all_fit):
            return False
        if (table.running[rows] != options).any():
            return False
        return held is None or bool((held[0][rows, options].sum(axis=0) <= held[1]).all())

    def plan(self, *, leases: bool = True) -> Plan:
        """Choose the gangs of the next round and give them devices; some may get none and wait.

        Without `leases` all give their devices back first, and start again.
        """
        before, had = self.where, self.where if leases else {}
        if not leases:
            self.placer.release([*self.placer.held])
            self.table.running[:] = -1
        declined = self._place(self._select())
        gangs = self._gangs()
        now = self.where = dict(zip(gangs.job.tolist(), gangs.devices, strict=True))
        starts = [had.get(job) != held for job, held in now.items()]
        stopped = [job for job, own in before.items() if not had or now.get(job) != own]
        return Plan(
            gangs,
            np.array(starts, dtype=bool),
            np.array(sorted(stopped), dtype=np.intp),
            declined,
        )

    # Who runs.

    def _select(self) -> _Chosen:
        """Serve the shares by priority, then fill what is idle with whoever can run there."""
        table = self.table
        if self.settled and table.elapsed_s:  # all go on, in the order of the last round
            jobs = np.array([*self.where], dtype=np.intp)
            rows = table.rows_of(jobs, jobs)
            return self._chosen(rows, table.running[rows], [_ANYWHERE] * rows.size, rows.size)
        if self._in_turn and not table.has_pairs:
            wanted = table.one_type_after_the_other()
        else:
            wanted = table.by_priority(behind_only=not self.work_conserving)
        if self.settled:
            return self._chosen(*wanted, [_ANYWHERE] * wanted[0].size, wanted[0].size)
        rooms, busy = [Room(pool.gpus) for pool in self.placer.pools], set[int]()
        left = None if self.resources is None else self.resources[1].copy()
        found = self._fill(*wanted, rooms, busy, left)
        count, most = len(found), max(room.left for room in rooms)
        if self.work_conserving and most:
            waiting = table.single & (table.gpus <= most)
            waiting &= ~np.isin(table.first, [*busy])
            if waiting.any():
                found += self._fill(*table.to_lend(waiting), rooms, busy, left)
        rows, options, spots = zip(*found, strict=True) if found else ((), (), ())
        chosen = np.array([rows, options], dtype=np.intp)
        return self._chosen(*chosen, spots, count)

    def _chosen(self, rows: Ints, options: Ints, spots: Sequence[Spot], wanted: int) -> _Chosen:
        names, gpus = self.table.gang[rows].tolist(), self.table.gpus[rows].tolist()
        return _Chosen(rows, options, names, gpus, spots, wanted)

    def _fill(
        self, rows: Ints, options: Ints, rooms: list[Room], busy: set[int], left: Floats | None
    ) -> list[tuple[int, int, Spot]]:
        """Take rows in order, each if its jobs are free, while there is room.

        A gang that does not fit is passed over; it does not hold up those behind it. Jobs that are
        `busy`, and what is `left` of resources beside GPUs, are updated.
        """
        table, found = self.table, list[tuple[int, int, Spot]]()
        most = sum(room.left for room in rooms)
        told = rows, options, table.first[rows], table.second[rows], table.gpus[rows]
        for row, option, first, second, gpus in zip(*(each.tolist() for each in told), strict=True):
            room = rooms[self._kind[option]]
            if gpus > room.left or first in busy or second in busy:
                continue
            units: Any = 0.0 if self.resources is None else self.resources[0][row, option]
            if left is not None and (units > left).any():
                continue
            spot = room.take(gpus, self._tier[option])
            if spot is None:
                continue
            if left is not None:
                left -= units
            busy |= {first, second}
            found.append((row, option, spot))
            most -= gpus
            if not most:
                break
        return found

    # Where they run.

    def _place(self, chosen: _Chosen) -> bool:
        """Give gangs devices; return whether the placement declined some."""
        table, devices, had = self.table, self.placer.devices, dict(self.placer.held)
        rows, options = chosen.rows, chosen.options
        stay = self._stay(chosen)
        stopped = had.keys() - {name for name, here in zip(chosen.names, stay, strict=True) if here}
        if table.has_pairs:
            self._hand_over(chosen, stay, stopped)
        devices.release(stopped)
        new = [line for line, here in enumerate(stay) if not here]
        declined = (
            self._place_in_tiers(chosen, new) if table.tiers > 1 else self._of_types(chosen, new)
        )
        if declined is None:
            declined = []
            self._pack_anew(chosen, had)
        there = np.ones(rows.size, dtype=bool)
        there[declined] = False
        if table.tiers > 1:  # what is lent counts at the tier that it got
            for line in range(chosen.wanted, rows.size):
                if there[line]:
                    options[line] += devices.tier(chosen.names[line]) - options[line] % table.tiers
        self.rows, self.options = rows[there], options[there]
        table.running[:] = -1
        table.running[self.rows] = self.options
        return bool(declined)

    def _stay(self, chosen: _Chosen) -> list[bool]:
        """Tell which gangs have what their options give them already."""
        devices, stay = self.placer.devices, list[bool]()
        for name, gpus, option in zip(
            chosen.names, chosen.gpus, chosen.options.tolist(), strict=True
        ):
            kind, own = devices.held.get(name, (-1, ()))
            here = kind == self._kind[option] and len(own) == gpus
            tier = self._tier[option]
            stay.append(here and (tier == NETWORK or devices.tier(name) <= tier))
        return stay

    def _hand_over(self, chosen: _Chosen, stay: list[bool], stopped: set[int]) -> None:
        """Let a gang that shares a job with a stopped one of its kind and size have its devices."""
        table, devices, holder = self.table, self.placer.devices, dict[int, int]()
        for row in np.flatnonzero(np.isin(table.gang, [*stopped])).tolist():
            holder[int(table.first[row])] = holder[int(table.second[row])] = int(table.gang[row])
        for line, row in enumerate(chosen.rows.tolist()):
            for job in (int(table.first[row]), int(table.second[row])):
                old = holder.get(job)
                if stay[line] or old not in stopped:
                    continue
                kind, own = devices.held[old]
                if kind == self._kind[chosen.options[line]] and len(own) == chosen.gpus[line]:
                    devices.hand_over(old, chosen.names[line])
                    stopped.remove(old)
                    stay[line] = True

    def _gang(self, chosen: _Chosen, line: int, tiers: tuple[int, int] | None = None) -> Gang:
        """Return a gang as placements know it; what the first job trains stands for a pair."""
        job = int(self.table.first[chosen.rows[line]])
        model = "" if self._models is None else self._models[job]
        kind = self._kind[chosen.options[line]]
        return Gang(chosen.names[line], chosen.gpus[line], kind, model, tiers)

    def _of_types(self, chosen: _Chosen, new: list[int]) -> list[int]:
        """Give devices to gangs that have none, wherever they lie; return lines that got none."""
        if not new:
            return []
        gangs = [self._gang(chosen, line)[:4] for line in new]
        names, gpus, kinds, models = zip(*gangs, strict=True)
        return [new[place] for place in self.placer.place(names, kinds, gpus, models)]

    def _place_in_tiers(self, chosen: _Chosen, new: list[int]) -> list[int] | None:
        """Do the same within the tier of each; ``None`` if somebody finds no room in it.

        Tight tiers and large gangs come first: what they leave in pieces serves the others.
        """
        declined, placed = [], []
        tiers = [self._tier[option] for option in chosen.options.tolist()]
        for line in sorted(new, key=lambda line: (tiers[line], -chosen.gpus[line])):
            gpus, widest = chosen.gpus[line], tiers[line]
            room = self.placer.pools[self._kind[chosen.options[line]]].room
            tightest = next((tier for tier in range(widest + 1) if room[tier] >= gpus), None)
            if tightest is None:
                return None
            gang = self._gang(chosen, line, (tightest, widest))
            if self.placer.give(gang, first=True) is None:
                declined.append(line)
            else:
                placed.append(gang)
        self.placer.compare(placed)
        return declined

    def _pack_anew(self, chosen: _Chosen, had: dict[int, Held]) -> None:
        """Give each gang the machine or rack that it was packed into, and others the rest."""
        devices = self.placer.devices
        devices.release([*devices.held])
        # Who needs one machine takes it before wider gangs take parts of it.
        lines = range(len(chosen.names))
        for line in sorted(lines, key=lambda line: self._tier[chosen.options[line]]):
            gang, spot = self._gang(chosen, line), chosen.spots[line]
            pool, (kind, own) = self.placer.pools[gang.kind], had.get(gang.job, (-1, ()))
            if kind == gang.kind and pool.are_free(own) and spot.holds(pool.placement(own)):
                devices.hold(gang.job, kind, own)
                continue
            where: Placement = ((spot.rack, spot.machine, gang.gpus),)
            if spot.tier == RACK:
                inside = BestFit().several(pool.free[spot.rack], gang.gpus)
                where = tuple((spot.rack, each, part) for each, part in sorted(inside.items()))
            elif spot.tier == NETWORK:
                where = choose(pool.free, gang.gpus, NETWORK, BestFit())
            devices.hold(gang.job, gang.kind, pool.lowest(where))

    def _gangs(self) -> Gangs:
        """Return a line for each gang, and behind them one for the second job of each pair."""
        table, rows = self.table, self.rows
        names, first, second = table.gang[rows], table.first[rows], table.second[rows]
        held = self.placer.held_by(names)
        gangs = Gangs(first, names, table.kind[self.options], table.gpus[rows], devices=held)
        paired = np.flatnonzero(first != second)
        if not paired.size:
            return gangs
        mate = np.arange(rows.size + paired.size)
        mate[paired], mate[rows.size :] = mate[rows.size :], paired
        lines = np.append(np.arange(rows.size), paired)
        jobs = np.append(first, second[paired])
        devices = [held[line] for line in lines.tolist()]
        return Gangs(jobs, *(each[lines] for each in gangs[1:4]), mate, devices=devices)
