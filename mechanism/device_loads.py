"""What gangs on devices are still due, device by device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.mechanism.devices import Held
    from apportion.types import Floats


class DeviceLoads:
    """Service that gangs are due on each of their devices, GPU-seconds.

    A line for each device of each gang is kept, those of the lowest gang first: so sums over the
    gangs of a device are the same in whichever order these came.

    Parameters
    ----------
    devices
        How many there are of each accelerator type.

    Attributes
    ----------
    told
        Whether anything was ever said.
    """

    def __init__(self, devices: Sequence[int]) -> None:
        self._devices, self.told = list(devices), False
        self._due_s = np.zeros(0)  # by gang; NaN where nothing was said
        self._gang = [np.zeros(0, dtype=np.intp) for _ in devices]
        self._device = [np.zeros(0, dtype=np.intp) for _ in devices]

    def due_s(self, gang: int) -> float | None:
        """Return what a gang is due on each of its devices, None if that was not said."""
        known = 0 <= gang < self._due_s.size and not np.isnan(self._due_s[gang])
        return float(self._due_s[gang]) if known else None

    def of(self, kind: int) -> Floats:
        """Return what is due on each device of a type, shape (devices,)."""
        due_s = self._due_s[self._gang[kind]]
        return np.bincount(self._device[kind], due_s, self._devices[kind]).astype(float)

    def set(self, gangs: Sequence[int], due_s: Sequence[float], held: Mapping[int, Held]) -> None:
        """Say what gangs are due, which have devices; they are numbered from 0."""
        if not gangs:
            return
        self.told = True
        lack = max(gangs) + 1 - self._due_s.size
        if lack > 0:
            more = np.full(max(lack, self._due_s.size), np.nan)
            self._due_s = np.concatenate([self._due_s, more])
        for place in np.isnan(self._due_s[gangs]).nonzero()[0].tolist():
            self._enter(gangs[place], *held[gangs[place]])
        self._due_s[gangs] = due_s

    def forget(self, gangs: Iterable[int]) -> None:
        """Forget gangs that have devices no more."""
        known = [gang for gang in gangs if 0 <= gang < self._due_s.size]
        if not known:
            return
        self._due_s[known] = np.nan
        for kind, gang in enumerate(self._gang):
            stay = ~np.isnan(self._due_s[gang])
            self._gang[kind], self._device[kind] = gang[stay], self._device[kind][stay]

    def _enter(self, gang: int, kind: int, devices: Sequence[int]) -> None:
        """Insert the lines of a gang."""
        gangs, on = self._gang[kind], self._device[kind]
        at, own = int(gangs.searchsorted(gang)), np.array(devices, dtype=np.intp)
        self._gang[kind] = np.concatenate([gangs[:at], np.full(own.size, gang), gangs[at:]])
        self._device[kind] = np.concatenate([on[:at], own, on[at:]])
