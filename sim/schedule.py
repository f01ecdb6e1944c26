"""Who ran where from when to when: the schedule of a run, written stay by stay."""

from __future__ import annotations

from array import array
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.devices import Held
    from apportion.mechanism.scheduler import Decision
    from apportion.types import Floats, Ints


# Places that are kept as they are before they are numbered.
_KEPT = 50_000

SCHEDULE_COLUMNS = ("job", "accelerator", "machines", "devices", "start_s", "end_s")
"""Columns of the schedule of a run."""


class ScheduleLog:
    """One row for each uninterrupted stay of a job on the same devices.

    Only what begins and what ends is written; a round in which everybody goes on costs nothing.

    Parameters
    ----------
    cluster
        Whose machines and devices these are. Both are numbered from 0 within their type, devices
        machine by machine.
    jobs
        Number of jobs of the workload.
    """

    def __init__(self, cluster: Cluster, jobs: int) -> None:
        self._names = cluster.accelerators
        self._machine_of = [
            np.repeat(np.arange(len(sizes)), sizes).tolist()
            for sizes in map(cluster.machines, cluster.accelerators)
        ]
        self._row = np.zeros(jobs, dtype=np.intp)
        self._count = 0
        self._job = np.empty(256, dtype=np.intp)
        self._times_s = np.empty((2, 256))
        self._places: defaultdict[tuple[int, tuple[int, ...]], int] = defaultdict()
        self._places.default_factory = self._places.__len__  # each has the next number
        self._place = array("q")
        self._held: list[Held] = []

    def changed(self, now_s: float, decision: Decision) -> None:
        """Write down who loses devices by a decision, and who comes to which."""
        gangs, starts = decision.gangs, decision.starts
        if decision.stop.size:
            self.end(decision.stop, now_s)
        if decision.moved is not None:
            self.end(gangs.job[decision.moved], now_s)
            starts = starts | decision.moved
        lines = starts.nonzero()[0]
        if lines.size:
            held = map(gangs.devices.__getitem__, lines.tolist())
            self.begin(gangs.job[lines], held, now_s)

    def begin(self, jobs: Ints, held: Iterable[Held], now_s: float) -> None:
        """Let stays of some jobs begin, each on devices of a type."""
        rows = np.arange(self._count, self._count + jobs.size)
        self._count += jobs.size
        while self._count > self._job.size:
            self._job = np.append(self._job, np.empty(max(self._job.size, 256), dtype=np.intp))
            more = np.empty((2, self._job.size - self._times_s.shape[1]))
            self._times_s = np.hstack([self._times_s, more])
        self._job[rows], self._row[jobs] = jobs, rows
        self._times_s[0, rows] = now_s
        self._held += held
        if len(self._held) > _KEPT:
            self._number_places()

    def end(self, jobs: Ints, end_s: Floats | float) -> None:
        """Let the stays of some jobs end."""
        self._times_s[1, self._row[jobs]] = end_s

    def _number_places(self) -> None:
        """Write numbers in place of devices, which are few."""
        places = self._places
        self._place.extend([places[kind, tuple(devices)] for kind, devices in self._held])
        self._held.clear()

    def table(self, ids: pd.Index) -> pd.DataFrame:
        """Return the schedule; `ids` are the names of the jobs.

        Who has moved on in the instant in which it came has not stayed.
        """
        self._number_places()
        place = np.array(self._place, dtype=np.intp)
        kinds = np.array([kind for kind, _ in self._places], dtype=np.intp)
        devices = _objects([devices for _, devices in self._places])
        of = [machine.__getitem__ for machine in self._machine_of]
        machines = _objects(
            [tuple(dict.fromkeys(map(of[kind], devices))) for kind, devices in self._places]
        )
        times_s = self._times_s[:, : self._count]
        stayed = times_s[1] != times_s[0]
        place = place[stayed]
        columns = (
            ids.take(self._job[: self._count][stayed]),
            np.array(self._names, dtype=object)[kinds[place]],
            *(machines[place], devices[place]),
            *times_s[:, stayed],
        )
        return pd.DataFrame(dict(zip(SCHEDULE_COLUMNS, columns, strict=True)))


def _objects(values: list[tuple[int, ...]]) -> NDArray[np.object_]:
    """Make an array whose entries are tuples."""
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects
