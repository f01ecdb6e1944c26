"""Devices that a round may give: those that are free, and those of jobs that run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from apportion.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Available"]


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
    numbers: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, cluster: Cluster, numbers: Mapping[str, Sequence[int]]) -> Available | None:
        """Keep some devices of a cluster, by accelerator type; ``None`` if there are none."""
        left = {name: tuple(sorted(numbers.get(name, ()))) for name in cluster.gpus}
        if not any(left.values()):
            return None
        if all(len(left[name]) == count for name, count in cluster.gpus.items()):
            return cls(cluster, left)
        sizes: dict[str, tuple[int, ...]] = {}
        for name, devices in left.items():
            gpus = cluster.machines(name)
            machine = np.repeat(np.arange(gpus.size), gpus)[list(devices)]
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
        place = {number: at for at, number in enumerate(self.numbers[accelerator])}
        return [place[device] for device in devices]

    def outside(self, accelerator: str, devices: Sequence[int]) -> tuple[int, ...]:
        """Return what users call devices of a type that are counted so, ascending."""
        return tuple(sorted(self.numbers[accelerator][device] for device in devices))
