"""How jobs are told to a session: as tables or, without their cost, as mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.checks import mapping
from apportion.errors import written
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from apportion.policies.job_kinds import Description, JobKind

__all__ = ["Facts", "Throughputs", "recognised", "table_of"]

Throughputs = ThroughputTensor | pd.DataFrame | Mapping[Any, Mapping[Any, float]]
"""Steps/s of jobs under options."""
Facts = pd.DataFrame | Mapping[Any, Mapping[str, Any]]
"""What else is known of jobs, by id and column of the jobs table."""


def table_of(jobs: Facts | None) -> pd.DataFrame | None:
    """Return a table of what is known of jobs."""
    if jobs is None or isinstance(jobs, pd.DataFrame):
        return jobs
    rows = mapping("jobs", jobs, "a table, or a mapping such as {'job': {'weight': 2.0}}")
    for job, facts in rows.items():
        rows[job] = mapping(f"What is known of job {written(job)}", facts, "a mapping by column")
    return pd.DataFrame.from_dict(rows, orient="index")


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
