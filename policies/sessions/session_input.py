"""How jobs are told to a session: as tables or, without their cost, as mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.checks import mapping
from apportion.errors import InputError, unknown_name, written
from apportion.given import jobs_table
from apportion.jobs import JOB_COLUMNS
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from apportion.cluster import Cluster
    from apportion.policies.sessions.job_kinds import Description, JobKind

__all__ = [
    "Facts",
    "Throughputs",
    "described",
    "descriptions",
    "of_single_jobs",
    "read_jobs",
    "recognised",
    "table_of",
]

Throughputs = ThroughputTensor | pd.DataFrame | Mapping[Any, Mapping[Any, float]]
"""Steps/s of jobs under options."""
Facts = pd.DataFrame | Mapping[Any, Any]
"""What else is known of jobs, by id and column of the jobs table; or columns by name."""


def table_of(jobs: Facts | None, ids: pd.Index | None = None) -> pd.DataFrame | None:
    """Return a table of what is known of jobs.

    A mapping of mappings is by job; with the `ids` of jobs, any other is of columns by name.
    """
    if isinstance(jobs, pd.DataFrame) and max(jobs.index.nlevels, jobs.columns.nlevels) > 1:
        raise InputError("The rows and columns of the jobs table must have one level each.")
    if jobs is None or isinstance(jobs, pd.DataFrame):
        return jobs
    known = mapping("jobs", jobs, "a table, or a mapping such as {'job': {'weight': 2.0}}")
    by_job = all(isinstance(facts, Mapping) for facts in known.values())
    columns = not by_job or all(name in JOB_COLUMNS for name in known)
    if ids is not None and columns and not (by_job and all(job in ids for job in known)):
        return jobs_table(known, ids)
    rows = {
        job: mapping(f"What is known of job {written(job)}", facts, "a mapping by column")
        for job, facts in known.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def read_jobs(
    throughputs: Throughputs, jobs: Facts | None, cluster: Cluster
) -> tuple[ThroughputTensor, pd.DataFrame | None]:
    """Return throughputs and the table of what else is known, by default what they carry.

    Raises
    ------
    InputError
        If they carry other workers than the session's.
    """
    tensor = ThroughputTensor.of(throughputs)
    if tensor.workers not in (None, cluster):
        raise InputError(
            f"The throughputs are for the workers {tensor.workers}, the session is of {cluster}."
        )
    known = table_of(jobs, tensor.jobs)
    return tensor, tensor.jobs_table if known is None else known


def of_single_jobs(tensor: ThroughputTensor, options: pd.Index | None) -> ThroughputTensor:
    """Return throughputs in the order of a session's options, if there are any yet.

    Raises
    ------
    InputError
        If jobs are combined, or have other options.
    """
    if len(tensor.rows) != len(tensor.jobs) or not tensor.rows.equals(tensor.jobs):
        raise InputError("A session takes single jobs; combinations of jobs are for solve.")
    if options is None:
        return tensor
    for option in tensor.options.symmetric_difference(options):
        raise unknown_name("option of this session", option, options)
    return ThroughputTensor(tensor.values[options])


def descriptions(tensor: ThroughputTensor, jobs: pd.DataFrame | None) -> list[Description]:
    """Return what was said of each job, in the order of the tensor."""
    given = pd.DataFrame(index=tensor.jobs) if jobs is None else jobs.loc[tensor.jobs]
    columns = sorted(map(str, given.columns))
    facts = [tuple(zip(columns, row, strict=True)) for row in given[columns].to_numpy(object)]
    speeds = map(tuple, tensor.values.to_numpy(dtype=float).tolist())
    return list(zip(speeds, facts, strict=True))


def described(
    said: Mapping[Hashable, Description], options: pd.Index | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return tables of throughputs and of what else was said of jobs."""
    index = pd.Index(list(said))
    tensor = pd.DataFrame([speeds for speeds, _ in said.values()], index, options)
    return tensor, pd.DataFrame([dict(facts) for _, facts in said.values()], index)


def recognised(
    throughputs: Throughputs,
    jobs: Facts | None,
    names: Sequence[Any] | None,
    known: Mapping[Description, JobKind],
) -> dict[Hashable, JobKind] | None:
    """Find the kinds of jobs that are told as mappings, where the same was said of jobs before.

    Such jobs have passed all checks under other ids. ``None`` if it is not known of all of them,
    or if anything is odd: the full reading, which takes milliseconds, finds out what.

    Parameters
    ----------
    names
        Options of the session; ``None`` before the first jobs.
    known
        Kinds by what was said.
    """
    if names is None or not isinstance(throughputs, Mapping):
        return None
    if isinstance(jobs, pd.DataFrame):
        return None
    facts = jobs or {}
    kinds: dict[Hashable, JobKind] = {}
    if facts and facts.keys() != throughputs.keys():
        return None
    try:
        for job, speeds in throughputs.items():
            own = tuple(sorted(facts[job].items())) if facts else ()
            kind = known.get((tuple([speeds[name] for name in names]), own))
            if kind is None or len(speeds) != len(names):
                return None
            kinds[job] = kind
    except (KeyError, TypeError):
        return None
    return kinds
