"""Who ran where from when to when: the schedule of a run, written stay by stay."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apportion.cluster import Cluster

__all__ = ["SCHEDULE_COLUMNS", "ScheduleLog"]

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
    """

    def __init__(self, cluster: Cluster) -> None:
        self._names = cluster.accelerators
        self._machine_of = [
            np.repeat(np.arange(len(sizes)), sizes).tolist()
            for sizes in map(cluster.machines, cluster.accelerators)
        ]
        self._places: dict[tuple[int, tuple[int, ...]], int] = {}
        self._row: dict[int, int] = {}
        self._job, self._place = array("q"), array("q")
        self._start_s, self._end_s = array("d"), array("d")

    def begin(self, job: int, kind: int, devices: Iterable[int], now_s: float) -> None:
        """Let a stay of a job begin, on devices of a type."""
        place = (kind, tuple(devices))
        self._row[job] = len(self._job)
        self._job.append(job)
        self._place.append(self._places.setdefault(place, len(self._places)))
        self._start_s.append(now_s)
        self._end_s.append(np.nan)

    def end(self, jobs: Sequence[int], end_s: Sequence[float]) -> None:
        """Let the stays of some jobs end."""
        for job, when_s in zip(jobs, end_s, strict=True):
            self._end_s[self._row[job]] = when_s

    def table(self, ids: pd.Index) -> pd.DataFrame:
        """Return the schedule; `ids` are the names of the jobs."""
        order = np.argsort(np.array(self._start_s), kind="stable")
        place = np.array(self._place, dtype=np.intp)[order]
        kinds = np.array([kind for kind, _ in self._places], dtype=np.intp)
        devices = _objects(devices for _, devices in self._places)
        machines = _objects(
            tuple(dict.fromkeys(self._machine_of[kind][device] for device in devices))
            for kind, devices in self._places
        )
        columns = (
            ids.take(np.array(self._job, dtype=np.intp)[order]),
            np.array(self._names, dtype=object)[kinds[place]],
            *(machines[place], devices[place]),
            *(np.array(times)[order] for times in (self._start_s, self._end_s)),
        )
        return pd.DataFrame(dict(zip(SCHEDULE_COLUMNS, columns, strict=True)))


def _objects(values: Iterable[tuple[int, ...]]) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    """Make an array whose entries are tuples."""
    listed = list(values)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array
