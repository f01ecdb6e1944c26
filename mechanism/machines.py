"""The machines of one accelerator type and which of their devices are free."""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

__all__ = ["MachinePool"]


class MachinePool:
    """Free devices by machine, with the machines sorted into bins by how many they have free.

    Devices of a type are numbered from 0, machine by machine. Taking and giving back devices
    costs no more with many machines than with few (but for the shift of a list).

    Parameters
    ----------
    machines
        GPUs in each machine.
    """

    def __init__(self, machines: Sequence[int]) -> None:
        self.machine_of = [m for m, gpus in enumerate(machines) for _ in range(gpus)]
        self._free: list[list[int]] = [[] for _ in machines]
        for device, machine in enumerate(self.machine_of):
            self._free[machine].append(device)
        self._bins: list[list[int]] = [[] for _ in range(max(machines, default=0) + 1)]
        for machine, devices in enumerate(self._free):
            self._bins[len(devices)].append(machine)

    @property
    def free_devices(self) -> list[int]:
        """Every free device, ascending."""
        return [device for devices in self._free for device in devices]

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

    def claim(self, devices: Sequence[int]) -> None:
        """Take free devices, given machine by machine."""
        machine_of = self.machine_of
        if devices and machine_of[devices[0]] == machine_of[devices[-1]]:
            self._claim_on(machine_of[devices[0]], devices)
            return
        for machine, group in groupby(devices, key=machine_of.__getitem__):
            self._claim_on(machine, list(group))

    def give_back(self, devices: Iterable[int]) -> None:
        """Free devices that were taken."""
        for machine, group in groupby(sorted(devices), key=self.machine_of.__getitem__):
            free = self._free[machine]
            before = len(free)
            free += group
            free.sort()
            self._rebin(machine, before)

    def _claim_on(self, machine: int, devices: Sequence[int]) -> None:
        """Take devices of one machine; most strategies take the lowest."""
        free = self._free[machine]
        before = len(free)
        if free[: len(devices)] == devices:
            del free[: len(devices)]
        else:
            for device in devices:
                free.remove(device)
        self._rebin(machine, before)

    def _rebin(self, machine: int, before: int) -> None:
        """Move a machine to the bin of its present number of free devices."""
        old = self._bins[before]
        del old[bisect_left(old, machine)]
        insort(self._bins[len(self._free[machine])], machine)
