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

from apportion.policies.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.types import Floats, Ints

    Free = list[list[int]]
    Spread = Callable[[int, int, Free], Mapping[tuple[int, int], int] | None]

_MACHINE, _RACK, _NETWORK = range(3)
_NOTHING: Mapping[int, Taken] = MappingProxyType({})


class Taken(NamedTuple):
    """GPUs of one gang: the type, and how many in which machine of which rack."""

    kind: int
    gpus: Mapping[tuple[int, int], int]


@dataclass(frozen=True, eq=False)
class RoundPlaces:
    """What is free, and the options that it gives.

    Attributes
    ----------
    free
        Free GPUs by type, rack and machine.
    kind, tier
        Type and tier of each option, shape (options,).
    rack, machine
        Its rack and machine, -1 where it has none; shape (options,).
    """

    free: Sequence[Sequence[Sequence[int]]]
    kind: Ints
    tier: Ints
    rack: Ints
    machine: Ints

    @classmethod
    def of(cls, free: Sequence[Sequence[Sequence[int]]]) -> RoundPlaces:
        """List the options of what is free by type, rack and machine; places without any are none.

        Within a type come machines, then racks, then all of it.
        """
        options = []
        for kind, racks in enumerate(free):
            options += [
                (kind, _MACHINE, rack, machine)
                for rack, machines in enumerate(racks)
                for machine, gpus in enumerate(machines)
                if gpus > 0
            ]
            options += [(kind, _RACK, rack, -1) for rack, each in enumerate(racks) if sum(each)]
            options.append((kind, _NETWORK, -1, -1))
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
        of_type = np.array([sum(map(sum, racks)) for racks in self.free], dtype=float)
        room = np.array([sum(map(sum, self.inside_of(at))) for at in range(self.kind.size)])
        # Machines and racks are resources, each of the option that it is.
        local = np.flatnonzero(self.tier < _NETWORK)
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
        racks = {rack for rack, _ in held.gpus}
        rack = next(iter(racks)) if len(racks) == 1 else -1
        machine = next(iter(held.gpus))[1] if len(held.gpus) == 1 else -1
        tier = _MACHINE if machine >= 0 else _RACK if rack >= 0 else _NETWORK
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
        left = [[list(machines) for machines in racks] for racks in self.free]
        taken: list[Taken | None] = [None] * option.size
        for job in self._again(option, scale, before):
            taken[job] = before[job]
            _remove(left[before[job].kind], before[job].gpus)
        order = sorted(
            np.flatnonzero(option >= 0).tolist(), key=lambda j: (self.tier[option[j]], -scale[j], j)
        )
        for job in order:
            if taken[job] is not None:
                continue
            kind = int(self.kind[option[job]])
            free = self.inside_of(int(option[job]), left[kind])
            gpus = None if spread is None else spread(job, kind, free)
            gpus = _packed(free, int(scale[job])) if gpus is None else gpus
            taken[job] = Taken(kind, gpus)
            _remove(left[kind], gpus)
        return taken

    def inside_of(self, option: int, racks: Sequence[Sequence[int]] | None = None) -> Free:
        """Return what is free of a type, or left, in the place of an option; nothing elsewhere."""
        racks = self.free[int(self.kind[option])] if racks is None else racks
        rack, machine = int(self.rack[option]), int(self.machine[option])
        return [
            [gpus if rack in (-1, r) and machine in (-1, m) else 0 for m, gpus in enumerate(each)]
            for r, each in enumerate(racks)
        ]

    def _again(self, option: Ints, scale: Ints, before: Mapping[int, Taken]) -> list[int]:
        """Tell which gangs can have what they had, whatever GPUs of their places others choose."""
        machines = [[list(each) for each in racks] for racks in self.free]
        racks = [[sum(each) for each in kind] for kind in self.free]
        for job in np.flatnonzero(option >= 0).tolist() if before else ():
            at = int(option[job])
            kind, rack, machine = int(self.kind[at]), int(self.rack[at]), int(self.machine[at])
            if machine >= 0:
                machines[kind][rack][machine] -= int(scale[job])
            if rack >= 0:
                racks[kind][rack] -= int(scale[job])
        found = []
        for job, held in before.items():
            if option[job] < 0 or self.option_of(held) != option[job]:
                continue
            kind, tier = held.kind, int(self.tier[option[job]])
            if tier == _MACHINE:
                found.append(job)
                continue
            own = [0] * len(racks[kind])
            for (rack, _), gpus in held.gpus.items():
                own[rack] += gpus if tier == _NETWORK else 0
            fits = all(machines[kind][r][m] >= gpus for (r, m), gpus in held.gpus.items())
            if fits and all(has >= gpus for has, gpus in zip(racks[kind], own, strict=True)):
                found.append(job)
                _remove(machines[kind], held.gpus)
                racks[kind] = [has - gpus for has, gpus in zip(racks[kind], own, strict=True)]
        return found


def _packed(free: Free, gpus: int) -> dict[tuple[int, int], int]:
    """Take GPUs out of machines: of racks with most free, there of machines with most."""
    places = [(r, m) for r, machines in enumerate(free) for m in range(len(machines))]
    found: dict[tuple[int, int], int] = {}
    for rack, machine in sorted(
        places, key=lambda at: (-sum(free[at[0]]), -free[at[0]][at[1]], at)
    ):
        some = min(gpus, free[rack][machine])
        if some:
            found[rack, machine] = some
            gpus -= some
    return found


def _remove(free: Free, gpus: Mapping[tuple[int, int], int]) -> None:
    for (rack, machine), count in gpus.items():
        free[rack][machine] -= count
