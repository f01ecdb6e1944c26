"""What a decision service knows: jobs, their speeds and columns, GPUs, and who has them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_NUMBER
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import check_jobs
from apportion.policies.sessions import session_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apportion.cluster import Cluster
    from apportion.estimators import EstimatedSpeeds
    from apportion.service.messages import ServiceMessage
    from apportion.sim.one_round.decision import RoundDecision

__all__ = ["Known"]

_MOST_JOBS = 200_000


class Known:
    """Jobs and GPUs as the messages so far tell of them; a message with an error changes nothing.

    Parameters
    ----------
    cluster
        The GPUs at the start.
    estimates
        Guesses speeds that are not told and learns from what ran, over the accelerators as its
        columns; without it a speed that is not told is 0, and what ran is believed as it is.

    Attributes
    ----------
    throughputs
        Steps/s by job and accelerator, as told by the senders.
    facts
        Columns of the jobs table by job; ``arrival_s`` is the time of the message if not told.
    running
        Accelerator and numbers of devices by job, as the last decision about devices gave them.
    since_s
        When it was last worked out what a job has had and is owed, s.
    shares
        Shares of time of the last decision about devices, by job and accelerator.
    lost
        Jobs whose devices have gone since then.
    now_s
        Time of the last message, s.
    """

    def __init__(self, cluster: Cluster, estimates: EstimatedSpeeds | None = None) -> None:
        self.cluster, self.estimates = cluster, estimates
        self.throughputs: dict[str, dict[str, float]] = {}
        self.facts: dict[str, dict[str, Any]] = {}
        self.running: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.since_s: dict[str, float] = {}
        self.shares: dict[str, dict[str, float]] = {}
        self.lost: list[str] = []
        self._received: dict[str, dict[str, float]] = {}
        self._owed: dict[str, dict[str, float]] = {}
        self.now_s = 0.0

    def advance(self, at_s: float) -> None:
        """Let time pass.

        Raises
        ------
        InputError
            If it is earlier than what was told before.
        """
        if at_s < self.now_s:
            raise InputError(
                f"at_s is {at_s!r}, and the last message told of {self.now_s!r}; send in order."
            )
        self.now_s = at_s

    def told(self, job: str) -> dict[str, float]:
        """Return the speeds of a job that policies are told, steps/s by accelerator."""
        told = {name: self.throughputs[job].get(name, 0.0) for name in self.cluster.gpus}
        if self.estimates is None:
            return told
        guessed = self.estimates.speeds([job])[0].tolist()
        by_name = dict(zip(map(str, self.estimates.columns), guessed, strict=True))
        return {name: told[name] or by_name.get(name, 0.0) for name in told}

    def fits(self, job: str) -> bool:
        """Whether there are GPUs now on which a job could run: a drain may leave it none."""
        gang = int(self.facts[job].get("scale_factor", 1))
        told = self.told(job)
        return any(told[name] > 0 and gpus >= gang for name, gpus in self.cluster.gpus.items())

    def change(self, message: ServiceMessage) -> list[str]:
        """Take up what a message tells; return the jobs whose speeds or columns are others now."""
        jobs: list[str] = getattr(self, f"_{message.op}")(**message.fields)
        return jobs

    def _add(self, jobs: Mapping[str, Mapping[str, Any]]) -> list[str]:
        if len(self.facts) + len(jobs) > _MOST_JOBS:
            raise InputError(f"There would be more than {_MOST_JOBS:,} jobs.")
        for job in jobs:
            if job in self.facts:
                raise InputError(f"Job {written(job)} is there already; use 'update'.")
        told = {job: self._speeds(job, each) for job, each in jobs.items()}
        facts = self._facts({job: {"arrival_s": self.now_s, **_own(jobs[job])} for job in jobs})
        for job, speeds in told.items():
            self._refuse_unfit(job, speeds, facts[job])
        self.throughputs |= told
        self.facts |= facts
        if self.estimates is not None:
            self.estimates.admit(list(jobs), [str(facts[job].get("job_type", job)) for job in jobs])
        return list(jobs)

    def _update(self, jobs: Mapping[str, Mapping[str, Any]]) -> list[str]:
        self._there("to update", jobs)
        told = {
            job: {**self.throughputs[job], **self._speeds(job, each)} for job, each in jobs.items()
        }
        facts = self._facts({job: {**self.facts[job], **_own(jobs[job])} for job in jobs})
        for job, speeds in told.items():
            self._refuse_unfit(job, speeds, facts[job])
        self.throughputs |= told
        self.facts |= facts
        return list(jobs)

    def _remove(self, jobs: list[str]) -> list[str]:
        self._there("to remove", jobs)
        if len(set(jobs)) < len(jobs):
            raise InputError("A job is to be removed twice.")
        for job in jobs:
            for table in (self.throughputs, self.facts, self.running, self.since_s):
                table.pop(job, None)
            for kept in (self._received, self._owed, self.shares):
                kept.pop(job, None)
        self.lost = [job for job in self.lost if job in self.facts]
        return jobs

    def _observe(self, job: str, accelerator: str, steps: float, seconds: float) -> list[str]:
        self._there("that was observed", [job])
        if accelerator not in self.cluster.gpus:
            raise unknown_name("accelerator", accelerator, self.cluster.gpus)
        if self.estimates is None:
            told = {**self.throughputs[job], accelerator: _speed(job, steps / seconds)}
            self._refuse_unfit(job, told, self.facts[job])
            self.throughputs[job] = told
            return [job]
        place = [str(name) for name in self.estimates.columns].index(accelerator)
        ran: Any = _RanThere([job], [place])
        return [str(each) for each in self.estimates.observe(ran, [steps], [seconds])]

    def _cluster(self, gpus: Mapping[str, int]) -> list[str]:
        prices = self.cluster.prices_per_gpu_hour
        here = {name: each for name, each in prices.items() if name in gpus}
        new = replace(self.cluster, gpus=dict(gpus), prices_per_gpu_hour=here)
        self._check_columns(new)
        self.cluster = new
        for job, (name, devices) in list(self.running.items()):
            if max(devices) >= new.gpus.get(name, 0):
                self._settle(job)
                self.lost.append(job)
                del self.running[job], self.since_s[job]
        return list(self.facts)

    def _check_columns(self, cluster: Cluster) -> None:
        """Refuse GPUs of which the estimates know nothing."""
        known = [] if self.estimates is None else [str(each) for each in self.estimates.columns]
        for name in cluster.gpus if self.estimates is not None else ():
            if name not in known:
                raise unknown_name("accelerator of the references", name, known)

    def _speeds(self, job: str, told: Mapping[str, Any]) -> dict[str, float]:
        speeds = told.get("throughputs", {})
        for name in speeds:
            if name not in self.cluster.gpus:
                where = f"accelerator of job {written(job)}"
                raise unknown_name(where, name, self.cluster.gpus)
        return {name: _speed(job, float(speed)) for name, speed in speeds.items()}

    def _facts(self, facts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Check columns as every jobs table is checked; null takes a column away."""
        said = {
            job: {name: value for name, value in each.items() if value is not None}
            for job, each in facts.items()
        }
        alike: dict[tuple[str, ...], list[str]] = {}
        for job, each in said.items():
            alike.setdefault(tuple(each), []).append(job)
        for names, jobs in alike.items():
            index = pd.Index(jobs, dtype=object)
            check_jobs(pd.DataFrame([said[job] for job in jobs], index, columns=list(names)))
        return said

    def _refuse_unfit(
        self, job: str, speeds: Mapping[str, float], facts: Mapping[str, Any]
    ) -> None:
        """Refuse a job that no accelerator can run, however free."""
        gang = int(facts.get("scale_factor", 1))
        fits = [name for name, gpus in self.cluster.gpus.items() if gpus >= gang]
        if not fits:
            raise InputError(
                f"Job {written(job)} needs {gang} GPUs of one type; there are {self.cluster}."
            )
        if self.estimates is None and not any(speeds.get(name, 0.0) > 0 for name in fits):
            raise InputError(
                f"Job {written(job)} has no speed on any accelerator that has {gang} GPUs "
                f"({', '.join(fits)})."
            )

    def _there(self, doing: str, jobs: Iterable[str]) -> None:
        for job in jobs:
            if job not in self.facts:
                raise unknown_name(f"job {doing}", job, self.facts)

    def keep(self, decided: RoundDecision) -> None:
        """Remember who has devices from now on, and what shares everybody is due."""
        for job in self.facts:
            self._settle(job)
        self.running = {str(job): held for job, held in decided.running.items()}
        self.since_s = dict.fromkeys(self.facts, self.now_s)
        self.lost = []
        X = None if decided.allocation is None else decided.allocation.X
        self.shares = {}
        if X is not None and X.columns.nlevels == 1:
            self.shares = {
                str(job): {str(kind): float(each) for kind, each in row.items() if each}
                for job, row in zip(X.index, X.to_dict("records"), strict=True)
                if str(job) in self.facts
            }

    def _settle(self, job: str) -> None:
        """Bring what a job has had, and what it is owed, up to now."""
        owed, here = self.owed(job), self.received(job)
        if owed:
            self._owed[job] = owed
        if here:
            self._received[job] = here
        if job in self.since_s:
            self.since_s[job] = self.now_s

    def received(self, job: str) -> dict[str, float]:
        """Return the seconds that a job has had devices so far, by accelerator."""
        had = dict(self._received.get(job, {}))
        if job in self.running:
            accelerator = self.running[job][0]
            had[accelerator] = had.get(accelerator, 0.0) + self.now_s - self.since_s[job]
        return had

    def owed(self, job: str) -> dict[str, float]:
        """Return the seconds by which a job is behind its shares, by accelerator."""
        owed = dict(self._owed.get(job, {}))
        passed_s = self.now_s - self.since_s.get(job, self.now_s)
        for kind, share in self.shares.get(job, {}).items():
            owed[kind] = owed.get(kind, 0.0) + share * passed_s
        if job in self.running and self.shares:
            kind = self.running[job][0]
            owed[kind] = owed.get(kind, 0.0) - passed_s
        return owed

    def state(self) -> dict[str, Any]:
        """Return everything, as JSON holds it."""
        return {
            "cluster": session_files.plain_cluster(self.cluster),
            "throughputs": self.throughputs,
            "facts": self.facts,
            "running": {
                job: [name, [int(each) for each in devices]]
                for job, (name, devices) in self.running.items()
            },
            "since_s": self.since_s,
            "received": self._received,
            "owed": self._owed,
            "shares": self.shares,
            "lost": self.lost,
            "now_s": self.now_s,
            "estimates": None if self.estimates is None else self.estimates.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` gave."""
        self.cluster = session_files.cluster_of(state["cluster"])
        self.throughputs = {job: dict(each) for job, each in state["throughputs"].items()}
        self.facts = {job: dict(each) for job, each in state["facts"].items()}
        self.running = {job: (name, tuple(held)) for job, (name, held) in state["running"].items()}
        self.since_s = dict(state["since_s"])
        self._received = {job: dict(each) for job, each in state["received"].items()}
        self._owed = {job: dict(each) for job, each in state["owed"].items()}
        self.shares = {job: dict(each) for job, each in state["shares"].items()}
        self.lost = list(state["lost"])
        self.now_s = state["now_s"]
        if self.estimates is not None:
            self.estimates.restore(state["estimates"])


class _RanThere:
    """Who ran where, as estimates read it."""

    def __init__(self, job: list[str], column: list[int]) -> None:
        self.job, self.column = job, np.array(column)


def _own(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that were told of a job."""
    return {name: value for name, value in told.items() if name != "throughputs"}


def _speed(job: str, steps_per_s: float) -> float:
    """Return a speed that policies can reckon with.

    Raises
    ------
    InputError
        If it is larger.
    """
    if not steps_per_s <= LARGEST_NUMBER:
        raise InputError(
            f"Job {written(job)} makes {steps_per_s:g} steps/s; {LARGEST_NUMBER:g} are the most."
        )
    return steps_per_s
