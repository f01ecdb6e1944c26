"""The jobs of a session under the options of its cluster: who is there, and in which classes."""

from __future__ import annotations

import logging
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.checks import hashable
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import JOB_COLUMNS
from apportion.policies.labelled import instance_of, jobs_of
from apportion.policies.sessions.job_kinds import JobClasses, JobRoll
from apportion.policies.sessions.session_input import (
    described,
    descriptions,
    facts_of,
    in_tables,
    options_on,
    read_jobs,
    recognised,
    under,
    with_options,
)
from apportion.table_checks import check_unique
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from apportion.cluster import Cluster
    from apportion.policies.base import Policy
    from apportion.policies.sessions.job_kinds import Description, JobKind
    from apportion.policies.sessions.session_input import Facts, Throughputs

logger = logging.getLogger(__name__)


class SessionJobs:
    """Jobs that come and go on one cluster; a call with bad input changes nothing.

    Parameters
    ----------
    policy, cluster
        What the jobs are checked for.
    told
        Every option that jobs may have a speed under, those of types that the cluster does not
        have now included; ``None`` before the first jobs.

    Attributes
    ----------
    options
        Options of the cluster, a column of X each.
    roll, classes
        Who is there, in order, and how many jobs each class has.
    """

    def __init__(self, policy: Policy, cluster: Cluster, told: pd.Index | None = None) -> None:
        self.policy, self.cluster = policy, cluster
        self.roll, self.classes = JobRoll(), JobClasses(("weight", "scale_factor"))
        self._tell(told)

    def _tell(self, told: pd.Index | None) -> None:
        self.told = told
        self.options = options_on(told, self.cluster)
        self._names = None if told is None else told.tolist()

    def add(self, throughputs: Throughputs, jobs: Facts | None) -> SessionJobs:
        """Add jobs; return where they are, which is elsewhere if they bring new options."""
        kinds = recognised(throughputs, jobs, self._names, self.classes.known)
        if kinds is not None:
            self._enter(kinds, kinds)
            return self
        order, tables = read_jobs(throughputs, jobs, self.cluster)
        told = self.told
        for tensor, _ in tables:
            told = with_options(told, tensor, self.cluster)
        there = self if told is self.told else self.on(self.cluster, told)
        there._enter(order, there._read(tables))
        return there

    def remove(self, jobs: Iterable[Hashable]) -> None:
        """Remove jobs by id."""
        going = [jobs] if isinstance(jobs, str) else hashable("job to remove", jobs)
        for job in going:
            if job not in self.roll:
                raise unknown_name("job to remove", job, self.roll.snapshot().ids())
        if len(set(going)) < len(going):
            twice = next(job for place, job in enumerate(going) if job in going[:place])
            raise InputError(f"Job {written(twice)} is to be removed twice.")
        for job in going:
            self.classes.go(self.roll.remove(job))
        self.classes.forget(len(self.roll))

    def update(self, jobs: Facts) -> None:
        """Change what is known of some jobs, speeds by option among it: the rest stays."""
        facts = facts_of(jobs)
        if facts is None:
            raise InputError("There is nothing to update: jobs is None.")
        if isinstance(facts, pd.DataFrame):
            check_unique("job id", facts.index)
            check_unique("column of the jobs table", facts.columns)
            facts = dict(zip(facts.index, facts.to_dict("records"), strict=True))
        for job in facts:
            if job not in self.roll:
                raise unknown_name("job to update", job, self.roll.snapshot().ids())
        kinds = self._read(
            in_tables({job: self._updated(job, facts[job]) for job in facts}, self.told)
        )
        for job, kind in kinds.items():
            self.classes.go(self.roll[job])
            self.classes.come(kind)
        if kinds:
            self.roll.revise(lambda job, kind: kinds.get(job, kind))
        self.classes.forget(len(self.roll))

    def _updated(
        self, job: Hashable, facts: Mapping[Any, Any]
    ) -> tuple[tuple[float, ...], dict[str, Any]]:
        """Return the speeds of a job, and its columns: one called as an option is a speed."""
        speeds, old = self.roll[job].said
        options, columns = self._names or [], (*JOB_COLUMNS, *self.policy.columns)
        known = dict(zip_longest(options, speeds, fillvalue=0.0))
        rest = {name: each for name, each in facts.items() if name in columns or name not in known}
        told = {name: each for name, each in facts.items() if name not in rest}
        return (*{**known, **told}.values(),), {**dict(old), **rest}

    def said(self) -> dict[Hashable, Description]:
        """Return what was said of each job, in the order in which they came."""
        now = self.roll.snapshot()
        return {job: kind.said for job, kind in zip(now.ids(), now.kinds(), strict=True)}

    def on(self, cluster: Cluster, told: pd.Index | None) -> SessionJobs:
        """Return the same jobs on another cluster, or with more options, which begin at 0.

        Raises
        ------
        InputError
            If a job cannot run there.
        """
        return SessionJobs.of(self.policy, cluster, told, self.said())

    @classmethod
    def of(
        cls,
        policy: Policy,
        cluster: Cluster,
        told: pd.Index | None,
        said: Mapping[Hashable, Description],
    ) -> SessionJobs:
        """Return jobs of whom something was said, under the first of the options at least."""
        new = cls(policy, cluster, told)
        if said:
            jobs = {job: (speeds, dict(facts)) for job, (speeds, facts) in said.items()}
            new._enter(jobs, new._read(in_tables(jobs, told)))
        return new

    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return throughputs under the options of the cluster, and what else is known."""
        speeds, facts = described(self.said(), self.told)
        return speeds[self.options], facts

    def _enter(self, jobs: Iterable[Hashable], kinds: Mapping[Hashable, JobKind]) -> None:
        again = [job for job in kinds if job in self.roll]
        for job in again:  # compared as texts, as nan is equal to none
            if repr(kinds[job].said) != repr(self.roll[job].said):
                raise InputError(
                    f"Job {written(job)} is in the session already, with other values; change its "
                    f"columns by update, or remove it and add it again."
                )
        if again:
            logger.info("In the session already, with the same values: %s.", written(again))
        for job in jobs:
            if job not in self.roll:
                self.roll.add(job, kinds[job])
                self.classes.come(kinds[job])

    def _read(
        self, tables: list[tuple[ThroughputTensor, pd.DataFrame | None]]
    ) -> dict[Hashable, JobKind]:
        """Check jobs as `solve` does, and find or make their kinds."""
        kinds: dict[Hashable, JobKind] = {}
        for given, facts in tables:
            speeds = under(given, self.told)
            tensor = ThroughputTensor(speeds[self.options])
            table = jobs_of(tensor, facts, self.policy)
            instance = instance_of(tensor, self.cluster, table)
            said = descriptions(speeds, None if facts is None else table[facts.columns])
            kinds |= zip(tensor.jobs, self.classes.kinds_of(said, instance), strict=True)
        return kinds
