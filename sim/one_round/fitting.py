"""Where jobs can run, which devices a round may give, and what is wrong with a state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from apportion.cluster import Cluster
from apportion.errors import InputError, written
from apportion.sim.one_round.tables import clock_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from apportion.sim.one_round.tables import Seconds
    from apportion.tensor import ThroughputTensor
    from apportion.types import Floats


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


def fitting(tensor: ThroughputTensor, cluster: Cluster, gpus: Floats) -> NDArray[np.bool_]:
    """Tell on which types jobs with so many GPUs fit a cluster, shape (jobs, types)."""
    room = np.array([cluster.gpus.get(name, 0) for name in tensor.accelerator_of_option])
    return np.asarray((tensor.values.to_numpy() > 0) & (gpus[:, None] <= room), dtype=bool)


def check_fits(tensor: ThroughputTensor, cluster: Cluster, gpus: Floats) -> None:
    """Refuse a job that could run nowhere if all devices were free.

    Raises
    ------
    InputError
        It names the job.
    """
    stuck = ~fitting(tensor, cluster, gpus).any(axis=1)
    if stuck.any():
        job = int(np.argmax(stuck))
        runs = tensor.values.to_numpy()[job] > 0
        where = ", ".join(dict.fromkeys(tensor.accelerator_of_option[runs]))
        raise InputError(
            f"Job {written(tensor.jobs[job])} can run nowhere: it needs {gpus[job]:g} "
            f"GPUs of a type on which it runs ({where}), and the cluster has {cluster}."
        )


def check_time(jobs: pd.DataFrame, received: Seconds) -> None:
    """Refuse a job that has had devices for longer than it is there.

    Raises
    ------
    InputError
        It names the job.
    """
    arrival_s, now_s = clock_of(jobs)
    there_s = dict(zip(jobs.index.tolist(), (now_s - arrival_s).tolist(), strict=True))
    had_s = dict.fromkeys(there_s, 0.0)
    for job, values in zip(received.rows, received.values, strict=True):
        had_s[job] += float(values.sum())
    for job, seconds in had_s.items():
        if seconds > there_s[job] * (1 + 1e-6) + 1e-6:
            raise InputError(
                f"Job {written(job)} has received {seconds:g} s of devices and is there for "
                f"{there_s[job]:g} s; tell elapsed_s (or arrival_s) in the jobs table."
            )


def check_gang(
    tensor: ThroughputTensor, gpus: Floats, job: Hashable, accelerator: str, count: int
) -> None:
    """Refuse devices that a job that runs cannot have.

    Raises
    ------
    InputError
        It says how many the job needs there.
    """
    place = tensor.jobs.get_loc(job)
    may = tensor.values.to_numpy()[place] > 0
    runs = (may & (tensor.accelerator_of_option == accelerator)).any()
    if not runs or count != gpus[place]:
        raise InputError(
            f"Job {written(job)} runs on {count} devices {accelerator!r}; "
            f"{f'it needs {gpus[place]:g}' if runs else 'its throughput there is 0'}."
        )
