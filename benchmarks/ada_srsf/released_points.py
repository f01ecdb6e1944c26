"""Points in which the text of Wang et al. and its released code differ, to be switched one by one.

The code has GPUs of 32 GB, as the benchmarks have, where the text says 16; no startup of transfers;
times of Table III in whole milliseconds; and it takes what GPUs have left to do, by which LWF
places, as the seconds of their gangs, not the GPU-seconds, with transfers by 1 Gb Ethernet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.placements import register
from apportion.mechanism.placements.built_in import LeastWorkloadFirst
from apportion.sim.network.models.trained import TABLE_III

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    import apportion as ap
    from apportion.mechanism.devices import Devices
    from apportion.mechanism.placements import Gang

TEXT, RELEASED, ROUNDED = "text", "as released", "times rounded to ms"
_SECONDS = {"loads_times_gpus": False}
_ETHERNET_1G = {"loads_s_per_byte": 7.8125e-9}
POINTS: Mapping[str, Mapping[str, Any]] = {
    TEXT: {},
    "a = 0": {"startup_s": 0.0},
    ROUNDED: {},
    "equal servers as last sorted": {"placement": "lwf_1_as_sorted"},
    "loads: E by 1 Gb Ethernet": _ETHERNET_1G,
    "loads: without E": {"loads_count_transfers": False},
    "loads: not times GPUs": _SECONDS,
    "loads: not times GPUs, without E": {**_SECONDS, "loads_count_transfers": False},
    RELEASED: {"startup_s": 0.0, **_SECONDS, **_ETHERNET_1G},
}
"""Points in which text and released code differ beside memory, as settings of a run."""


@register
class AsLastSorted(LeastWorkloadFirst):
    """LWF-1 that leaves servers of equal load as they were when last sorted, as released."""

    name = "lwf_1_as_sorted"
    _servers_as_sorted: NDArray[np.intp] | None = None

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        """Sort the servers again where they stand."""
        pool, loads = devices.free_for(gang), np.array(devices.loads(gang.kind))
        machine_of = np.array(pool.machine_of)
        if gang.gpus <= self.kappa:
            return super().choose(gang, devices)
        old = self._servers_as_sorted
        if old is None:
            old = np.arange(machine_of.max() + 1)
        sums = np.bincount(machine_of, weights=loads).round(6)
        self._servers_as_sorted = new = old[sums[old].argsort(kind="stable")]
        place = new.argsort()[machine_of]
        ordered = sorted(pool.free_devices, key=lambda gpu: (place[gpu], loads[gpu].round(6), gpu))
        return ordered[: gang.gpus] if len(ordered) >= gang.gpus else None


def at_point(point: str, workload: ap.Workload) -> ap.Workload:
    """Return a workload, its passes of whole milliseconds where that is the point."""
    if point != ROUNDED:
        return workload
    rows = [TABLE_III[name] for name, _ in workload.throughputs.index]
    step_s = [sum(round(each_s, 3) for each_s in row.passes_s()) for row in rows]
    return replace(workload, throughputs=workload.throughputs.assign(v100=1 / np.array(step_s)))
