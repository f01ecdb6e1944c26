"""How jobs are told to a session: as tables or, without their cost, as mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.checks import mapping
from apportion.errors import InputError, written
from apportion.given import jobs_table
from apportion.jobs import JOB_COLUMNS
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from apportion.cluster import Cluster
    from apportion.policies.sessions.job_kinds import Description, JobKind

__all__ = ["Facts", "Throughputs", "read_jobs", "recognised", "table_of"]

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
