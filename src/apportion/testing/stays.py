"""A schedule as arrays, read together with the workload and the cluster that it is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from apportion.errors import written

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.sim import ElasticWorkload, Run, Workload
    from apportion.types import Floats, Ints


TOLERANCE = 1e-6
"""Seconds and steps may be off by this much, relatively: they are sums of many roundings."""


def fail(what: str) -> NoReturn:
    """Raise for a schedule that cannot be."""
    raise AssertionError(f"The schedule cannot be: {what}.")


@dataclass(frozen=True, eq=False)
class Stays:
    """The stays of a schedule, arrays of shape (stays,) in order of job and time.

    Attributes
    ----------
    ids
        Names of the jobs.
    job, kind
        Numbers of the job in the workload, and of the type in the cluster.
    devices, machines
        Tuples of numbers.
    start_s, end_s
        Seconds.
    """

    ids: list[Any]
    cluster: Cluster
    job: Ints
    kind: Ints
    devices: list[tuple[int, ...]]
    machines: list[tuple[int, ...]]
    start_s: Floats
    end_s: Floats

    @classmethod
    def of(cls, run: Run, workload: Workload | ElasticWorkload, cluster: Cluster) -> Stays:
        """Read the schedule of a run.

        Raises
        ------
        AssertionError
            If it names jobs or types that are not there, a stay has no length, or a job none.
        """
        table = run.schedule
        job = workload.jobs.index.get_indexer(pd.Index(table["job"]))
        kind = pd.Index(cluster.accelerators).get_indexer(pd.Index(table["accelerator"]))
        for number, column in ((job, "job"), (kind, "accelerator")):
            if (number < 0).any():
                unknown = table[column].tolist()[int((number < 0).argmax())]
                fail(f"it names the {column} {written(unknown)}, which is not there")
        start_s, end_s = (table[name].to_numpy(dtype=float) for name in ("start_s", "end_s"))
        order = np.lexsort((start_s, job))
        devices, machines = (
            [tuple(map(int, cells)) for cells in table[name].iloc[order]]
            for name in ("devices", "machines")
        )
        stays = cls(
            ids=workload.jobs.index.tolist(),
            cluster=cluster,
            job=job[order],
            kind=kind[order],
            devices=devices,
            machines=machines,
            start_s=start_s[order],
            end_s=end_s[order],
        )
        wrong = ~(np.isfinite(stays.start_s) & (stays.end_s > stays.start_s))
        if wrong.any():
            fail(f"{stays.named(int(wrong.argmax()))} has no length")
        missing = np.setdiff1d(np.arange(len(workload)), stays.job)
        if missing.size:
            fail(f"job {written(stays.ids[missing[0]])} never runs")
        return stays

    def __len__(self) -> int:
        return self.job.size

    def named(self, stay: int) -> str:
        """Name a stay for a message."""
        name = self.cluster.accelerators[self.kind[stay]]
        return (
            f"the stay of job {written(self.ids[self.job[stay]])} on {name!r} "
            f"{list(self.devices[stay])} from {self.start_s[stay]:.10g} to "
            f"{self.end_s[stay]:.10g} s"
        )

    @property
    def first(self) -> NDArray[np.bool_]:
        """Which stays are the first of their job."""
        return np.asarray(np.diff(self.job, prepend=-1) != 0, dtype=bool)

    @property
    def goes_on(self) -> NDArray[np.bool_]:
        """Which stays follow at once on one on other devices of the same machines."""
        found = ~self.first
        found[1:] &= (self.start_s[1:] == self.end_s[:-1]) & (self.kind[1:] == self.kind[:-1])
        per_machine = self.cluster.largest_machine
        for stay in np.flatnonzero(found).tolist():
            before, now = (
                sorted(device // per_machine for device in self.devices[each])
                for each in (stay - 1, stay)
            )
            found[stay] = before == now and set(self.devices[stay]) != set(self.devices[stay - 1])
        return found

    @property
    def seconds(self) -> Floats:
        """Length of each stay."""
        return self.end_s - self.start_s

    def total(self, values: Floats) -> Floats:
        """Sum over the stays of each job, shape (jobs,)."""
        totals = np.bincount(self.job, weights=values, minlength=len(self.ids))
        return np.asarray(totals, dtype=float)

    def by_place(self) -> dict[tuple[int, tuple[int, ...]], list[int]]:
        """Group stays by type and devices, each group in order of time."""
        places: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for stay in np.argsort(self.start_s, kind="stable").tolist():
            place = int(self.kind[stay]), tuple(sorted(self.devices[stay]))
            places.setdefault(place, []).append(stay)
        return places
