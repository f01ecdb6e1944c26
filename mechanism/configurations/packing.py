"""Which (type, GPUs) an elastic gang may have, and on which GPUs it comes.

Gangs are packed into few machines, beside gangs that stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from apportion.annotations import explained
from apportion.checks import choice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.devices import Devices, Held
    from apportion.mechanism.machines import MachinePool
    from apportion.types import Ints


GANG_SIZES = ("every", "whole_nodes")
"""Ways to limit the GPUs of gangs."""


@dataclass(frozen=True, eq=False)
class GangOptions:
    """The options of a decision, type by type and ascending by GPUs; arrays of shape (options,).

    Attributes
    ----------
    kind
        Place of the accelerator type.
    gpus
        GPUs of the gang.
    nodes
        Machines that it needs, if it is packed.
    """

    kind: Ints
    gpus: Ints
    nodes: Ints

    @classmethod
    @explained
    def of(cls, pools: Sequence[MachinePool], sizes: str = "every") -> GangOptions:
        """List the options on machines.

        Parameters
        ----------
        pools
            Machines of each type.
        sizes
            ``"every"``: from 1 to all GPUs of a type. ``"whole_nodes"`` (Sia, section 3): 1, 2, 4,
            ... GPUs of one machine, and all GPUs of several machines of the largest kind. Gangs
            of such sizes can be placed so that no two that are distributed share a machine.

        Raises
        ------
        InputError
            For another word.
        """
        choice("gang_sizes", sizes, GANG_SIZES)
        listed: list[tuple[int, int, int]] = []
        for kind, pool in enumerate(pools):
            machines = np.sort(pool.gpus[pool.gpus > 0])[::-1]
            pairs = _every(machines) if sizes == "every" else _whole(machines)
            listed += [(kind, gpus, nodes) for gpus, nodes in pairs]
        table = np.array(listed, dtype=np.intp).reshape(-1, 3)
        return cls(*table.T)

    @property
    def count(self) -> int:
        """Number of options."""
        return self.kind.size

    def place(self, kind: int, gpus: int) -> int:
        """Return the place of the option of a type with so many GPUs."""
        return int(np.flatnonzero((self.kind == kind) & (self.gpus == gpus))[0])

    def largest(self, kind: int, gpus: int) -> int:
        """Return the place of the option of a type with most GPUs, up to so many; -1 for none."""
        fits = np.flatnonzero((self.kind == kind) & (self.gpus <= gpus))
        return int(fits[-1]) if fits.size else -1


def _every(machines: NDArray[np.int64]) -> list[tuple[int, int]]:
    """List every number of GPUs, with the fewest machines that have as many."""
    ends = np.cumsum(machines)
    gpus = np.arange(1, int(ends[-1]) + 1)
    nodes = np.searchsorted(ends, gpus) + 1
    return list(zip(gpus.tolist(), nodes.tolist(), strict=True))


def _whole(machines: NDArray[np.int64]) -> list[tuple[int, int]]:
    """List powers of two within a machine, and several whole machines."""
    most = int(machines[0])
    alike = int(np.count_nonzero(machines == most))
    parts = [2**power for power in range(most.bit_length()) if 2**power <= most]
    if parts[-1] < most:
        parts.append(most)
    return [(gpus, 1) for gpus in parts] + [(n * most, n) for n in range(2, alike + 1)]


def pack(
    devices: Devices, wanted: Mapping[int, tuple[int, int]], *, whole_nodes: bool = False
) -> list[int]:
    """Give GPUs to gangs that have none, those of fewest GPUs first; the others stay.

    A gang that fits into a machine comes to the one with the fewest free GPUs that holds it; a
    larger one takes all that is free of the machine with most free GPUs, until the rest fits
    (DeepBoot's placement). Of equal machines the first.

    With `whole_nodes` (Sia's placement) gangs below a machine are never split, and others take
    machines that are wholly free, so that no two distributed gangs share one. Where what is free is
    scattered, gangs below a machine make room, those of the emptiest machine first, and are placed
    again with the others, the largest first; they stay if they come to the same machine.

    Parameters
    ----------
    devices
        Who holds what; it is changed.
    wanted
        Type and GPUs by gang.

    Returns
    -------
    list of int
        Gangs that got none, ascending: there are too few GPUs, or, of whole nodes, none that fit.
    """
    declined: list[int] = []
    for kind, pool in enumerate(devices.pools):
        mine = {gang: gpus for gang, (own, gpus) in wanted.items() if own == kind}
        if mine and whole_nodes:
            declined += _pack_whole(devices, kind, mine)
        else:
            declined += _pack_any(devices, kind, pool, mine)
    return sorted(declined)


def _pack_any(devices: Devices, kind: int, pool: MachinePool, wanted: dict[int, int]) -> list[int]:
    declined = []
    for gang in sorted(wanted, key=lambda each: (wanted[each], each)):
        gpus = wanted[gang]
        if gpus > pool.room.network:
            declined.append(gang)
            continue
        chosen: list[int] = []
        for machine in pool.emptiest_first():
            there, left = pool.free_on(machine), gpus - len(chosen)
            if left <= len(there):
                tightest = pool.tightest(left, without=_machines(pool, chosen))
                chosen += pool.free_on(machine if tightest is None else tightest)[:left]
                break
            chosen += there
        devices.hold(gang, kind, chosen)
    return declined


def _machines(pool: MachinePool, chosen: list[int]) -> set[int]:
    return {pool.machine_of[device] for device in chosen}


def _pack_whole(devices: Devices, kind: int, wanted: dict[int, int]) -> list[int]:
    """Place gangs on wholes or within parts of machines; let small ones make room if need be."""
    pool, to_place = devices.pools[kind], dict(wanted)
    evicted: dict[int, Held] = {}
    while True:
        declined = _placed_whole(devices, kind, pool, to_place)
        if not declined or pool.room.network < min(to_place[gang] for gang in declined):
            break
        more = _emptiest_small(devices, kind, pool, set(to_place))
        if not more:
            break
        devices.release([gang for gang in to_place if gang in devices.held])
        for gang in more:
            evicted[gang] = devices.give_back(gang)
            to_place[gang] = len(evicted[gang][1])
    _back_to_their_machines(devices, kind, pool, evicted)
    return declined


def _placed_whole(
    devices: Devices, kind: int, pool: MachinePool, wanted: dict[int, int]
) -> list[int]:
    """Place the largest first, which leaves no gaps between powers of two; return who has none."""
    largest, declined = int(pool.gpus.max()), []
    for gang in sorted(wanted, key=lambda each: (-wanted[each], each)):
        gpus = wanted[gang]
        whole = [
            machine
            for machine in pool.emptiest_first()
            if gpus > largest and len(pool.free_on(machine)) == largest
        ]
        chosen = None if gpus > largest else pool.best_fit(gpus)
        if len(whole) * largest >= gpus > largest:
            chosen = [each for machine in whole for each in pool.free_on(machine)][:gpus]
        if chosen is None:
            declined.append(gang)
        else:
            devices.hold(gang, kind, list(chosen))
    return declined


def _emptiest_small(devices: Devices, kind: int, pool: MachinePool, without: set[int]) -> list[int]:
    """Return the gangs below a machine that stay on the machine with fewest GPUs of such gangs."""
    largest = int(pool.gpus.max())
    on: dict[int, list[int]] = {}
    for gang, (own, held) in devices.held.items():
        if own == kind and gang not in without and len(held) < largest:
            on.setdefault(pool.machine_of[held[0]], []).append(gang)
    used = {m: sum(len(devices.held[gang][1]) for gang in gangs) for m, gangs in on.items()}
    return sorted(on[min(on, key=lambda m: (used[m], m))]) if on else []


def _back_to_their_machines(
    devices: Devices, kind: int, pool: MachinePool, evicted: dict[int, Held]
) -> None:
    """Let gangs that came to the machine that they were on have the same GPUs as far as free."""
    for gang in sorted(evicted):
        held, before = devices.held.get(gang), evicted[gang][1]
        if held is None or pool.machine_of[held[1][0]] != pool.machine_of[before[0]]:
            continue
        devices.release([gang])
        devices.hold(gang, kind, before if pool.are_free(before) else held[1])
