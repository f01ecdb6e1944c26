"""What is known as policies and schedulers read it, and a policy's problem kept warm over it."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from apportion.jobs import JOB_COLUMNS
from apportion.policies import session
from apportion.policies.labelled import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from concurrent.futures import Future

    from apportion.allocation import Allocation
    from apportion.cluster import Cluster
    from apportion.policies import Session
    from apportion.service.known import Known


_LOG = logging.getLogger(__name__)
_ALWAYS = ("scale_factor", "weight")
"""Columns by which identical jobs are told apart, whatever a policy reads."""
_GIVEN = {*DEFAULTS, "arrival_s", "now_s", "order", "isolated_elapsed_s", "job_type"}
"""Columns that no sender needs to tell."""
_STEPS = ("steps_remaining", "total_steps")
"""Each stands for the other where it is not told."""


def needed_columns(decider: Any) -> frozenset[str]:
    """Return the columns that every job must have, or nothing can be decided."""
    if not hasattr(decider, "objective"):
        return frozenset({"steps_remaining"})
    told = {name for name in decider.columns if name not in _GIVEN}
    return frozenset(n for n in told if n not in JOB_COLUMNS or not JOB_COLUMNS[n].optional)


def needed_types(decider: Any) -> Collection[str]:
    """Return the job types that a scheduler tells apart; none if it takes any."""
    types: Collection[str] = getattr(getattr(decider, "rule", None), "job_types", ())
    return types


def told_of(known: Known, job: str, decider: Any) -> tuple[dict[str, float], dict[str, Any]] | None:
    """Return speeds of a job and the columns that a policy reads; none if it cannot run."""
    if job not in known.facts or job in known.unfit:
        return None
    columns, facts = {*_ALWAYS, *decider.columns}, known.facts[job]
    told = {name: each for name, each in facts.items() if name in columns}
    for one, other in zip(_STEPS, reversed(_STEPS), strict=True):
        if one in columns and other in facts:
            told.setdefault(one, facts[other])
    return known.told(job), told


def by_type(told: Callable[[str], dict[str, float]], throughputs: pd.DataFrame) -> pd.DataFrame:
    """Return what is told of each job by accelerator, 0 where nothing is."""
    rows = [told(job) for job in throughputs.index]
    table = pd.DataFrame(rows, index=throughputs.index, dtype=float)
    return table.reindex(columns=throughputs.columns).fillna(0.0)


def tables(known: Known, needs: frozenset[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return speeds and columns of all jobs, in one order.

    Columns that some lack are left out, but for numbers in columns of one's own; so are columns of
    one's own in which jobs have values of several kinds: one job may not keep all from a decision.
    """
    names = sorted(job for job in known.facts if job not in known.unfit)
    index = pd.Index(names, dtype=object)
    speeds = pd.DataFrame([known.told(job) for job in names], index)
    jobs = pd.DataFrame([known.facts[job] for job in names], index)
    for name, value in DEFAULTS.items():
        if name in jobs:
            jobs[name] = jobs[name].fillna(value)
    for name in map(str, [*jobs.columns]):
        if name in JOB_COLUMNS and JOB_COLUMNS[name].kind == "text" and JOB_COLUMNS[name].optional:
            jobs[name] = jobs[name].fillna("")
    if needs & {*_STEPS} or all(name in jobs for name in _STEPS):
        for one, other in zip(_STEPS, reversed(_STEPS), strict=True):
            told = jobs.get(other, pd.Series(float("nan"), index))
            jobs[one] = jobs[one].fillna(told) if one in jobs else told
    for name in map(str, [*jobs.columns]):
        if name not in JOB_COLUMNS:
            left_out = name not in needs and not _is_of_one_kind(jobs[name])
        else:
            left_out = not JOB_COLUMNS[name].optional and bool(jobs[name].isna().any())
        if left_out:
            del jobs[name]
    jobs["elapsed_s"] = known.now_s - jobs["arrival_s"].astype(float)
    return speeds, jobs


def _is_of_one_kind(column: pd.Series) -> bool:
    """Whether a column of one's own can stand in a jobs table: numbers, or one kind for all."""
    if is_numeric_dtype(column):
        return True
    kinds = {bool if isinstance(v, bool) else str if isinstance(v, str) else float for v in column}
    return len(kinds) == 1


_AT_ONCE, _PAUSE_S = 250, 0.005
"""Jobs that are added at once beside what answers, and a pause in which that can go on."""


class WarmShares:
    """Shares of what is known now, from a session that has heard of all before.

    Parameters
    ----------
    decider
        A policy.
    known
        What is known now.
    """

    def __init__(self, decider: Any, known: Known) -> None:
        self._decider, self._known = decider, known
        self._session: Session | None = None
        self._changed: set[str] = set()
        self._since: set[str] = set()
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self._prepared: Future[Session | None] | None = None

    def changed(self, jobs: Iterable[str]) -> None:
        """Take note of jobs that came, went, or are otherwise known now."""
        self._changed.update(jobs)
        self._since.update(jobs)

    def prepare(self, *, wanted: bool) -> None:
        """Make a problem anew from what is known now, beside the one that answers until `turn`."""
        self._since.clear()
        self._prepared = None
        if wanted:
            self._prepared = self._beside.submit(self._made, self._known.frozen())

    def turn(self) -> None:
        """Answer by what was prepared, as a service does that begins with the state of then."""
        self._session = None if self._prepared is None else self._prepared.result()
        self._prepared = None
        self._changed = {*self._since}

    def drop(self) -> None:
        """Begin anew: a solve has failed."""
        self._session = None

    def asked(self) -> Callable[[], Allocation]:
        """Return what solves, in another thread, for what is known now."""
        return partial(self._solve, self._changes(), self._known.cluster)

    def close(self) -> None:
        """End the thread."""
        self._beside.shutdown(wait=True, cancel_futures=True)

    def _changes(self) -> dict[str, tuple[dict[str, float], dict[str, Any]] | None]:
        """Return what the session has not heard of: speeds and columns by job, or gone."""
        jobs = sorted(self._known.facts if self._session is None else self._changed)
        self._changed.clear()
        return {job: told_of(self._known, job, self._decider) for job in jobs}

    def _solve(self, changes: Mapping[str, Any], cluster: Cluster) -> Allocation:
        """Bring the changes into the session, and solve."""
        new = {job: told for job, told in changes.items() if told is not None}
        if self._session is not None:
            there = {*self._session.jobs}
            if gone := [job for job in changes if job in there]:
                self._session.remove(gone)
            if cluster != self._session.cluster:
                self._session.set_cluster(cluster)
        else:
            self._session = session(self._decider, cluster)
        _add(self._session, new)
        return self._session.solve()

    def _made(self, known: Known) -> Session | None:
        """Return a session that has solved once; none if that cannot be."""
        made = session(self._decider, known.cluster)
        jobs = sorted(known.facts)
        try:
            for first in range(0, len(jobs), _AT_ONCE):
                told = {job: told_of(known, job, self._decider) for job in jobs[first:][:_AT_ONCE]}
                _add(made, {job: each for job, each in told.items() if each is not None})
                time.sleep(_PAUSE_S)
            made.solve()
        except Exception as error:  # the first one who asks is told of it
            _LOG.info("nothing was prepared: %s", error)
            return None
        return made


def _add(session: Session, told: Mapping[str, tuple[dict[str, float], dict[str, Any]]]) -> None:
    if told:
        speeds = {job: each[0] for job, each in told.items()}
        session.add(speeds, {job: each[1] for job, each in told.items()})
