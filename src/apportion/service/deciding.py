"""Asks a policy or scheduler about what is known, and keeps its problem warm between answers."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.errors import ApportionError, InputError, SolveError, written
from apportion.jobs import JOB_COLUMNS
from apportion.policies import session, solve
from apportion.policies.base import depends_on_time
from apportion.policies.labelled import DEFAULTS
from apportion.sim.deciders import get_decider, manner_of
from apportion.sim.one_round import solve_round

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from apportion.allocation import Allocation
    from apportion.cluster import Cluster
    from apportion.policies import Session
    from apportion.policies.sessions.session_allocation import SessionAllocation
    from apportion.service.known import Known
    from apportion.sim.one_round.decision import RoundDecision

__all__ = ["CertifiedShares", "Deciding"]

_ALWAYS = ("scale_factor", "weight")
"""Columns by which identical jobs are told apart, whatever a policy reads."""


class CertifiedShares:
    """Shares of time that were certified, and what they knew of.

    Attributes
    ----------
    allocation
        As `solve` gives it.
    at_s, number
        Time and number of the last message that it knows of.
    """

    def __init__(
        self, allocation: Allocation | SessionAllocation, at_s: float, number: int
    ) -> None:
        self.allocation, self.at_s, self.number = allocation, at_s, number


class Deciding:
    """Answers by one policy or scheduler.

    A policy of shares is asked by a session in a thread of its own, which knows of changes by their
    turn: while a solve takes longer than it may, messages are still read, and what was certified
    last is the answer.

    Parameters
    ----------
    policy
        A policy, a scheduler, or the name of one.
    known
        What is known now.
    time_limit_s
        Seconds that an answer may take; ``None`` for as long as it needs.
    settings
        Of the mechanism, where devices are given.
    """

    def __init__(
        self,
        policy: Any,
        known: Known,
        time_limit_s: float | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.decider = get_decider(policy)
        if manner_of(self.decider).works_by[:1] == ("configurations",):
            raise InputError(
                f"{self.decider.label!r} is for elastic jobs, whose speed is by number of GPUs; a "
                f"decision service is told of speeds by accelerator."
            )
        self.known, self.time_limit_s = known, time_limit_s
        self.settings = dict(settings or {})
        self.has_shares = hasattr(self.decider, "objective")
        self._anew = self.has_shares and (
            self.decider.space_sharing or self.decider.integral or depends_on_time(self.decider)
        )
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="solve")
        self._late: Future[CertifiedShares] | None = None
        self._last: CertifiedShares | None = None
        self._session: Session | None = None
        self._changed: set[str] = set()
        self._cluster_changed = False

    def begin_anew(self) -> None:
        """Forget what is warm: the next answer is that of a service that was just started."""
        self._wait()
        self._session, self._last = None, None
        self._changed.clear()
        self._cluster_changed = False

    def changed(self, jobs: Iterable[str], *, cluster: bool = False) -> None:
        """Take note of jobs that came, went, or are otherwise known now."""
        self._changed.update(jobs)
        self._cluster_changed |= cluster

    def shares(self, number: int) -> CertifiedShares:
        """Return shares of what is known, or of what was, if that cannot be had in time.

        Raises
        ------
        SolveError
            If there is no answer in time, and was none before.
        InputError, InfeasibleError
            From the policy.
        """
        if self._late is not None and not self._late.done():
            return self._in_time(self._late)
        if self._late is not None:
            self._taken(self._late)
        now_s = self.known.now_s
        asked: Callable[[], Allocation | SessionAllocation]
        if self._anew:
            asked = partial(self._solve_anew, *self._tables(), self.known.cluster)
        else:
            asked = partial(self._solve_warm, self._changes())
        self._late = self._threads.submit(lambda: CertifiedShares(asked(), now_s, number))
        return self._in_time(self._late)

    def _in_time(self, future: Future[CertifiedShares]) -> CertifiedShares:
        try:
            return self._taken(future, self.time_limit_s)
        except LateError:
            if self._last is not None:
                return self._last
            raise SolveError(
                f"There is no answer within {self.time_limit_s:g} s, and none from before; ask "
                f"again."
            ) from None

    def _taken(
        self, future: Future[CertifiedShares], wait_s: float | None = None
    ) -> CertifiedShares:
        """Wait for an answer; a failure drops what was warm."""
        try:
            self._last = future.result(wait_s)
        except LateError:
            raise
        except ApportionError:
            self._late, self._session = None, None
            raise
        self._late = None
        return self._last

    def _wait(self) -> None:
        if self._late is not None:
            try:
                self._taken(self._late)
            except ApportionError:
                self._late = None

    def _changes(self) -> dict[str, tuple[dict[str, float], dict[str, Any]] | None]:
        """Return what the session has not heard of: speeds and columns by job, or gone."""
        if self._cluster_changed:
            self._session = None  # jobs may fit nowhere now, or again
        jobs = sorted(self.known.facts if self._session is None else self._changed)
        self._changed.clear()
        self._cluster_changed = False
        return {
            job: (self.known.told(job), self._read(job)) if self._takes_part(job) else None
            for job in jobs
        }

    def _takes_part(self, job: str) -> bool:
        return job in self.known.facts and self.known.fits(job)

    @property
    def cannot_run(self) -> list[str]:
        """Jobs for which there are no GPUs, however free."""
        return [job for job in self.known.facts if not self.known.fits(job)]

    def _read(self, job: str) -> dict[str, Any]:
        """Return the columns of a job that the policy reads."""
        columns = {*_ALWAYS, *self.decider.columns}
        return {name: told for name, told in self.known.facts[job].items() if name in columns}

    def _solve_warm(self, changes: Mapping[str, Any]) -> Allocation | SessionAllocation:
        """Bring the changes into the session, and solve."""
        if self._session is None:
            self._session = session(self.decider, self.known.cluster)
        there = {*self._session.jobs}
        gone = [job for job in changes if job in there]
        if gone:
            self._session.remove(gone)
        new = {job: told for job, told in changes.items() if told is not None}
        if new:
            speeds = {job: told[0] for job, told in new.items()}
            self._session.add(speeds, {job: told[1] for job, told in new.items()})
        return self._session.solve()

    def _solve_anew(self, speeds: pd.DataFrame, jobs: pd.DataFrame, cluster: Cluster) -> Allocation:
        return solve(self.decider, speeds, workers=cluster, jobs=jobs)

    def devices(self) -> RoundDecision:
        """Return who gets which devices now, as the next round of a simulation would."""
        throughputs, jobs = self._tables()
        running = {job: held for job, held in self.known.running.items() if job in jobs.index}
        owed = self._by_type(self.known.owed, throughputs) if self.has_shares else None
        return solve_round(
            self.decider,
            throughputs,
            self.known.cluster,
            jobs=jobs,
            running=running or None,
            received=self._by_type(self.known.received, throughputs),
            owed=owed,
            **self.settings,
        )

    def _by_type(
        self, told: Callable[[str], dict[str, float]], throughputs: pd.DataFrame
    ) -> pd.DataFrame:
        """Return what is told of each job by accelerator, 0 where nothing is."""
        rows = [told(job) for job in throughputs.index]
        table = pd.DataFrame(rows, index=throughputs.index, dtype=float)
        return table.reindex(columns=throughputs.columns).fillna(0.0)

    def _tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return speeds and columns of all jobs, in one order."""
        names = sorted(job for job in self.known.facts if self.known.fits(job))
        index = pd.Index(names, dtype=object)
        speeds = pd.DataFrame([self.known.told(job) for job in names], index)
        jobs = pd.DataFrame([self.known.facts[job] for job in names], index)
        for name, value in DEFAULTS.items():
            if name in jobs:
                jobs[name] = jobs[name].fillna(value)
        for one, other in (("steps_remaining", "total_steps"), ("total_steps", "steps_remaining")):
            if one in jobs and other in jobs:
                jobs[one] = jobs[one].fillna(jobs[other])
        for name in map(str, jobs.columns):
            gone = jobs[name].isna()
            if name in JOB_COLUMNS and not JOB_COLUMNS[name].optional and gone.any():
                raise InputError(
                    f"Job {written(str(jobs.index[gone][0]))} has no {name!r}, which other jobs "
                    f"have; tell it with 'update'."
                )
        jobs["elapsed_s"] = self.known.now_s - jobs["arrival_s"].astype(float)
        return speeds, jobs

    def close(self) -> None:
        """End the thread."""
        self._threads.shutdown(wait=True, cancel_futures=True)
