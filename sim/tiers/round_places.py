"""The problem of one round of gangs: who gets which machine, rack or network, of what is free.

Options are (type, tier, place): each machine, each rack, and a type as a whole. Resources are the
free GPUs of types, racks and machines: a gang in a machine holds GPUs of all three, one in a rack
of the rack and the type, one over the network of the type only. What meets these capacities can be
placed, since gangs in a rack may be split over its machines as they come.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from apportion.mechanism.placements.counts import EmptiestFirst, choose
from apportion.mechanism.scheduler import MACHINE, NETWORK, RACK, Placement, can_hold, tier_of
from apportion.policies.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.types import Floats, Int64s, Ints

    Spread = Callable[[int, int, Int64s], Placement | None]

_NOTHING: Mapping[int, Taken] = MappingProxyType({})


class Taken(NamedTuple):
    """GPUs of one gang: the type, and where they are."""

    kind: int
    where: Placement


@dataclass(frozen=True, eq=False)
class RoundPlaces:
    """What is free, and the options that it gives.

    Attributes
    ----------
    free
        Free GPUs of each machine by type, shape (racks, machines per rack) each.
    kind, tier
        Type and tier of each option, shape (options,).
    rack, machine
        Its rack and machine, -1 where it has none; shape (options,).
    """

    free: Sequence[Int64s]
    kind: Ints
    tier: Ints
    rack: Ints
    machine: Ints

    @classmethod
    def of(cls, free: Sequence[Int64s]) -> RoundPlaces:
        """List the options of what is free; places without any are none.

        Within a type come machines, then racks, then all of it.
        """
        options: list[tuple[int, int, int, int]] = []
        for kind, gpus in enumerate(free):
            machines, racks = (
                np.argwhere(gpus > 0).tolist(),
                np.flatnonzero(gpus.sum(axis=1)).tolist(),
            )
            options += [(kind, MACHINE, rack, machine) for rack, machine in machines]
            options += [(kind, RACK, rack, -1) for rack in racks]
            options.append((kind, NETWORK, -1, -1))
        return cls(free, *np.array(options, dtype=np.intp).T)

    def problem(
        self, speed: Floats, scale: Ints, columns: Mapping[str, Floats] | None = None
    ) -> Instance:
        """Pose the problem of a round.

        Parameters
        ----------
        speed
            Steps/s of each job at each (type, tier), shape (jobs, types * 3), tiers fastest; 0
            where it cannot run or may not yet.
        scale
            GPUs of each gang, shape (jobs,).
        columns
            Columns of the jobs table, each of shape (jobs,).
        """
        of_type = np.array([gpus.sum() for gpus in self.free], dtype=float)
        room = np.array([self.inside_of(at).sum() for at in range(self.kind.size)])
        # Machines and racks are resources, each of the option that it is.
        local = np.flatnonzero(self.tier < NETWORK)
        kind, rack, machine = (each[local] for each in (self.kind, self.rack, self.machine))
        within = (self.kind[:, None] == kind) & (self.rack[:, None] == rack)
        within &= (machine < 0) | (self.machine[:, None] == machine)
        gangs = scale[:, None].astype(float)
        return Instance.of_options(
            np.where(scale[:, None] <= room, speed[:, self.kind * 3 + self.tier], 0.0),
            gangs,
            of_type,
            option_accelerator=self.kind,
            columns={"scale_factor": scale.astype(float)} | dict(columns or {}),
            usage=sparse.csr_array(sparse.kron(gangs, within.reshape(1, -1), format="csr")),
            resource_capacity=room[local].astype(float),
            option_tier=self.tier,
        )

    def option_of(self, held: Taken) -> int:
        """Return the option of which GPUs are, by the tightest tier that holds them; -1 if none."""
        (first, *_), tier = held.where, tier_of(held.where)
        rack, machine = first[0] if tier < NETWORK else -1, first[1] if tier == MACHINE else -1
        same = (self.kind == held.kind) & (self.tier == tier)
        found = np.flatnonzero(same & (self.rack == rack) & (self.machine == machine))
        return int(found[0]) if found.size else -1

    def devices(
        self,
        option: Ints,
        scale: Ints,
        *,
        before: Mapping[int, Taken] = _NOTHING,
        spread: Spread | None = None,
    ) -> list[Taken | None]:
        """Find the GPUs of gangs under a decision, ``None`` for who has no option.

        Gangs in machines come first; those in racks, the largest first, take machines with most
        GPUs free; the others what is left, racks with most GPUs free first.

        Parameters
        ----------
        option
            Option of each gang, -1 for none, shape (jobs,).
        scale
            GPUs of each gang, shape (jobs,).
        before
            What gangs had until now, by their numbers. Those whose option it is have it again, the
            first ones first, as far as it leaves all others what they have been given.
        spread
            Takes the number of a gang, its type, and what is free in the place that it has been
            given, by rack and machine; returns as many GPUs of it as the gang has. By default, and
            for ``None``, those described above.
        """
        left = [gpus.copy() for gpus in self.free]
        taken: list[Taken | None] = [None] * option.size
        for job in self._again(option, scale, before):
            taken[job] = before[job]
            _remove(left[before[job].kind], before[job].where)
        new = [job for job in np.flatnonzero(option >= 0).tolist() if taken[job] is None]
        for job in sorted(new, key=lambda job: (self.tier[option[job]], -scale[job], job)):
            kind = int(self.kind[option[job]])
            free = self.inside_of(int(option[job]), left[kind])
            where = None if spread is None else spread(job, kind, free)
            if where is None:
                where = choose(free, int(scale[job]), NETWORK, EmptiestFirst())
            taken[job] = Taken(kind, where)
            _remove(left[kind], where)
        return taken

    def inside_of(self, option: int, free: Int64s | None = None) -> Int64s:
        """Return what is free of a type, or left, in the place of an option; nothing elsewhere."""
        free = self.free[int(self.kind[option])] if free is None else free
        rack, machine = int(self.rack[option]), int(self.machine[option])
        inside = np.zeros_like(free)
        place = (
            slice(None) if rack < 0 else rack,
            slice(None) if machine < 0 else machine,
        )
        inside[place] = free[place]
        return inside

    def _again(self, option: Ints, scale: Ints, before: Mapping[int, Taken]) -> list[int]:
        """Tell which gangs can have what they had, whatever GPUs of their places others choose."""
        machines, racks = [gpus.copy() for gpus in self.free], [g.sum(axis=1) for g in self.free]
        for job in np.flatnonzero(option >= 0).tolist() if before else ():
            kind, rack, machine = (
                int(of[option[job]]) for of in (self.kind, self.rack, self.machine)
            )
            if machine >= 0:
                machines[kind][rack, machine] -= scale[job]
            if rack >= 0:
                racks[kind][rack] -= scale[job]
        found = []
        for job, held in before.items():
            if option[job] < 0 or self.option_of(held) != option[job]:
                continue
            tier, own = int(self.tier[option[job]]), np.zeros_like(racks[held.kind])
            if tier == MACHINE:
                found.append(job)
                continue
            for rack, _, gpus in held.where if tier == NETWORK else ():
                own[rack] += gpus
            fits = can_hold(machines[held.kind], held.where) and (racks[held.kind] >= own).all()
            if fits:
                found.append(job)
                _remove(machines[held.kind], held.where)
                racks[held.kind] -= own
        return found


def _remove(free: Int64s, where: Placement) -> None:
    for rack, machine, gpus in where:
        free[rack, machine] -= gpus
