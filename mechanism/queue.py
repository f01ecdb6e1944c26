"""A queue: whenever anything happens, jobs get devices in an order, on the types that they want."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.decider import Decider
from apportion.mechanism.own import WHOLE
from apportion.mechanism.scheduler import NOBODY, Decision
from apportion.own_code import answered_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from apportion.mechanism.decider import About
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import Event
    from apportion.mechanisms.past import Past
    from apportion.types import Ints


class QueueScheduler(Decider, ABC):
    """Says in which order jobs are served, and on which types; the base of schedulers of one's own.

    It is a value: all that it decides by is its own fields and the job table. Whenever a job
    arrives or completes, jobs are served in its order, each on the first of its types on which its
    gang is free then; who has devices and comes later loses them to who comes earlier.
    """

    name: ClassVar[str]
    """Name in the registry."""
    source: ClassVar[str] = ""
    """Paper and section."""
    works_by: ClassVar[tuple[str, ...]] = ("queue",)
    works_how: ClassVar[str] = "is a scheduler, which works by a queue"

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
            An active job, each at most once, and places of types in order of preference. Types on
            which the job cannot run are passed over. Jobs that are left out wait.
        """

    def make(self, about: About) -> InQueue:
        """Return what serves the jobs of a run."""
        return InQueue(self, about)


class InQueue:
    """Serves jobs in the order of a queue; see `apportion.mechanism.scheduler.Scheduler`.

    Parameters
    ----------
    decider
        Orders the jobs.
    about
        Jobs, and the devices with the placement by which gangs get them. A gang that it declines
        waits.
    """

    event_driven = True

    def __init__(self, decider: Any, about: About) -> None:
        self.name = f"Scheduler {decider.label!r}"
        self._decider, self._jobs, self._devices = decider, about.jobs, about.devices
        self._lost_s, self._ids = about.lost_s, about.ids

    def take_over(self, past: Past) -> Ints:
        """Begin in the middle: all that it goes by is who has devices, and the job table."""
        for job, (kind, devices) in past.held.items():
            self._devices.devices.hold(job, kind, devices)
            self._devices.remember(job, self._jobs.job_type[job])
        return NOBODY

    def decide(self, event: Event) -> Decision:
        """Serve the jobs, those that run included."""
        jobs, devices = self._jobs, self._devices
        wanted = self._wanted(event.now_s)
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
        return Decision(
            devices.gangs(job),
            np.isin(job, np.array(new, dtype=np.intp)),
            stop,
            lost_s=jobs.lost_s(job, self._lost_s),
            resolved=True,
        )

    def _wanted(self, now_s: float) -> dict[int, int]:
        """Return the type of every job that is to have devices, first served first.

        Raises
        ------
        InputError
            If the queue names what is no active job or no type, or a job twice.
        """
        jobs = self._jobs
        served: dict[int, int] = {}
        free, speed = jobs.capacity.astype(np.intp).tolist(), jobs.speed
        types = len(free)
        waiting = dict(zip(jobs.active.tolist(), jobs.scale[jobs.active].tolist(), strict=True))
        for pair in self._answered(self._decider.queue(jobs, now_s)):
            try:
                job, options = pair
            except (TypeError, ValueError) as error:
                raise self._refused(f"{written(pair)}: no pair of a job and its types") from error
            if type(job) not in WHOLE or job not in waiting:
                raise self._wrong_job(job)
            gpus = waiting.pop(job)
            for option in self._answered(options, job):
                if type(option) not in WHOLE or not 0 <= option < types:
                    raise self._wrong_type(option, job)
                if gpus <= free[option] and speed[job, option] > 0:
                    served[int(job)] = int(option)
                    free[option] -= gpus
                    break
        return served

    def _answered(self, several: Any, job: int | None = None) -> Iterator[Any]:
        """Go through what the queue has answered, or through the types of a job."""
        try:
            return iter(several)
        except TypeError as error:
            of = "" if job is None else f" as the types of {self._job(job)}"
            raise self._refused(f"{written(several)}{of}: nothing to go through") from error

    def _wrong_job(self, job: Any) -> InputError:
        """Say why a job cannot be served."""
        if type(job) not in WHOLE or not 0 <= job < len(self._ids):
            return self._refused(f"job {written(job)}, of which there is none")
        if job in self._jobs.active:
            return self._refused(f"{self._job(job)} twice: each is named once, with all its types")
        return self._refused(f"{self._job(job)}, which is not there")

    def _wrong_type(self, option: Any, job: int) -> InputError:
        last = self._jobs.capacity.size - 1
        what = f"type {written(option)} for {self._job(job)}"
        return self._refused(f"{what}: types are whole numbers from 0 to {last}")

    def _job(self, job: int) -> str:
        return f"job {written(self._ids[job])} (number {job})"

    def _refused(self, what: str) -> InputError:
        return InputError(
            f"{self.name} answers {what}. queue(jobs, now_s) goes through pairs (job, types): a "
            f"number out of jobs.active, and places of types in order of preference."
            f"{answered_by(self._decider, 'queue')}"
        )

    def valid_for_s(self, now_s: float) -> float:
        """Return infinity: a decision stands until something happens."""
        return np.inf

    def unchanged_until_s(self, now_s: float) -> float:
        """Return now: it has no times of its own at which it would repeat itself."""
        return now_s
