"""Equal machines as one group: what counts of gangs stand for, and how they get their machines.

Gangs of one size are the same to a machine, and machines of one rack with the same number of free
GPUs are the same to a gang. So a placement is known by how many gangs of each size lie in each
group and how many machines of the group follow each packing pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from apportion.policies.placements.packing_limits import packing_patterns

if TYPE_CHECKING:
    import pandas as pd

    from apportion.types import Int64s


@dataclass(frozen=True, eq=False)
class MachineGroups:
    """Equal machines, those of one rack with the same free GPUs, and how gangs pack into each.

    Attributes
    ----------
    sizes
        GPUs of gangs that occur, increasing, shape (sizes,).
    of_machine
        Group of each machine, shape (machines,).
    rack, count
        Rack of each group, and how many machines it has, shape (groups,).
    patterns
        Gangs of each size that fill a machine together, shape (patterns, sizes).
    group
        Group of the machines that each pattern is for, shape (patterns,).
    free_of_rack
        Free GPUs of each rack, shape (racks,).
    """

    sizes: Int64s
    of_machine: Int64s
    rack: Int64s
    count: Int64s
    patterns: Int64s
    group: Int64s
    free_of_rack: Int64s

    @classmethod
    def of(cls, gang: Int64s, machines: pd.DataFrame) -> MachineGroups:
        """Group machines for gangs of some numbers of GPUs."""
        sizes = np.unique(gang)
        alike, of_machine, count = np.unique(
            machines[["rack", "free"]].to_numpy(), axis=0, return_inverse=True, return_counts=True
        )
        patterns, group = [], []
        for place, free in enumerate(alike[:, 1].tolist()):
            inside = tuple(sizes[sizes <= free].tolist())
            for pattern in packing_patterns(inside, free):
                patterns.append([*pattern, *[0] * (sizes.size - len(inside))])
                group.append(place)
        free_of_rack = machines.groupby("rack")["free"].sum().to_numpy()
        _, rack = np.unique(alike[:, 0], return_inverse=True)
        return cls(
            sizes=sizes,
            of_machine=of_machine.reshape(-1),
            rack=rack,
            count=count,
            patterns=np.array(patterns, dtype=np.int64).reshape(len(group), sizes.size),
            group=np.array(group, dtype=np.int64),
            free_of_rack=free_of_rack,
        )

    @property
    def room(self) -> sparse.csr_array:
        """Gangs that a machine of each pattern holds, shape (groups * sizes, patterns)."""
        pattern, size = np.nonzero(self.patterns)
        row = self.group[pattern] * self.sizes.size + size
        shape = (self.count.size * self.sizes.size, self.group.size)
        return sparse.csr_array((self.patterns[pattern, size], (row, pattern)), shape=shape)


class GangCounts(NamedTuple):
    """A solution of the integer program.

    Attributes
    ----------
    at
        Whether each job runs at each tier, shape (jobs, 3).
    filled
        Machines that follow each packing pattern, shape (patterns,).
    packed
        Gangs of each size at the machine tier in each group, shape (groups, sizes).
    racked
        Gangs of each size at the rack tier in each rack, shape (racks, sizes).
    """

    at: Int64s
    filled: Int64s
    packed: Int64s
    racked: Int64s


def assign_gangs(
    counts: GangCounts, gang: Int64s, groups: MachineGroups, machines: pd.DataFrame
) -> Int64s:
    """Turn counts of gangs into GPUs of each job on each machine, shape (jobs, machines)."""
    held = np.zeros((gang.size, len(machines)), dtype=np.int64)
    rack = np.unique(machines["rack"], return_inverse=True)[1]
    for place, size in enumerate(groups.sizes):
        jobs = np.flatnonzero(counts.at[:, 0] & (gang == size))
        held[jobs, _slots(counts, groups, place)] = size
    free = machines["free"].to_numpy() - held.sum(axis=0)
    for place in np.argsort(-groups.sizes):
        jobs = np.flatnonzero(counts.at[:, 1] & (gang == groups.sizes[place]))
        in_rack = np.repeat(np.arange(groups.free_of_rack.size), counts.racked[:, place])
        for job, own in zip(jobs, in_rack, strict=True):
            held[job] = _take(np.where(rack == own, free, 0), gang[job])
            free = free - held[job]
    for job in np.flatnonzero(counts.at[:, 2]):
        held[job] = _take(free, gang[job])
        free = free - held[job]
    return held


def _slots(counts: GangCounts, groups: MachineGroups, place: int) -> Int64s:
    """Machines of the gangs of one size at the machine tier, one entry per gang."""
    slots = []
    for group, gangs in enumerate(counts.packed[:, place]):
        own = np.flatnonzero(groups.group == group)
        room = np.repeat(groups.patterns[own, place], counts.filled[own])
        machines = np.flatnonzero(groups.of_machine == group)[: room.size]
        slots.append(np.repeat(machines, room)[:gangs])
    return np.concatenate(slots)


def _take(free: Int64s, gpus: int) -> Int64s:
    """Take GPUs from the machines with the most free ones, shape (machines,)."""
    order = np.argsort(-free, kind="stable")
    before = np.cumsum(free[order]) - free[order]
    taken = np.zeros_like(free)
    taken[order] = np.clip(gpus - before, 0, free[order])
    return taken
