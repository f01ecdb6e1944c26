"""Who has which devices, and which may be given, as users tell it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import listed, mapping, whole
from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name, written

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from apportion.types import Bools

    Running = dict[Hashable, tuple[str, tuple[int, ...]]]  # accelerator and devices, by job


def fitting(speeds: pd.DataFrame, cluster: Cluster, gpus: pd.Series) -> Bools:
    """Tell on which types jobs with so many GPUs fit a cluster, shape (jobs, types)."""
    room = np.array([cluster.gpus.get(name, 0) for name in speeds.columns])
    return np.asarray((speeds.to_numpy() > 0) & (gpus.to_numpy()[:, None] <= room), dtype=bool)


def check_fits(speeds: pd.DataFrame, cluster: Cluster, gpus: pd.Series) -> None:
    """Refuse a job that could run nowhere if all devices were free."""
    for place in np.flatnonzero(~fitting(speeds, cluster, gpus).any(axis=1)).tolist():
        where = ", ".join(speeds.columns[speeds.iloc[place] > 0])
        raise InputError(
            f"Job {written(speeds.index[place])} can run nowhere: it needs {gpus.iloc[place]:g} "
            f"GPUs of a type on which it runs ({where}), and the cluster has {cluster}."
        )


def read_running(running: Any, cluster: Cluster, speeds: pd.DataFrame, gpus: pd.Series) -> Running:
    """Read who runs where: accelerator type and numbers of devices, by job."""
    valid = "a mapping from jobs to (accelerator, devices), e.g. {'job': ('v100', [0, 1])}"
    found: Running = {}
    for job, where in mapping("running", {} if running is None else running, valid).items():
        if job not in speeds.index:
            raise unknown_name("job in running", job, dict.fromkeys(speeds.index))
        if not isinstance(where, (tuple, list)) or len(where) != 2:
            raise InputError(
                f"running of job {written(job)} is {written(where)}; it must be (accelerator, "
                f"devices), e.g. ('v100', [0, 1])."
            )
        kind, devices = str(where[0]), _devices(cluster, f"running of job {written(job)}", *where)
        place = speeds.index.get_loc(job)
        runs, needs = speeds[kind].iloc[place] > 0, gpus.iloc[place]
        if not runs or len(devices) != needs:
            raise InputError(
                f"Job {written(job)} runs on {len(devices)} devices {kind!r}; "
                f"{f'it needs {needs:g}' if runs else 'its throughput there is 0'}."
            )
        found[job] = kind, devices
    return found


def read_free(free: Any, cluster: Cluster, running: Running) -> dict[str, set[int]]:
    """Return which devices of each type may be given: the free ones, and those of who runs."""
    if free is None:
        return {name: set(range(count)) for name, count in cluster.gpus.items()}
    valid = "a mapping from accelerators to devices, e.g. {'v100': [0, 1]}"
    found: dict[str, set[int]] = {name: set() for name in cluster.gpus}
    for kind, devices in mapping("free", free, valid).items():
        found[str(kind)] = {*_devices(cluster, "free", kind, devices)}
    for job, (kind, own) in running.items():
        both = found[kind].intersection(own)
        if both:
            raise InputError(
                f"Device {min(both)} of {kind!r} is among the free ones, and job {written(job)} "
                f"runs there; a device is free, or somebody's."
            )
    for kind, own in running.values():
        found[kind].update(own)
    return found


def _devices(cluster: Cluster, of: str, accelerator: Any, devices: Any) -> tuple[int, ...]:
    """Return numbers of devices, each checked to be there once."""
    kind = str(accelerator)
    if kind not in cluster.gpus:
        raise unknown_name(f"accelerator in {of}", accelerator, cluster.gpus)
    last = cluster.gpus[kind] - 1
    numbers = listed(f"The devices in {of}", devices, "a list of numbers of devices")
    if last < 0 and numbers:
        raise InputError(f"There are no devices {kind!r}, which {of} names.")
    found = [whole(f"A device of {accelerator!r} in {of}", each, 0, last) for each in numbers]
    for device in found:
        if found.count(device) > 1:
            raise InputError(f"Device {device} of {accelerator!r} stands twice in {of}.")
    return tuple(found)


def refuse_twice(running: Running) -> None:
    """Refuse devices that two gangs have."""
    taken: dict[tuple[str, int], Hashable] = {}
    for job, (kind, devices) in running.items():
        for device in devices:
            other = taken.setdefault((kind, device), job)
            if other != job:
                raise InputError(
                    f"Device {device} of {kind!r} is held by jobs {written(other)} and "
                    f"{written(job)}; here every gang has its devices to itself."
                )


@dataclass(frozen=True)
class _PartOfCluster(Cluster):
    """A cluster some of whose machines have lost GPUs; machines and racks stay as many.

    Parameters
    ----------
    whole
        The cluster with all of them.
    sizes
        GPUs that are left in each machine, by accelerator type.
    """

    whole: Cluster | None = None
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def machines(self, accelerator: str) -> NDArray[np.int64]:
        """GPUs that are left in each machine of one type, shape (machines,)."""
        return np.array(self.sizes[accelerator], dtype=np.int64)

    def racks(self, accelerator: str) -> list[NDArray[np.int64]]:
        """GPUs that are left in each machine of one type, by rack.

        Raises
        ------
        InputError
            If the machines of the whole cluster do not fill whole racks.
        """
        racks = [] if self.whole is None else self.whole.racks(accelerator)
        ends = np.cumsum([rack.size for rack in racks])
        return list(np.split(self.machines(accelerator), ends[:-1]))


@dataclass(frozen=True, eq=False)
class Available:
    """A cluster of the devices that may be given, and what users call these.

    Attributes
    ----------
    cluster
        The cluster, or what is left of it.
    numbers
        Number of each device that is left, ascending, by accelerator type: they are counted anew.
    """

    cluster: Cluster
    numbers: Mapping[str, list[int]]

    @classmethod
    def of(cls, cluster: Cluster, numbers: Mapping[str, set[int]]) -> Available | None:
        """Keep some devices of a cluster, by accelerator type; ``None`` if there are none."""
        left = {name: sorted(numbers[name]) for name in cluster.gpus}
        if not any(left.values()):
            return None
        if all(len(left[name]) == count for name, count in cluster.gpus.items()):
            return cls(cluster, left)
        sizes: dict[str, tuple[int, ...]] = {}
        for name, devices in left.items():
            gpus = cluster.machines(name)
            machine = np.repeat(np.arange(gpus.size), gpus)[devices]
            sizes[name] = tuple(np.bincount(machine, minlength=gpus.size).tolist())
        part = _PartOfCluster(
            {name: len(devices) for name, devices in left.items()},
            cluster.gpus_per_machine,
            cluster.machines_per_rack,
            cluster.prices_per_gpu_hour,
            whole=cluster,
            sizes=sizes,
        )
        return cls(part, left)

    def inside(self, accelerator: str, devices: Sequence[int]) -> list[int]:
        """Return as what the devices of a type are counted that users call so."""
        return [self.numbers[accelerator].index(device) for device in devices]

    def outside(self, accelerator: str, devices: Sequence[int]) -> tuple[int, ...]:
        """Return what users call devices of a type that are counted so, ascending."""
        return tuple(sorted(self.numbers[accelerator][device] for device in devices))
