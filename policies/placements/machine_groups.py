"""How gangs pack into machines: equal machines as one group, and limits on what fits at once.

Gangs of one size are the same to a machine, and machines of one rack with the same number of free
GPUs are the same to a gang. So a placement is known by how many gangs of each size lie in each
group and how many machines of the group follow each packing pattern.

Several gangs share one machine of G GPUs if their sizes sum to at most G. Let ``n_ps`` be the gangs
of size s in packing pattern p. The time averages v_s of running gangs can be had from M machines
iff ``v <= y @ n`` for some ``y >= 0`` that sums to at most M. By duality of linear programs, that
is ``w @ v <= M`` for every vertex w of ``{w >= 0 : n @ w <= 1}``. So the patterns need no
variables: every vertex that no other one dominates is one linear capacity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from apportion.types import Floats, Int64s


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


_MOST_SIZES = 9
_MOST_PATTERNS = 4000
"""With more sizes or patterns than these the vertices take longer than a second or two."""
_SAME = 1e-9
"""Vertices are solutions of small linear systems: weights closer than this are one."""


class PackingLimits(NamedTuple):
    """Linear limits on gangs in machines (or racks) of one number of GPUs.

    Attributes
    ----------
    weights
        ``weights @ v <= machines`` for the average number v of running gangs of each size, shape
        (limits, sizes).
    exact
        Whether these limits say all; if not they are valid, but looser.
    """

    weights: Floats
    exact: bool


def packing_patterns(sizes: tuple[int, ...], gpus: int) -> Iterator[tuple[int, ...]]:
    """Yield how many gangs of each size fill a machine so that no other one fits.

    Parameters
    ----------
    sizes
        GPUs of a gang, increasing and at most `gpus`.
    gpus
        GPUs of the machine.
    """
    if not sizes:
        yield ()
    elif len(sizes) == 1:
        yield (gpus // sizes[0],)
    else:
        for largest in range(gpus // sizes[-1] + 1):
            for others in packing_patterns(sizes[:-1], gpus - largest * sizes[-1]):
                yield (*others, largest)


@lru_cache(maxsize=1024)
def packing_limits(sizes: tuple[int, ...], gpus: int) -> PackingLimits:
    """Return the linear limits on gangs that pack into machines of a number of GPUs.

    Exact for few sizes: the vertices of the dual of the packing patterns. For many sizes they are
    dual feasible functions instead (Fekete and Schepers, 2001), which every packing obeys too.

    Parameters
    ----------
    sizes
        GPUs of a gang, increasing and at most `gpus`.
    gpus
        GPUs of a machine (or rack).
    """
    gang = np.array(sizes, dtype=np.int64)
    if not (gpus % gang).any():
        # Then G/s gangs of size s fill a machine, and those are the corners of s @ v <= G.
        return PackingLimits(gang[None, :] / gpus, exact=True)
    patterns = list(islice(packing_patterns(sizes, gpus), _MOST_PATTERNS + 1))
    if len(sizes) > _MOST_SIZES or len(patterns) > _MOST_PATTERNS:
        return PackingLimits(_undominated(_dual_feasible(gang, gpus)), exact=False)
    return PackingLimits(_vertices(np.array(patterns, dtype=float)), exact=True)


def _vertices(patterns: Floats) -> Floats:
    """Vertices of ``{w >= 0 : patterns @ w <= 1}`` that no other vertex dominates."""
    from scipy.spatial import HalfspaceIntersection  # few solves need it, and all would wait for it

    sizes = patterns.shape[1]
    if sizes == 1:
        return np.asarray(1 / patterns.max(axis=0, keepdims=True), dtype=float)
    above_zero = np.column_stack([-np.eye(sizes), np.zeros(sizes)])
    fits = np.column_stack([patterns, np.full(len(patterns), -1.0)])
    inside = np.full(sizes, 0.5 / patterns.sum(axis=1).max())
    found = HalfspaceIntersection(np.vstack([above_zero, fits]), inside).intersections
    found = np.where(found > _SAME, found, 0.0)
    found = found[found.any(axis=1)]
    # Rounding may leave a vertex just outside or inside: its worst pattern decides the scale.
    return _undominated(found / (found @ patterns.T).max(axis=1, keepdims=True))


def _dual_feasible(gang: NDArray[np.int64], gpus: int) -> Floats:
    """Weights by dual feasible functions: of gangs that fit one machine they sum to at most 1."""
    share = gang / gpus
    weights = [share]
    for k in range(1, gpus):
        whole, rest = np.divmod((k + 1) * gang, gpus)
        weights.append(np.where(rest == 0, share, whole / k))
    for least in gang[2 * gang <= gpus]:
        weights.append(np.where(gang > gpus - least, 1.0, np.where(gang < least, 0.0, share)))
    weights += list(np.diag(1 / (gpus // gang)))
    return np.array(weights)


def _undominated(weights: Floats) -> Floats:
    """Drop repeated rows and rows that another one is nowhere below, in a fixed order."""
    weights = np.unique(np.round(weights, 12), axis=0)
    below = np.all(weights[:, None, :] <= weights[None, :, :] + _SAME, axis=2)
    alike = below & below.T
    worse = (below & ~alike).any(axis=1) | np.triu(alike, k=1).any(axis=1)
    return np.asarray(weights[~worse], dtype=float)
