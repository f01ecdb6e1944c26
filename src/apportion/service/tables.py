"""What is known as policies and schedulers read it: speeds and columns of jobs, in one order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from apportion.jobs import JOB_COLUMNS
from apportion.policies.labelled import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from apportion.service.known import Known

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
