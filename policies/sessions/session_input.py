"""Jobs as a session takes them: tables or mappings, read in full or, where all is plain, at once.

A row is what was said of a job: its steps/s by option, and its columns by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_NUMBER, mapping
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import JOB_COLUMNS, JobColumn, column_named
from apportion.policies.labelled import DEFAULTS, aligned
from apportion.problem_inputs import jobs_table, level_names, name_in_cluster
from apportion.table_checks import check_unique
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from apportion.cluster import Cluster

Throughputs = ThroughputTensor | pd.DataFrame | Mapping[Any, Mapping[Any, float]]
"""Steps/s of jobs under options."""
Facts = pd.DataFrame | Mapping[Any, Any]
"""What else is known of jobs, by id and column of the jobs table; or columns by name."""
Row = tuple[dict[Any, float], dict[str, Any]]
"""Steps/s of a job by option, and what else was said of it."""

_OWN = JobColumn("", "own", least=-LARGEST_NUMBER)
_ASSUMED = {**DEFAULTS, "arrival_s": 0.0, "pinned": False, "now_s": 0.0}
_NUMBERS = (float, int, np.float64, np.int64)
"""Types of plain numbers; a truth value is none."""


def by_job(given: Any) -> Mapping[Any, Mapping[Any, Any]] | None:
    """Return what was said of each job by name; ``None`` where that takes a closer look."""
    if isinstance(given, pd.DataFrame):
        if max(given.index.nlevels, given.columns.nlevels) > 1:
            return None
        names, jobs = given.columns.tolist(), given.index.tolist()
        if len({*names}) < len(names) or len({*jobs}) < len(jobs):
            return None
        rows = given.to_numpy(object).tolist()
        return {
            job: dict(zip(names, row, strict=True)) for job, row in zip(jobs, rows, strict=True)
        }
    if isinstance(given, Mapping) and all(isinstance(row, Mapping) for row in given.values()):
        return given
    return None


def plain(name: str, value: Any) -> float | int | str | None:
    """Return a number in the range of its column, or a text where that may be, in its type.

    ``None`` for any other value: reading it in full says what is wrong.
    """
    column, kind = JOB_COLUMNS.get(name, _OWN), type(value)
    if kind is str:
        return value if column.kind == "text" and value.strip() else None
    if kind not in _NUMBERS or column.kind not in ("number", "count", "own"):
        return None
    above = value > column.least if column.strict else value >= column.least
    if not (above and value <= column.most):
        return None
    if column.kind != "count":
        return float(value)
    return int(value) if value == int(value) else None


def plain_speed(value: Any) -> bool:
    """Whether a value is a plain number of steps/s."""
    return type(value) in _NUMBERS and 0 <= value <= LARGEST_NUMBER


def facts_of(jobs: Facts, ids: pd.Index | None = None) -> dict[Any, Mapping[Any, Any]]:
    """Return what is known of each job by column.

    A mapping of mappings is by job; with the `ids` of jobs, one without any is of columns by name.
    """
    if not isinstance(jobs, pd.DataFrame):
        known = mapping("jobs", jobs, "a table, or a mapping such as {'job': {'weight': 2.0}}")
        if ids is None or any(job in ids and isinstance(known[job], Mapping) for job in known):
            return {
                job: mapping(f"What is known of job {written(job)}", facts, "a mapping by column")
                for job, facts in known.items()
            }
        jobs = jobs_table(known, ids)
    if max(jobs.index.nlevels, jobs.columns.nlevels) > 1:
        raise InputError("The rows and columns of the jobs table must have one level each.")
    check_unique("job id", jobs.index)
    check_unique("column of the jobs table", jobs.columns)
    return dict(zip(jobs.index, jobs.to_dict("records"), strict=True))


def read_jobs(
    throughputs: Throughputs, jobs: Facts | None, cluster: Cluster
) -> tuple[ThroughputTensor, list[Mapping[Any, Any]]]:
    """Return throughputs, and what else is known of each job, by default what they carry.

    Raises
    ------
    InputError
        If they carry other workers than the session's, or jobs are combined.
    """
    tensor = ThroughputTensor.of(throughputs)
    if tensor.workers not in (None, cluster):
        raise InputError(
            f"The throughputs are for the workers {tensor.workers}, the session is of {cluster}."
        )
    if len(tensor.rows) != len(tensor.jobs) or not tensor.rows.equals(tensor.jobs):
        raise InputError("A session takes single jobs; combinations of jobs are for solve.")
    given = tensor.jobs_table if jobs is None else jobs
    if given is None:
        return tensor, [{}] * len(tensor.jobs)
    facts = facts_of(given, tensor.jobs)
    aligned(pd.DataFrame(index=pd.Index([*facts], tupleize_cols=False)), tensor.jobs)
    return tensor, [facts[job] for job in tensor.jobs]


def said(name: str, facts: Mapping[str, Any]) -> Any:
    """Return the value of a column, or what `solve` takes where it does not tell.

    ``...`` for nothing: no policy that needs the column would have taken the job.
    """
    if name in facts:
        return facts[name]
    if name in _ASSUMED:
        return _ASSUMED[name]
    if name == "steps_remaining":
        return facts.get("total_steps", ...)
    if name == "isolated_elapsed_s":
        return facts.get("elapsed_s", 0.0)
    return None if column_named(name).optional else ...


def options_on(options: pd.Index | None, cluster: Cluster) -> pd.Index:
    """Return the options of the types of a cluster, in its order where an option is a type."""
    if options is None:
        return pd.Index(cluster.accelerators)
    types = types_of(options)
    if options.nlevels > 1:
        return options[types.isin(cluster.accelerators)]
    return options[types.get_indexer(pd.Index(cluster.accelerators))]


def types_of(options: pd.Index) -> pd.Index:
    """Return the names of the types of options, as in a cluster."""
    place = (level_names(options) or ("accelerator",)).index("accelerator")
    return pd.Index([str(each) for each in options.get_level_values(place)])


def with_options(known: pd.Index | None, new: pd.Index, cluster: Cluster) -> pd.Index:
    """Return the options of a session with what a cluster has and jobs are told under.

    Raises
    ------
    InputError
        For a type that no cluster of the session had, or options of other levels.
    """
    first = new[:0] if known is None else known
    if first.nlevels != new.nlevels:
        raise InputError(
            f"The options of the session have {first.nlevels} levels (such as "
            f"{written(first[0])}), those of the new jobs {new.nlevels}."
        )
    valid = dict.fromkeys([*cluster.accelerators, *types_of(first)])
    for name in types_of(new):
        if name not in valid:
            raise unknown_name("accelerator type of this session", name, valid)
    if new.nlevels > 1:
        return first.append(new[~new.isin(first)])
    named = {str(option): option for option in (*cluster.accelerators, *new, *first)}
    every: pd.Index = pd.Index([*named.values()])
    return every


def speeds_by_option(tensor: ThroughputTensor, options: pd.Index) -> list[dict[Any, float]]:
    """Return steps/s of each job by option, as the session calls them."""
    called = dict(zip(map(name_in_cluster, options), options, strict=True))
    labels = [called[name_in_cluster(option)] for option in tensor.options]
    return [dict(zip(labels, row, strict=True)) for row in tensor.values.to_numpy().tolist()]
