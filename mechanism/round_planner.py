"""Who runs in the next round, and on which devices: the planner of rounds.

GangTable   who is next
    v
RoundPlanner.plan
    |  select: by priority while there is `FreeGpus`; lend what is left
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
from apportion.mechanism.scheduler import MACHINE, NETWORK, NOBODY, RACK, Decision, Gangs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.devices import Held
    from apportion.mechanism.placement import Placer
    from apportion.mechanism.scheduler import Placement
    from apportion.types import Floats, Int64s, Ints


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


class FreeGpus:
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


class _Pick(NamedTuple):
    """A gang of the next round: its row and option, where it packs, and whether GPUs are lent."""

    row: int
    option: int
    gang: Gang
    spot: Spot = _ANYWHERE
    lent: bool = False


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
    declined
        Whether the placement had no devices for some gang that was to run.
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
        self.declined = False
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

    def plan(self, *, leases: bool = True) -> Decision:
        """Choose the gangs of the next round and give them devices; some may get none and wait.

        Without `leases` all give their devices back first, and start again.
        """
        before, had = self.where, self.where if leases else {}
        if not leases:
            self.placer.release([*self.placer.held])
            self.table.running[:] = -1
        self._place(self._select())
        gangs = self._gangs()
        now = self.where = dict(zip(gangs.job.tolist(), gangs.devices, strict=True))
        starts = [had.get(job) != held for job, held in now.items()]
        lost = [job for job, own in before.items() if not had or now.get(job) != own]
        stopped = np.array(sorted(lost), dtype=np.intp)
        return Decision(gangs, np.array(starts, dtype=bool), stopped)

    # Who runs.

    def _select(self) -> list[_Pick]:
        """Serve the shares by priority, then fill what is idle with whoever can run there."""
        table, settled = self.table, self.settled
        if settled and table.elapsed_s:  # in the order of the last round
            jobs = np.array([*self.where], dtype=np.intp)
            rows = table.rows_of(jobs, jobs)
            wanted = rows, table.running[rows]
        elif self._in_turn and not table.has_pairs:
            wanted = table.one_type_after_the_other()
        else:
            wanted = table.by_priority(behind_only=not self.work_conserving)
        if settled:  # all go on, in whatever order they would pack
            each = zip(*(array.tolist() for array in wanted), strict=True)
            return [_Pick(row, option, self._gang(row, option)) for row, option in each]
        rooms, busy = [FreeGpus(pool.gpus) for pool in self.placer.pools], set[int]()
        left = None if self.resources is None else self.resources[1].copy()
        picks = self._fill(*wanted, rooms, busy, left)
        most = max(room.left for room in rooms)
        if self.work_conserving and most:
            waiting = table.single & (table.gpus <= most) & ~np.isin(table.first, [*busy])
            if waiting.any():
                picks += self._fill(*table.to_lend(waiting), rooms, busy, left, lent=True)
        return picks

    def _fill(
        self,
        rows: Ints,
        options: Ints,
        rooms: list[FreeGpus],
        busy: set[int],
        left: Floats | None,
        *,
        lent: bool = False,
    ) -> list[_Pick]:
        """Take rows in order, each if its jobs are free, while there is room.

        A gang that does not fit is passed over; it does not hold up those behind it. Jobs that are
        `busy`, and what is `left` of resources beside GPUs, are updated.
        """
        table, picks = self.table, list[_Pick]()
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
            picks.append(_Pick(row, option, self._gang(row, option), spot, lent))
            most -= gpus
            if not most:
                break
        return picks

    def _gang(self, row: int, option: int) -> Gang:
        """Return a gang as placements know it; what the first job trains stands for a pair."""
        table = self.table
        model = "" if self._models is None else self._models[table.first.item(row)]
        return Gang(table.gang.item(row), table.gpus.item(row), self._kind[option], model)

    # Where they run.

    def _place(self, picks: list[_Pick]) -> None:
        """Give gangs devices."""
        table, devices, tiers = self.table, self.placer.devices, self.table.tiers
        had = dict(devices.held)
        stopped = had.keys() - {pick.gang.job for pick in picks if self._lies(pick)}
        if table.has_pairs:
            self._hand_over(picks, stopped)
        devices.release(stopped)
        new = [pick for pick in picks if pick.gang.job not in devices.held]
        if tiers > 1:
            if not self._place_in_tiers(new):
                self._pack_anew(picks, had)
        elif new:
            names, gpus, kinds, models = zip(*(pick.gang[:4] for pick in new), strict=True)
            self.placer.place(names, kinds, gpus, models)
        there = [pick for pick in picks if pick.gang.job in devices.held]
        self.rows = np.array([pick.row for pick in there], dtype=np.intp)
        self.options = np.array([pick.option for pick in there], dtype=np.intp)
        for line, pick in enumerate(there if tiers > 1 else ()):
            if pick.lent:  # it counts at the tier that it got
                self.options[line] += devices.tier(pick.gang.job) - pick.option % tiers
        table.running[:] = -1
        table.running[self.rows] = self.options
        self.declined = len(there) < len(picks)

    def _lies(self, pick: _Pick) -> bool:
        """Tell whether a gang has what its option gives it already."""
        gang, devices, tier = pick.gang, self.placer.devices, self._tier[pick.option]
        kind, own = devices.held.get(gang.job, (-1, ()))
        here = kind == gang.kind and len(own) == gang.gpus
        return here and (tier == NETWORK or devices.tier(gang.job) <= tier)

    def _hand_over(self, picks: list[_Pick], stopped: set[int]) -> None:
        """Let a gang that shares a job with a stopped one of its kind and size have its devices."""
        table, devices, holder = self.table, self.placer.devices, dict[int, int]()
        for row in np.flatnonzero(np.isin(table.gang, [*stopped])).tolist():
            old = table.gang.item(row)
            holder |= {table.first.item(row): old, table.second.item(row): old}
        for pick in picks:
            for job in (table.first.item(pick.row), table.second.item(pick.row)):
                old = holder.get(job, -1)
                if old not in stopped or pick.gang.job in devices.held:
                    continue
                kind, own = devices.held[old]
                if kind == pick.gang.kind and len(own) == pick.gang.gpus:
                    devices.hand_over(old, pick.gang.job)
                    stopped.remove(old)

    def _place_in_tiers(self, new: list[_Pick]) -> bool:
        """Give gangs devices within their tiers; return whether all found room there.

        Tight tiers and large gangs come first: what they leave in pieces serves the others.
        """
        placed, tier = [], self._tier
        for pick in sorted(new, key=lambda pick: (tier[pick.option], -pick.gang.gpus)):
            room, widest = self.placer.pools[pick.gang.kind].room, tier[pick.option]
            fits = [each for each in range(widest + 1) if room[each] >= pick.gang.gpus]
            if not fits:
                return False
            gang = pick.gang._replace(tiers=(fits[0], widest))
            if self.placer.give(gang, first=True) is not None:
                placed.append(gang)
        self.placer.compare(placed)
        return True

    def _pack_anew(self, picks: list[_Pick], had: dict[int, Held]) -> None:
        """Give each gang the machine or rack that it was packed into, and others the rest."""
        devices = self.placer.devices
        devices.release([*devices.held])
        # Who needs one machine takes it before wider gangs take parts of it.
        for _, _, gang, spot, _ in sorted(picks, key=lambda pick: self._tier[pick.option]):
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
        first, second = table.first[rows], table.second[rows]
        names, kinds, gpus = table.gang[rows], table.kind[self.options], table.gpus[rows]
        held = self.placer.held_by(names)
        paired = np.flatnonzero(first != second)
        if not paired.size:
            return Gangs(first, names, kinds, gpus, devices=held)
        mate = np.arange(rows.size + paired.size)
        mate[paired], mate[rows.size :] = mate[rows.size :], paired
        lines = np.append(np.arange(rows.size), paired)
        jobs = np.append(first, second[paired])
        devices = [held[line] for line in lines.tolist()]
        return Gangs(jobs, names[lines], kinds[lines], gpus[lines], mate, devices=devices)
