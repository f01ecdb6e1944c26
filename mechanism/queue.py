"""A queue: whenever anything happens, jobs get devices in an order, on the types that they want."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from apportion.mechanism.own import is_own
from apportion.mechanism.scheduler import Change
from apportion.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from apportion.mechanism.about import About
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.placement import Placer
    from apportion.mechanism.scheduler import News

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["QUEUES", "InQueue", "QueueScheduler"]


class QueueScheduler(ABC):
    """Says in which order jobs are served, and on which types; the base of schedulers of one's own.

    It is a value: all that it decides by is its own fields and the job table. Whenever a job
    arrives or completes, jobs are served in its order, each on the first of its types on which its
    gang is free then; who has devices and comes later loses them to who comes earlier.
    """

    name: ClassVar[str]
    """Name in the registry."""
    source: ClassVar[str] = ""
    """Paper and section."""

    @abstractmethod
    def queue(self, jobs: JobTable, now_s: float) -> Iterable[tuple[int, Iterable[int]]]:
        """Go through the active jobs, first served first, each with the types that it accepts.

        Parameters
        ----------
        jobs
            What is known of the jobs; `JobTable.active` are those that are here.
        now_s
            The time, seconds.

        Returns
        -------
        iterable of (int, iterable of int)
            A job, and places of types in order of preference. Types on which the job cannot run are
            passed over. Jobs that are left out wait.
        """

    def make(self, about: About, lost_s: Floats) -> InQueue:
        """Return what serves the jobs of a run, each of which loses so much at a start."""
        return InQueue(self, about.jobs, about.devices, lost_s)

    @property
    def label(self) -> str:
        """Name in tables and plots."""
        return self.name

    @property
    def description(self) -> str:
        """What it does, in a line."""
        return (type(self).__doc__ or self.name).strip().partition("\n")[0]


QUEUES: Registry[Any] = Registry(
    "queue", "apportion.queues", {}, lambda each: isinstance(each, QueueScheduler) or is_own(each)
)
"""Queues by name, and whatever decides by itself; one of one's own is added by assigning it."""


class InQueue:
    """Serves jobs in the order of a queue; see `apportion.mechanism.scheduler.Scheduler`.

    Parameters
    ----------
    decider
        Orders the jobs.
    jobs
        What is told of them.
    devices
        Devices, and the placement by which gangs get them. A gang that it declines waits.
    lost_s
        Seconds that each job loses whenever it starts, resumes or moves, shape (jobs,).
    """

    hears = True

    def __init__(
        self, decider: QueueScheduler, jobs: JobTable, devices: Placer, lost_s: Floats
    ) -> None:
        self.name = f"Scheduler {decider.label!r}"
        self._decider, self._jobs, self._devices = decider, jobs, devices
        self._lost_s = lost_s

    def decide(self, news: News) -> Change:
        """Serve the jobs, those that run included."""
        jobs, devices = self._jobs, self._devices
        wanted = self._wanted(news.now_s)
        before = {job: kind for job, (kind, _) in devices.held.items()}
        gone = [job for job, kind in before.items() if wanted.get(job) != kind]
        devices.release(gone)
        new = [job for job, kind in wanted.items() if before.get(job) != kind]
        declined = devices.place(
            new,
            [wanted[job] for job in new],
            jobs.scale[new].tolist(),
            [jobs.job_type[job] for job in new],
        )
        for place in declined:
            del wanted[new[place]]
        job = np.array(sorted(wanted), dtype=np.intp)
        stop = np.intersect1d(np.array(gone, dtype=np.intp), jobs.active)
        return Change(
            devices.gangs(job),
            np.isin(job, np.array(new, dtype=np.intp)),
            stop,
            lost_s=self._lost_s[job],
            resolved=True,
        )

    def _wanted(self, now_s: float) -> dict[int, int]:
        """Return the type of every job that is to have devices, first served first."""
        jobs = self._jobs
        free = jobs.capacity.astype(np.intp).tolist()
        wanted: dict[int, int] = {}
        for job, options in self._decider.queue(jobs, now_s):
            gpus = int(jobs.scale[job])
            for option in options:
                if gpus <= free[option] and jobs.speed[job, option] > 0:
                    wanted[int(job)] = int(option)
                    free[option] -= gpus
                    break
        return wanted

    def lasts_s(self, now_s: float) -> float:
        """Return infinity: a decision stands until something happens."""
        return np.inf

    def steady_s(self, now_s: float) -> float:
        """Return now: it has no times of its own at which it would repeat itself."""
        return now_s

    def state(self) -> dict[str, Any]:
        """Return who has which devices, for JSON."""
        return {"devices": self._devices.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`."""
        self._devices.restore(state["devices"])
