"""The jobs of a session: what was said of each, checked once, and the problem that all pose.

Jobs that a policy cannot tell apart are a class with a count, which an event changes: the problem
is posed over classes, and labels are put on the result only.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import hashable
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import JOB_COLUMNS
from apportion.policies.core.classes import GivenOrder
from apportion.policies.instance import Instance
from apportion.policies.labelled import Read, read
from apportion.policies.sessions.session_input import (
    by_job,
    facts_of,
    options_on,
    plain,
    plain_speed,
    read_jobs,
    said,
    speeds_by_option,
    with_options,
)
from apportion.tensor import ThroughputTensor
from apportion.ties import key_of_id

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from apportion.cluster import Cluster
    from apportion.policies.base import Policy
    from apportion.policies.sessions.session_input import Facts, Row, Throughputs
    from apportion.policies.solution import Solution
    from apportion.types import Floats, Ints

logger = logging.getLogger(__name__)

_BY_LABEL = frozenset({"current_option", "pinned", "running_on"})
"""Columns that say something of options by their labels."""


@dataclass(eq=False)
class _Class:
    """Jobs that a policy cannot tell apart.

    Attributes
    ----------
    key
        What tells them from others; ``None`` for jobs of which something is not plain.
    speeds, values
        Steps/s on the types that have GPUs, and the columns that the policy reads.
    members
        When each job came, and its id, in the order of submission.
    count
        How many jobs they stand for.
    """

    key: Any
    speeds: tuple[float, ...]
    values: tuple[Any, ...]
    members: list[tuple[float, Any]] = field(default_factory=list)
    count: float = 0.0


@dataclass(frozen=True, eq=False)
class _ByClass(GivenOrder):
    """The way from classes to jobs in the order in which they came."""

    class_of: Ints

    def restore(self, solution: Solution) -> Solution:
        X, made = solution.X[self.class_of], solution.throughput[self.class_of]
        return super().restore(replace(solution, X=X, throughput=made))


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
        self._checked: set[frozenset[str]] = set()
        own = policy.integral or hasattr(policy, "check_jobs") or "deadline_s" in policy.columns
        self._plain = self.options.nlevels == 1 and not own and told is not None
        alike = policy._built_in and "tells_identical_jobs_apart" not in policy.traits
        self._one_class_each = "order" in policy.columns or not alike
        self._read = sorted({"scale_factor", "weight", *policy.columns} - {"order", "count"})
        gpus, names = [*cluster.gpus.values()], cluster.accelerators
        here = sorted((place for place in range(len(gpus)) if gpus[place]), key=names.__getitem__)
        self._here, self._gpus = np.array(here, dtype=np.intp), np.array(gpus, dtype=float)
        self._options = [] if told is None else told.tolist()
        if self._plain:
            self._offered = [(self.options[place], gpus[place]) for place in here]
        self._classes: dict[Any, _Class] = {}
        self._class_of: dict[Hashable, _Class] = {}

    def add(self, throughputs: Throughputs, jobs: Facts | None) -> SessionJobs:
        """Add jobs; return where they are, which is elsewhere if they bring new options."""
        there, rows = self, self._at_once(throughputs, jobs)
        if rows is None:
            tensor, facts = read_jobs(throughputs, jobs, self.cluster)
            told = with_options(self.told, tensor.options, self.cluster)
            if self.told is None or len(told) > len(self.told):
                there = self.on(self.cluster, told)
            told_of = zip(speeds_by_option(tensor, told), map(dict, facts), strict=True)
            rows = there._in_full(dict(zip(tensor.jobs, told_of, strict=True)))
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
            self._leave(job)
            del self.rows[job], self._class_of[job]

    def update(self, jobs: Facts) -> None:
        """Change what is known of some jobs, speeds by option among it: the rest stays.

        A column that is called as an option is a speed, unless the policy reads it.
        """
        columns = (*JOB_COLUMNS, *self.policy.columns)
        new: dict[Any, Row] = {}
        for job, facts in facts_of(jobs).items():
            if job not in self.rows:
                raise unknown_name("job to update", job, [*self.rows])
            speeds, known = map(dict, self.rows[job])
            for name, value in facts.items():
                told = name not in columns and name in self._options
                (speeds if told else known)[name] = value
            new[job] = speeds, known
        speeds, facts = ({job: row[part] for job, row in new.items()} for part in (0, 1))
        rows = self._at_once(speeds, facts)
        for job, row in (self._in_full(new) if rows is None else rows).items():
            self._leave(job)
            self._put(job, row)

    def on(self, cluster: Cluster, told: pd.Index | None) -> SessionJobs:
        """Return the same jobs on another cluster, or with more options, which begin at 0.

        Raises
        ------
        InputError
            If a job cannot run there.
        """
        new = SessionJobs(self.policy, cluster, told)
        new._enter(new._in_full(self.rows))
        return new

    def posed(self) -> Read:
        """Return the problem of all jobs: over classes, or by tables as `solve` does."""
        index = pd.Index([*self.rows], tupleize_cols=False)
        kind = index.inferred_type  # ids of several kinds have an order of their own
        if self._plain and None not in self._classes and kind in ("string", "integer", "floating"):
            classes = sorted(self._classes.values(), key=lambda each: each.members[0])
            columns = _columns(self._read, [each.values for each in classes])
            if columns is not None:
                return self._over_classes(index, classes, *columns)
        return read(self.policy, self._tensor(self.rows))

    def _over_classes(
        self,
        index: pd.Index,
        classes: list[_Class],
        columns: dict[str, Floats],
        texts: dict[str, tuple[str, ...]],
    ) -> Read:
        """Pose the problem over classes, in the order of `GivenOrder`."""
        names, here, size = self.cluster.accelerators, self._here, len(classes)
        prices = [self.cluster.prices_per_gpu_hour.get(name, np.nan) for name in names]
        own = {"count": np.array([each.count for each in classes])}
        if self._one_class_each:
            own["order"] = np.arange(size, dtype=float)
        instance = Instance.of_jobs(
            np.array([each.speeds for each in classes]).reshape(size, len(here)),
            columns["scale_factor"],
            self._gpus[here],
            columns={**columns, **own},
            prices=np.array(prices)[here],
            texts=texts,
            resource_names=tuple(names[place] for place in here.tolist()),
        )
        place = {id(each): place for place, each in enumerate(classes)}
        of_job = np.array([place[id(each)] for each in self._class_of.values()])
        every, types = np.arange(of_job.size), len(names)
        order = _ByClass(every, every, here, here, types, types, of_job)
        return Read(instance, order, index, index, self.options, self.options, {})

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
        for job, row in rows.items():
            if job not in self.rows:
                self._put(job, row)

    def _put(self, job: Hashable, row: Row) -> None:
        """Note a job, and count it in its class; what is not plain is of the class ``None``."""
        self.rows[job] = row
        speeds, facts = row
        key: Any = None
        own, values = tuple[float, ...](), tuple(said(name, facts) for name in self._read)
        if self._plain and _BY_LABEL.isdisjoint(facts) and ... not in values:
            gang = facts.get("scale_factor", 1)
            own = tuple(speeds[name] if gang <= gpus else 0.0 for name, gpus in self._offered)
            values = tuple(None if each != each else each for each in values)  # NaN is no key
            key = job if self._one_class_each else (own, values)
        found = self._classes.setdefault(key, _Class(key, own, values))
        insort(found.members, self._submission(job))
        found.count += facts.get("count", 1)
        self._class_of[job] = found

    def _leave(self, job: Hashable) -> None:
        """Count a job no longer."""
        found = self._class_of[job]
        del found.members[bisect_left(found.members, self._submission(job))]
        found.count -= self.rows[job][1].get("count", 1)
        if not found.members:
            del self._classes[found.key]

    def _submission(self, job: Hashable) -> tuple[float, Any]:
        """Return what orders jobs as `apportion.ties.order_of_submission` does."""
        return self.rows[job][1].get("arrival_s", 0.0), key_of_id(job)

    def _speeds(self, rows: Mapping[Hashable, Row]) -> pd.DataFrame:
        """Return steps/s of jobs under every option."""
        every = self._options
        by_option = [[speeds.get(name, 0.0) for name in every] for speeds, _ in rows.values()]
        return pd.DataFrame(by_option, pd.Index([*rows], tupleize_cols=False), self.told)

    def _tensor(self, rows: Mapping[Hashable, Row]) -> ThroughputTensor:
        """Return what was said of jobs, on the types of the cluster.

        What was said of some of them only is of the others what `solve` takes.
        """
        speeds, known = self._speeds(rows)[self.options], [facts for _, facts in rows.values()]
        told = {name: [said(name, facts) for facts in known] for name in {*()}.union(*known)}
        columns = {
            name: pd.Series(column, speeds.index, dtype=object).infer_objects()
            for name, column in told.items()
            if ... not in column
        }
        table = pd.DataFrame(columns, speeds.index)
        return ThroughputTensor.of(speeds, workers=self.cluster, jobs=table)

    def _at_once(self, throughputs: Any, jobs: Any) -> dict[Hashable, Row] | None:
        """Return the rows of jobs whose values are plain numbers in their range, or known texts.

        ``None`` for any others: reading them in full takes milliseconds, and says what is wrong.
        """
        speeds, known = by_job(throughputs), {} if jobs is None else by_job(jobs)
        if not self._plain or speeds is None or known is None:
            return None
        if known and known.keys() != speeds.keys():
            return None
        rows: dict[Hashable, Row] = {}
        for job, own in speeds.items():
            facts = known.get(job, {})
            read = {name: plain(name, facts[name]) for name in facts}
            if frozenset(read) not in self._checked or None in read.values():
                return None
            told = {name: own.get(name, 0.0) for name in self._options}
            if not (told.keys() >= own.keys() and all(map(plain_speed, told.values()))):
                return None
            gang = facts.get("scale_factor", 1)
            if not any(told[name] > 0 and gang <= gpus for name, gpus in self._offered):
                return None
            rows[job] = {name: float(told[name]) for name in told}, dict(sorted(read.items()))
        return rows

    def _in_full(self, rows: Mapping[Hashable, Row]) -> dict[Hashable, Row]:
        """Check jobs as `solve` does, those of whom the same columns are known together."""
        alike: dict[frozenset[Any], dict[Hashable, Row]] = {}
        for job, row in rows.items():
            alike.setdefault(frozenset(row[1]), {})[job] = row
        found: dict[Hashable, Row] = {}
        for names, some in alike.items():
            every = ThroughputTensor.of(self._speeds(some)).values
            columns = read(self.policy, self._tensor(some)).columns
            kept = {name: columns[name] for name in sorted(names)}
            table = pd.DataFrame(kept, range(len(some)), dtype=object)
            facts = [dict(zip(kept, row, strict=True)) for row in table.to_numpy().tolist()]
            found |= zip(some, zip(every.to_dict("records"), facts, strict=True), strict=True)
            self._checked.add(names)
        return {job: found[job] for job in rows}


def _columns(
    names: Iterable[str], rows: Iterable[tuple[Any, ...]]
) -> tuple[dict[str, Floats], dict[str, tuple[str, ...]]] | None:
    """Return columns as numbers, as `solve` reads them, and what those of texts hold places of.

    ``None`` where one is of several kinds.
    """
    numbers: dict[str, Floats] = {}
    texts: dict[str, tuple[str, ...]] = {}
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        kinds = {*map(type, values)}
        if str not in kinds:
            numbers[name] = np.array(values, dtype=float)
        elif len(kinds) > 1:
            return None
        elif name == "entity" or name not in JOB_COLUMNS:
            texts[name] = tuple(sorted({*values}))
            place = {text: float(place) for place, text in enumerate(texts[name])}
            numbers[name] = np.array([place[text] for text in values])
    return numbers, texts
