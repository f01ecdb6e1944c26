"""The jobs of a session: what was said of each, checked once, and the problem that all pose."""

from __future__ import annotations

import logging
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import hashable
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import JOB_COLUMNS, places_of_texts
from apportion.policies.core.classes import GivenOrder
from apportion.policies.instance import Instance
from apportion.policies.labelled import DEFAULTS, Read, instance_of, jobs_of, read
from apportion.policies.sessions.session_input import (
    columns_of,
    facts_of,
    options_on,
    plain_rows,
    read_jobs,
    table_of,
    under,
    with_options,
)
from apportion.tensor import ThroughputTensor
from apportion.ties import order_of_submission

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from apportion.cluster import Cluster
    from apportion.policies.base import Policy
    from apportion.policies.sessions.session_input import Facts, Row, Throughputs
    from apportion.types import Floats

logger = logging.getLogger(__name__)

_BY_LABEL = ("current_option", "pinned", "running_on")
"""Columns that say something of options by their labels."""


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
    rows
        What was said of each job, in the order in which they came.
    """

    def __init__(self, policy: Policy, cluster: Cluster, told: pd.Index | None = None) -> None:
        self.policy, self.cluster, self.told = policy, cluster, told
        self.options = options_on(told, cluster)
        self.rows: dict[Hashable, Row] = {}
        self._names = [] if told is None else told.tolist()
        self._plain = self.options.nlevels == 1 and not hasattr(policy, "check_jobs")
        self._checked: set[tuple[str, ...]] = set()
        place = {option: place for place, option in enumerate(self._names)}
        self._columns = [place[option] for option in self.options if option in place]
        self._gpus = [*cluster.gpus.values()]
        self._capacity = np.array(self._gpus, dtype=float)
        names, prices = cluster.accelerators, cluster.prices_per_gpu_hour
        self._prices = np.array([prices.get(name, np.nan) for name in names])
        offered = sorted(np.flatnonzero(self._capacity).tolist(), key=names.__getitem__)
        self._offered = np.array(offered, dtype=np.intp)
        self._types = tuple(names[place] for place in offered)

    def add(self, throughputs: Throughputs, jobs: Facts | None) -> SessionJobs:
        """Add jobs; return where they are, which is elsewhere if they bring new options."""
        there, rows = self, self._at_once(throughputs, jobs)
        if rows is None:
            tensor, facts = read_jobs(throughputs, jobs, self.cluster)
            told = with_options(self.told, tensor.options, self.cluster)
            if self.told is None or len(told) > len(self.told):
                there = self.on(self.cluster, told)
            said = zip(under(tensor, told), map(dict, facts), strict=True)
            rows = there._in_full(dict(zip(tensor.jobs, said, strict=True)))
        there._enter(rows)
        return there

    def remove(self, jobs: Iterable[Hashable]) -> None:
        """Remove jobs by id."""
        going = [jobs] if isinstance(jobs, str) else hashable("job to remove", jobs)
        for job in going:
            if job not in self.rows:
                raise unknown_name("job to remove", job, [*self.rows])
        if len(set(going)) < len(going):
            twice = next(job for place, job in enumerate(going) if job in going[:place])
            raise InputError(f"Job {written(twice)} is to be removed twice.")
        for job in going:
            del self.rows[job]

    def update(self, jobs: Facts) -> None:
        """Change what is known of some jobs, speeds by option among it: the rest stays."""
        facts = facts_of(jobs)
        for job in facts:
            if job not in self.rows:
                raise unknown_name("job to update", job, [*self.rows])
        new = {job: self._updated(job, facts[job]) for job in facts}
        speeds = {job: dict(zip(self._names, row[0], strict=False)) for job, row in new.items()}
        rows = self._at_once(speeds, {job: said for job, (_, said) in new.items()})
        self.rows |= self._in_full(new) if rows is None else rows

    def _updated(self, job: Hashable, facts: Mapping[Any, Any]) -> Row:
        """Return the row of a job with other columns: one called as an option is a speed."""
        speeds, old = self.rows[job]
        columns = (*JOB_COLUMNS, *self.policy.columns)
        known = dict(zip_longest(self._names, speeds, fillvalue=0.0))
        rest = {name: each for name, each in facts.items() if name in columns or name not in known}
        told = {name: each for name, each in facts.items() if name not in rest}
        return (*{**known, **told}.values(),), {**old, **rest}

    def on(self, cluster: Cluster, told: pd.Index | None) -> SessionJobs:
        """Return the same jobs on another cluster, or with more options, which begin at 0.

        Raises
        ------
        InputError
            If a job cannot run there.
        """
        return SessionJobs.of(self.policy, cluster, told, self.rows)

    @classmethod
    def of(
        cls, policy: Policy, cluster: Cluster, told: pd.Index | None, rows: Mapping[Hashable, Row]
    ) -> SessionJobs:
        """Return jobs of whom something was said, under the first of the options at least."""
        new = cls(policy, cluster, told)
        new._enter(new._in_full(rows))
        return new

    def posed(self) -> Read:
        """Return the problem of all jobs: in arrays at once, or by tables as `solve` does."""
        index = pd.Index([*self.rows], tupleize_cols=False)
        columns = columns_of(self.rows.values())
        numbers = self._numbers(columns) if self._plain else None
        if numbers is not None:
            return self._posed(index, *numbers)
        speeds = pd.DataFrame([speeds for speeds, _ in self.rows.values()], index, self.told)
        table, gpus = table_of(columns, index), self.cluster
        given = ThroughputTensor.of(speeds[self.options], workers=gpus, jobs=table)
        return read(self.policy, given)

    def _posed(
        self, index: pd.Index, numbers: Mapping[str, Floats], texts: Mapping[str, tuple[str, ...]]
    ) -> Read:
        """Pose the problem of jobs whose columns are numbers, in the order of `GivenOrder`."""
        speed = np.array([speeds for speeds, _ in self.rows.values()])
        room = numbers["scale_factor"][:, None] <= self._capacity
        speed = np.where(room, speed[:, self._columns], 0.0)
        jobs = order_of_submission(index, numbers.get("arrival_s", np.zeros(len(index))))
        here, order = self._offered, np.arange(len(index), dtype=float)
        instance = Instance.of_jobs(
            speed[jobs][:, here],
            numbers["scale_factor"][jobs],
            self._capacity[here],
            columns={**{name: each[jobs] for name, each in numbers.items()}, "order": order},
            prices=self._prices[here],
            texts=texts,
            resource_names=self._types,
        )
        types = self._capacity.size
        back = GivenOrder(jobs, jobs, here, here, types, types)
        return Read(instance, back, index, index, self.options, self.options, numbers)

    def _numbers(
        self, columns: Mapping[str, list[Any]]
    ) -> tuple[dict[str, Floats], dict[str, tuple[str, ...]]] | None:
        """Return columns as numbers, as `solve` reads them, and what those of texts hold places of.

        ``None`` where one is of options, or of several kinds.
        """
        size, reads = len(self.rows), self.policy.columns
        numbers: dict[str, Floats] = {name: np.full(size, each) for name, each in DEFAULTS.items()}
        texts: dict[str, tuple[str, ...]] = {}
        if not {*_BY_LABEL}.isdisjoint((*columns, *reads)):
            return None
        for name, values in columns.items():
            kinds = {*map(type, values)}
            if kinds <= {int, float, bool, type(None)}:
                numbers[name] = np.array(values, dtype=float)
            elif kinds != {str}:
                return None
            elif name == "entity" or name not in JOB_COLUMNS:
                numbers[name], texts[name] = places_of_texts(values)
        if "now_s" in reads:
            numbers.setdefault("now_s", np.zeros(size))
        if "total_steps" in numbers:
            numbers.setdefault("steps_remaining", numbers["total_steps"])
        numbers.setdefault("isolated_elapsed_s", numbers["elapsed_s"])
        return numbers, texts

    def _enter(self, rows: Mapping[Hashable, Row]) -> None:
        again = [job for job in rows if job in self.rows]
        for job in again:  # compared as texts, as nan is equal to none
            if repr(rows[job]) != repr(self.rows[job]):
                raise InputError(
                    f"Job {written(job)} is in the session already, with other values; change its "
                    f"columns by update, or remove it and add it again."
                )
        if again:
            logger.info("In the session already, with the same values: %s.", written(again))
        self.rows |= rows

    def _at_once(self, throughputs: Any, jobs: Any) -> dict[Hashable, Row] | None:
        """Return the rows of jobs that are plain and fit; ``None`` for a reading in full."""
        if not self._plain or not self._names:
            return None
        rows = plain_rows(throughputs, jobs, self._names, self._checked)
        for speeds, facts in ({} if rows is None else rows).values():
            gang = facts.get("scale_factor", 1)
            here = zip(self._columns, self._gpus, strict=True)
            if not any(speeds[place] > 0 and gang <= gpus for place, gpus in here):
                return None
        return rows

    def _in_full(self, rows: Mapping[Hashable, Row]) -> dict[Hashable, Row]:
        """Check jobs as `solve` does, those of whom the same columns are known together."""
        alike: dict[tuple[str, ...], list[Hashable]] = {}
        for job, (_, facts) in rows.items():
            alike.setdefault(tuple(facts), []).append(job)
        read: dict[Hashable, Row] = {}
        for names, ids in alike.items():
            index = pd.Index(ids, tupleize_cols=False)
            speeds = [rows[job][0] for job in ids]
            padded = [(*each, *[0.0] * (len(self._names) - len(each))) for each in speeds]
            given = ThroughputTensor.of(pd.DataFrame(padded, index, self.told)).values
            tensor = ThroughputTensor(given[self.options])
            said = table_of({name: [rows[job][1][name] for job in ids] for name in names}, index)
            jobs = jobs_of(tensor, said, self.policy)
            instance_of(tensor, self.cluster, jobs)
            ordered = sorted(map(str, names))
            kept = jobs[ordered].to_numpy(object).tolist()
            for job, speed, each in zip(ids, given.to_numpy().tolist(), kept, strict=True):
                read[job] = (*speed,), dict(zip(ordered, each, strict=True))
            self._checked.add(tuple(ordered))
        return {job: read[job] for job in rows}
