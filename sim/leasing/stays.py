"""The schedule of a run under leases: which job sat on which devices from when to when."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.places import placement_of
from apportion.sim.schedule import ScheduleLog

if TYPE_CHECKING:
    import pandas as pd

    from apportion.cluster import Cluster
    from apportion.mechanism.offers import Placement

__all__ = ["StaysOnRacks"]


class StaysOnRacks:
    """Writes down who gets GPUs where, and who gives them back.

    A job that gets the GPUs again that it has given back in the same instant has stayed. The
    mechanism counts the GPUs of machines; which of them a job had is settled in the end: the
    lowest ones that are free when its stay begins.

    Parameters
    ----------
    jobs
        Number of jobs of the workload.
    """

    def __init__(self, jobs: int) -> None:
        self._job: list[int] = []
        self._kind: list[int] = []
        self._placement: list[Placement] = []
        self._start_s: list[float] = []
        self._end_s: list[float] = []
        self._last = [-1] * jobs

    def begin(self, job: int, kind: int, placement: Placement, now_s: float) -> bool:
        """Write down that a job has got GPUs of a type; tell whether it has come, not stayed."""
        last, place = self._last[job], (kind, placement)
        if (
            last >= 0
            and self._end_s[last] == now_s
            and (self._kind[last], self._placement[last]) == place
        ):
            self._end_s[last] = np.nan
            return False
        self._last[job] = len(self._job)
        self._job.append(job)
        self._kind.append(kind)
        self._placement.append(placement)
        self._start_s.append(now_s)
        self._end_s.append(np.nan)
        return True

    def end(self, job: int, now_s: float) -> None:
        """Write down that a job holds its GPUs no longer."""
        self._end_s[self._last[job]] = now_s

    def state(self) -> dict[str, Any]:
        """Return the stays so far, for JSON."""
        return {
            "job": list(self._job),
            "kind": list(self._kind),
            "placement": list(self._placement),
            "start_s": list(self._start_s),
            "end_s": list(self._end_s),
            "last": list(self._last),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`."""
        self._job, self._last = list(state["job"]), list(state["last"])
        self._kind = list(state["kind"])
        self._placement = [placement_of(rows) for rows in state["placement"]]
        self._start_s, self._end_s = list(state["start_s"]), list(state["end_s"])

    def table(self, cluster: Cluster, ids: pd.Index) -> pd.DataFrame:
        """Return the schedule of whole racks; `ids` are the names of the jobs."""
        log = ScheduleLog(cluster, len(ids))
        machines = [len(cluster.racks(name)[0]) for name in cluster.accelerators]  # of a rack
        free = [_Devices(cluster.gpus_per_machine) for _ in machines]
        held: list[tuple[float, int, list[int]]] = []
        for stay in np.argsort(self._start_s, kind="stable").tolist():
            start_s, end_s, job = self._start_s[stay], self._end_s[stay], self._job[stay]
            if end_s == start_s:  # moved on in the instant in which it came
                continue
            while held and held[0][0] <= start_s:
                _, over, devices = heappop(held)
                free[self._kind[over]].give_back(devices)
            kind = self._kind[stay]
            devices = [
                device
                for rack, machine, gpus in self._placement[stay]
                for device in free[kind].take(rack * machines[kind] + machine, gpus)
            ]
            heappush(held, (end_s, stay, devices))
            one = np.array([job])
            log.begin(one, [(kind, devices)], start_s)
            log.end(one, end_s)
        return log.table(ids)


class _Devices:
    """Free devices by machine, numbered machine by machine."""

    def __init__(self, per_machine: int) -> None:
        self._per_machine = per_machine
        self._free: dict[int, list[int]] = {}

    def take(self, machine: int, gpus: int) -> list[int]:
        """Take the lowest free devices of a machine.

        Should a mechanism ever give more than there are, the schedule has to show it: then the
        first one is taken twice.
        """
        first = machine * self._per_machine
        free = self._free.setdefault(machine, list(range(first, first + self._per_machine)))
        return [heappop(free) if free else first for _ in range(gpus)]

    def give_back(self, devices: list[int]) -> None:
        """Free devices."""
        for device in devices:
            heappush(self._free[device // self._per_machine], device)
