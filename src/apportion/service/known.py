"""What a decision service knows: jobs, their speeds and columns, GPUs, and who has them."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.allocation_files import plain_value
from apportion.checks import label
from apportion.cluster import Cluster
from apportion.cluster.accelerators import ACCELERATORS
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import JOB_COLUMNS, refuse_misplaced
from apportion.service.certified import Accounts
from apportion.service.checking import (
    check_value,
    checked_facts,
    checked_speed,
    own_columns,
    refuse_type,
    refuse_unfit,
    where_it_may_run,
)
from apportion.service.messages import SPEED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from apportion.estimators import EstimatedSpeeds
    from apportion.service.messages import ServiceMessage

_MOST_JOBS = 200_000
_LEAST_S = 30.0
"""Seconds of work from which estimates learn; what was observed in less is added up."""
TABLES = ("throughputs", "facts", "running", "since_s", "shares", "_received", "_owed", "_seen")
"""What is known by job; a value is replaced, never changed, so a copy of a table stays as it is."""
_REST = ("gpus", "most", "lost", "now_s", "own_clock", "changed_by")
"""What is known beside it, as JSON holds it."""


class Known(Accounts):
    """Jobs and GPUs as the messages so far tell of them; a message with an error changes nothing.

    Parameters
    ----------
    cluster
        The GPUs at the start.
    estimates
        Guesses speeds that are not told and learns from what ran, over the accelerators as its
        columns; without it a speed that is not told is 0, and what ran is believed as it is.
    needs
        Columns that every job must have, as the policy reads them.
    job_types
        Those that can be decided about; none for any.
    multiple
        GPUs of a type are used in multiples of this, where only whole racks can be decided about.

    Attributes
    ----------
    cluster
        The cluster that is decided about; with the GPUs of before where there are none at all.
    gpus, most
        GPUs by accelerator now, and the most that there were.
    throughputs
        Steps/s by job and accelerator, as told by the senders.
    facts
        Columns of the jobs table by job; ``arrival_s`` is the time of the message if not told.
    unfit
        Jobs for which there are no GPUs now, however free: a drain may leave a job none.
    changed_by
        Number of the last message that told something else than what was observed.
    """

    def __init__(
        self,
        cluster: Cluster,
        estimates: EstimatedSpeeds | None = None,
        *,
        needs: frozenset[str] = frozenset(),
        job_types: Collection[str] = (),
        multiple: int = 1,
    ) -> None:
        super().__init__()
        self.cluster, self.estimates, self._needs = cluster, estimates, needs
        self._multiple, self._job_types = multiple, job_types
        self.gpus: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self._set_gpus(cluster.gpus)
        self.throughputs: dict[str, dict[str, float]] = {}
        self.unfit: dict[str, None] = {}
        self._seen: dict[str, dict[str, list[float]]] = {}
        self.changed_by = 0

    def copied(self) -> Known:
        """Return a copy whose tables stay as they are."""
        other = copy(self)
        for name in TABLES:
            setattr(other, name, dict(getattr(self, name)))
        other.unfit, other.gpus = dict(self.unfit), dict(self.gpus)
        return other

    def frozen(self) -> Known:
        """Return a copy that knows the speeds that policies are told now, and learns nothing."""
        other = self.copied()
        if self.estimates is not None:
            other.throughputs = {job: self.told(job) for job in self.facts}
            other.estimates = None
        return other

    def told(self, job: str) -> dict[str, float]:
        """Return the speeds of a job that policies are told, steps/s by accelerator."""
        said = self.throughputs[job]
        told = {name: said.get(name, 0.0) for name in self.cluster.gpus}
        if self.estimates is not None:
            guessed = self.estimates.speeds([job])[0].tolist()
            by_name = dict(zip(map(str, self.estimates.columns), guessed, strict=True))
            told = {name: told[name] or by_name.get(name, 0.0) for name in told}
        return where_it_may_run(told, self.facts[job], self.gpus)

    def _fits(self, job: str) -> bool:
        gang, told = int(self.facts[job].get("scale_factor", 1)), self.told(job)
        return any(told[name] > 0 and self.usable(name) >= gang for name in told)

    def usable(self, accelerator: str) -> int:
        """Return the GPUs of a type that can be given."""
        return (here := self.gpus.get(accelerator, 0)) - here % self._multiple

    def change(self, message: ServiceMessage, number: int) -> list[str]:
        """Take up what a message tells; return the jobs whose speeds or columns are others now."""
        jobs: list[str] = getattr(self, f"_{message.op}")(**message.fields)
        held = {job: self.running[job] for job in jobs if job in self.running}
        stopped = [job for job, devices in held.items() if not self.holds(job, *devices)]
        for job in stopped:  # fewer GPUs, another gang or no speed
            self.lose(job)
        if stopped or message.op != "observe":
            self.changed_by = number
        before = {*self.unfit}
        self._note_fits(jobs)
        return jobs if message.op != "cluster" else sorted(before ^ {*self.unfit})

    def _note_fits(self, jobs: Iterable[str]) -> None:
        for job in jobs:
            self.unfit.pop(job, None)
            if job in self.facts and not self._fits(job):
                self.unfit[job] = None

    def _add(self, jobs: Mapping[str, Mapping[str, Any]]) -> list[str]:
        if len(self.facts) + len(jobs) > _MOST_JOBS:
            raise InputError(f"There would be more than {_MOST_JOBS:,} jobs.")
        for job in jobs:
            if job in self.facts:
                raise InputError(f"Job {written(job)} is there already; use 'update'.")
        jobs = {job: self._with_speeds(job, each) for job, each in jobs.items()}
        told = {job: self._speeds(job, each) for job, each in jobs.items()}
        facts = checked_facts(
            {job: {"arrival_s": self.now_s, **own_columns(jobs[job])} for job in jobs}
        )
        for job, speeds in told.items():
            self._refuse_unfit(job, speeds, facts[job])
        self.throughputs |= told
        self.facts |= facts
        self._admit(list(jobs))
        return list(jobs)

    def _admit(self, jobs: list[str]) -> None:
        """Tell the estimates of the types of jobs, whatever they were."""
        if self.estimates is not None:
            self.estimates.forget(jobs)
            types = [str(self.facts[job].get("job_type", job)) for job in jobs]
            self.estimates.admit(jobs, types)

    def _update(self, jobs: Mapping[str, Mapping[str, Any]]) -> list[str]:
        self._there("to update", jobs)
        jobs = {job: self._with_speeds(job, each) for job, each in jobs.items()}
        told = {
            job: {**self.throughputs[job], **self._speeds(job, each)} for job, each in jobs.items()
        }
        facts = checked_facts({job: {**self.facts[job], **own_columns(jobs[job])} for job in jobs})
        for job, speeds in told.items():
            self._refuse_unfit(job, speeds, facts[job])
        types = {job: self.facts[job].get("job_type") for job in jobs}
        typed = [job for job, known in types.items() if facts[job].get("job_type") != known]
        self.throughputs |= told
        self.facts |= facts
        self._admit(typed)
        return list(jobs)

    def _remove(self, jobs: list[str]) -> list[str]:
        self._there("to remove", jobs)
        if len(set(jobs)) < len(jobs):
            raise InputError("A job is to be removed twice.")
        for job in jobs:
            for name in TABLES:
                getattr(self, name).pop(job, None)
        if self.estimates is not None:
            self.estimates.forget(jobs)
        self.lost = [job for job in self.lost if job in self.facts]
        return jobs

    def _observe(self, job: str, accelerator: str, steps: float, seconds: float) -> list[str]:
        self._there("that was observed", [job])
        if accelerator not in self.gpus:
            raise unknown_name("accelerator", accelerator, self.gpus)
        if self.estimates is None:
            told = {**self.throughputs[job], accelerator: checked_speed(job, steps / seconds)}
            self._refuse_unfit(job, told, self.facts[job])
            self.throughputs[job] = told
            return [job]
        said = {name: speed for name, speed in self.throughputs[job].items() if name != accelerator}
        before = self._seen.get(job, {}).get(accelerator, [0.0, 0.0])
        steps, seconds = before[0] + steps, before[1] + seconds
        checked_speed(job, steps / seconds)
        short = {accelerator: [steps, seconds]} if seconds < _LEAST_S else {}
        rest = {name: each for name, each in self._seen.get(job, {}).items() if name != accelerator}
        self._seen[job] = {**rest, **short}
        if short:
            return []
        self.throughputs[job] = said  # what was measured counts from now on
        place = [str(name) for name in self.estimates.columns].index(accelerator)
        ran: Any = SimpleNamespace(job=[job], column=np.array([place]))
        return [job, *(str(each) for each in self.estimates.observe(ran, [steps], [seconds]))]

    def _cluster(self, gpus: Mapping[str, int], *, new_types: bool = False) -> list[str]:
        for name in gpus:
            if name not in self.gpus and not new_types:
                error = unknown_name("accelerator", name, self.gpus)
                raise InputError(f'{error} If it is a new type, say "new_types": true.')
            label("accelerator type", name)
        new = {**self.gpus, **{name: int(each) for name, each in gpus.items()}}
        self._check_columns(new)
        self._set_gpus(new)
        return list(self.facts)

    def _set_gpus(self, gpus: Mapping[str, int]) -> None:
        usable = {name: each - each % self._multiple for name, each in gpus.items()}
        if any(usable.values()) and usable != self.cluster.gpus:
            self.cluster = replace(self.cluster, gpus=usable)  # first: it may be refused
        self.gpus = dict(gpus)
        self.most = {name: max(self.most.get(name, 0), each) for name, each in gpus.items()}

    def _check_columns(self, gpus: Mapping[str, int]) -> None:
        """Refuse GPUs of which the estimates know nothing."""
        known = [] if self.estimates is None else [str(each) for each in self.estimates.columns]
        if known and (strange := [name for name in gpus if name not in known]):
            raise unknown_name("accelerator of the references", strange[0], known)

    def _with_speeds(self, job: str, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is told of a job, with columns called as a type among its throughputs."""
        types = {*self.gpus, *(name for name in told if name in ACCELERATORS)}
        own = types - {"throughputs", *JOB_COLUMNS, *self._needs}
        speeds = {name: each for name, each in told.items() if name in own}
        said = told.get("throughputs", {})
        for name, speed in speeds.items():
            check_value(f"the speed of job {written(job)} on {name}", speed, SPEED)
            if name in said:
                raise InputError(f"Job {written(job)} has two speeds on {name!r}; tell one.")
        rest = {name: each for name, each in told.items() if name not in speeds}
        refuse_misplaced(rest.keys() - {"throughputs"}, self._needs, self.gpus)
        return {**rest, "throughputs": {**said, **speeds}}

    def _speeds(self, job: str, told: Mapping[str, Any]) -> dict[str, float]:
        speeds = told.get("throughputs", {})
        for name in speeds:
            if name not in self.gpus:
                where = f"accelerator of job {written(job)}"
                raise unknown_name(where, name, self.gpus)
        return {name: checked_speed(job, float(speed)) for name, speed in speeds.items()}

    def _refuse_unfit(
        self, job: str, speeds: Mapping[str, float], facts: Mapping[str, Any]
    ) -> None:
        known = None if self.estimates else where_it_may_run(speeds, facts, self.gpus)
        refuse_unfit(job, known, facts, self.most, self._needs)
        if self._job_types:
            refuse_type(job, facts, self._job_types)

    def _there(self, doing: str, jobs: Iterable[str]) -> None:
        for job in jobs:
            if job not in self.facts:
                raise unknown_name(f"job {doing}", job, self.facts)

    def holds(self, job: str, accelerator: str, devices: tuple[int, ...]) -> bool:
        """Whether a job may have devices that were decided a while ago."""
        return (
            job in self.facts
            and len(devices) == int(self.facts[job].get("scale_factor", 1))
            and max(devices) < self.usable(accelerator)
            and self.told(job).get(accelerator, 0.0) > 0
        )

    def rest(self) -> dict[str, Any]:
        """Return what is not by job, as JSON holds it."""
        return {
            **{name: deepcopy(getattr(self, name)) for name in _REST},
            "cluster": plain_cluster(self.cluster),
            "estimates": None if self.estimates is None else self.estimates.state(),
        }

    def entries(self) -> Iterator[tuple[str, str, Any]]:
        """Return what is known by job: table, job and value; with `rest` it is everything."""
        return ((name, *each) for name in TABLES for each in getattr(self, name).items())

    def restore(self, rest: Mapping[str, Any], entries: Iterable[tuple[str, str, Any]]) -> None:
        """Take up what `rest` and `entries` gave."""
        self.cluster = Cluster(**{**rest["cluster"], "gpus": dict(rest["cluster"]["gpus"])})
        for name in _REST:
            setattr(self, name, rest.get(name, getattr(self, name)))
        for name in TABLES:
            setattr(self, name, {})
        for name, job, value in entries:
            getattr(self, name)[job] = value
        self.running = {job: (name, tuple(held)) for job, (name, held) in self.running.items()}
        if self.estimates is not None:
            self.estimates.restore(rest["estimates"])
        self._note_fits(self.facts)


def plain_cluster(cluster: Cluster) -> dict[str, Any]:
    """Return a cluster as lists, texts and numbers."""
    return {
        "gpus": [list(each) for each in cluster.gpus.items()],
        "gpus_per_machine": plain_value(cluster.gpus_per_machine),
        "machines_per_rack": cluster.machines_per_rack,
        "prices_per_gpu_hour": dict(cluster.prices_per_gpu_hour),
    }
