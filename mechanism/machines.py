"""The machines of one accelerator type, in racks, and which of their devices are free."""

from __future__ import annotations

from bisect import bisect_left, insort
from copy import copy
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from apportion.errors import InputError
from apportion.mechanism.scheduler import Placement, Room

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from apportion.mechanism.devices import Held
    from apportion.types import Int64s, Ints


class Layout:
    """In which machines and racks devices are: what does not change, whoever holds them.

    Parameters
    ----------
    pools
        Machines of each accelerator type.
    """

    def __init__(self, pools: Sequence[MachinePool]) -> None:
        self.pools = tuple(pools)
        self._known: dict[tuple[int, tuple[int, ...]], Placement] = {}

    def placement(self, held: tuple[int, Sequence[int]]) -> Placement:
        """Return in which rack and machine devices of a type are, and how many in each."""
        kind, devices = held
        key = (kind, tuple(devices))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.pools[kind].placement(devices)
        return known

    def is_split(self, held: Held) -> bool:
        """Tell whether devices of a type are in more than one machine."""
        kind, devices = held
        return self.pools[kind].is_split(devices)


class MachinePool:
    """Free devices by machine, with the machines sorted into bins by how many they have free.

    Devices of a type are numbered from 0, machine by machine, and machines rack by rack. Taking
    and giving back devices costs no more with many machines than with few (but for the shift of a
    list).

    Parameters
    ----------
    machines
        GPUs in each machine; they need not be alike.
    machines_per_rack
        Machines in one rack; ``None`` for a single rack. The last one holds the remainder.

    Attributes
    ----------
    machine_of, machines
        Machine of each device, as a list and as an array.
    gpus
        GPUs of each machine, shape (racks, most machines of a rack); 0 where a rack has fewer.
    """

    def __init__(self, machines: Sequence[int], machines_per_rack: int | None = None) -> None:
        self.machine_of = [m for m, gpus in enumerate(machines) for _ in range(gpus)]
        self.machines: Ints = np.array(self.machine_of, dtype=np.intp)
        self._sizes = list(machines)
        self._width = max(1, min(machines_per_rack or len(machines), len(machines)))
        racks = -(-len(machines) // self._width)
        gpus = np.zeros(racks * self._width, dtype=np.int64)
        gpus[: len(machines)] = machines
        self.gpus: Int64s = gpus.reshape(racks, self._width)
        self._be_free(range(len(self.machine_of)))

    def _be_free(self, devices: Iterable[int]) -> None:
        """Let just these devices be free, ascending."""
        self._free: list[list[int]] = [[] for _ in self._sizes]
        free, machine_of = self._free, self.machine_of
        for device in devices:
            free[machine_of[device]].append(device)
        self._bins: list[list[int]] = [[] for _ in range(max(self._sizes, default=0) + 1)]
        for machine, inside in enumerate(free):
            self._bins[len(inside)].append(machine)
        self._counts: Int64s | None = None
        self._by_rack: list[int] = []
        self._room: Room | None = None

    @property
    def free_devices(self) -> list[int]:
        """Every free device, ascending."""
        return [device for devices in self._free for device in devices]

    @property
    def free(self) -> Int64s:
        """Free GPUs of each machine, in the shape of `gpus`; not to be changed."""
        return self._count() if self._counts is None else self._counts

    @property
    def room(self) -> Room:
        """Most free GPUs that one gang can have at each tier."""
        if self._counts is None:
            self._count()
        if self._room is None:
            machine = len(self._bins) - 1
            while machine and not self._bins[machine]:
                machine -= 1
            self._room = Room(machine, max(self._by_rack, default=0), sum(self._by_rack))
        return self._room

    def free_on(self, machine: int) -> list[int]:
        """Free devices of one machine, ascending; not to be changed."""
        return self._free[machine]

    def emptiest_first(self) -> Iterator[int]:
        """Go through the machines with free devices, those with most of them first."""
        for machines in reversed(self._bins[1:]):
            yield from machines

    def tightest(self, gpus: int, *, without: Collection[int] = ()) -> int | None:
        """Return the fullest machine that still has `gpus` free, or None if there is none.

        Of several equal ones the lowest number.
        """
        for machines in self._bins[gpus:]:
            for machine in machines:
                if machine not in without:
                    return machine
        return None

    def best_fit(self, gpus: int) -> list[int] | None:
        """Return the lowest free devices of the `tightest` machine, or None if there is none."""
        for machines in self._bins[gpus:]:
            if machines:
                return self._free[machines[0]][:gpus]
        return None

    def lowest(self, placement: Placement) -> list[int]:
        """Return the free devices with the lowest numbers in the machines of a placement.

        Raises
        ------
        InputError
            If some machine has fewer.
        """
        devices = []
        for rack, machine, gpus in placement:
            free = self._free[rack * self._width + machine]
            if len(free) < gpus:
                raise InputError(f"The GPUs {placement} are not all free.")
            devices += free[:gpus]
        return devices

    def free_with(self, placement: Placement) -> Int64s:
        """Free GPUs of each machine if those of a placement were given back, as `free`."""
        free = self.free.copy()
        for rack, machine, gpus in placement:
            free[rack, machine] += gpus
        return free

    def placement(self, devices: Iterable[int]) -> Placement:
        """Return how many devices lie in which machine and rack."""
        counts: dict[int, int] = {}
        for device in devices:
            machine = self.machine_of[device]
            counts[machine] = counts.get(machine, 0) + 1
        return tuple((*divmod(machine, self._width), counts[machine]) for machine in sorted(counts))

    def is_split(self, devices: Sequence[int]) -> bool:
        """Tell whether devices lie in more than one machine."""
        if len(devices) < 2:
            return False
        machine_of = self.machine_of
        machine = machine_of[devices[0]]
        # Devices mostly come machine by machine.
        return (
            machine_of[devices[-1]] != machine or len({*map(machine_of.__getitem__, devices)}) > 1
        )

    def are_free(self, devices: Iterable[int]) -> bool:
        """Tell whether devices exist and nobody has any of them."""
        known = len(self.machine_of)
        return all(
            0 <= device < known and device in self._free[self.machine_of[device]]
            for device in devices
        )

    def with_free(self, devices: Iterable[int]) -> MachinePool:
        """Return the same machines with just these devices free."""
        pool = copy(self)  # what never changes is common to both
        pool._be_free(sorted(devices))
        return pool

    def claim(self, devices: Sequence[int]) -> bool:
        """Take free devices, all of them or none.

        Returns
        -------
        bool
            Whether they lie in more than one machine.

        Raises
        ------
        InputError
            If one is not free, is named twice, or does not exist.
        """
        if not devices:
            return False
        machine_of = self.machine_of
        try:
            machine = machine_of[devices[0]]
            if machine == machine_of[devices[-1]] and self._take(machine, devices):
                return False
            exist = min(devices) >= 0 and max(devices) < len(machine_of)
        except IndexError:
            exist = False
        if not exist:
            self._refuse(devices)
        done: list[int] = []
        for machine, group in groupby(devices, key=machine_of.__getitem__):
            part = list(group)
            if not self._take(machine, part):
                self.give_back(done)
                self._refuse(devices)
            done += part
        return self.is_split(devices)

    def give_back(self, devices: Iterable[int]) -> None:
        """Free devices that were taken."""
        for machine, group in groupby(sorted(devices), key=self.machine_of.__getitem__):
            free = self._free[machine]
            before = len(free)
            free += group
            free.sort()
            self._rebin(machine, before, len(free))

    def _count(self) -> Int64s:
        """Count what is free, from now on: not every placement asks."""
        counts = np.zeros_like(self.gpus)
        for machine, devices in enumerate(self._free):
            counts[divmod(machine, self._width)] = len(devices)
        self._by_rack = counts.sum(axis=1).tolist()
        self._counts = counts
        return counts

    def _take(self, machine: int, devices: Sequence[int]) -> bool:
        """Take devices of one machine, if all are free; most placements take the lowest."""
        free = self._free[machine]
        before, gpus = len(free), len(devices)
        if free[:gpus] == devices:
            del free[:gpus]
        else:
            left = [device for device in free if device not in devices]
            if before - len(left) != gpus:
                return False
            free[:] = left
        self._rebin(machine, before, before - gpus)
        return True

    def _refuse(self, devices: Sequence[int]) -> NoReturn:
        """Say what is wrong with devices that cannot be taken."""
        wanted = sorted(devices)
        twice = {one for one, other in pairwise(wanted) if one == other}
        known = range(len(self.machine_of))
        taken = [one for one in wanted if one in known and not self.are_free([one])]
        why = f"they are numbered from 0 to {len(known) - 1}"
        if twice or taken:
            why = f"{min(twice)} is named twice" if twice else f"{taken[0]} is not free"
        raise InputError(f"The devices {list(devices)} cannot be had: {why}.")

    def _rebin(self, machine: int, before: int, after: int) -> None:
        """Move a machine to the bin of its present number of free devices."""
        old = self._bins[before]
        del old[bisect_left(old, machine)]
        insort(self._bins[after], machine)
        if self._counts is not None:
            rack = machine // self._width
            self._counts[rack, machine - rack * self._width] = after
            self._by_rack[rack] += after - before
            self._room = None
