"""What users tell of a round in tables: the jobs, and seconds by job and option."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import mapping
from apportion.cluster import TIERS
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import check_jobs, refuse_misplaced
from apportion.policies.labelled import aligned
from apportion.problem_inputs import level_names
from apportion.table_checks import as_floats, check_unique

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from apportion.cluster import Cluster
    from apportion.tensor import ThroughputTensor
    from apportion.types import Floats


_MADE_OF = {
    "network_priority": "total_steps, steps_remaining and received=",
    "current_option": "running=",
    "reallocation_factor": "elapsed_s, the column restarts and the setting restart_seconds",
}
"""Columns for `solve` that a round makes itself, and of what."""
_MADE = (
    *_MADE_OF,
    *("order", "running_on", "weight", "elapsed_s", "isolated_elapsed_s", "waited_s"),
    *("scale_factor", "count", "fair_throughput", "arrival_s"),
)


def read_jobs(tensor: ThroughputTensor, decider: Any) -> pd.DataFrame:
    """Return the jobs table in the order of a tensor, with what a policy or scheduler needs.

    Raises
    ------
    InputError
        For jobs that are not those of the tensor, missing columns, and columns that a round makes
        itself of others.
    """
    given = tensor.jobs_table
    table = pd.DataFrame(index=tensor.jobs) if given is None else aligned(given, tensor.jobs)
    for name, parts in _MADE_OF.items():
        if name in table.columns:
            raise InputError(
                f"The column {name!r} of the jobs table is for solve; a round makes it of {parts}. "
                f"Leave it out."
            )
    if (table.get("count", pd.Series([1])) != 1).any():
        raise InputError(
            "The jobs table has a count above 1; in a round every job has devices of its own: give "
            "each a row."
        )
    steps = {"steps_remaining", "total_steps"}
    needed = [name for name in getattr(decider, "columns", ()) if name not in _MADE]
    if not hasattr(decider, "columns") and type(decider).__module__.startswith("apportion."):
        needed = [] if hasattr(decider, "scheduler") else ["steps_remaining"]
    if steps & set(table.columns):
        needed = [name for name in needed if name not in steps]
    check_jobs(table, required=needed)
    if hasattr(decider, "columns"):  # a scheduler may read any
        refuse_misplaced(table.columns, decider.columns, tensor.accelerator_of_option)
    if "scale_factor" not in table.columns:
        table = table.assign(scale_factor=1)
    return table


def clock_of(jobs: pd.DataFrame) -> tuple[Floats, float]:
    """Return when each job arrived, and the time, seconds, of `arrival_s` and `elapsed_s`.

    Raises
    ------
    InputError
        If both are told and do not agree on the time; the job is named.
    """
    if "elapsed_s" not in jobs.columns:
        came_s = np.zeros(len(jobs))
        if "arrival_s" in jobs.columns:
            came_s = jobs["arrival_s"].to_numpy(dtype=float)
        return came_s, float(came_s.max(initial=0.0))
    elapsed_s = jobs["elapsed_s"].to_numpy(dtype=float)
    if "arrival_s" not in jobs.columns:
        now_s = float(elapsed_s.max(initial=0.0))
        return now_s - elapsed_s, now_s
    arrival_s = jobs["arrival_s"].to_numpy(dtype=float)
    times_s = arrival_s + elapsed_s
    now_s = float(times_s.max(initial=0.0))
    late = now_s - times_s > 1e-6 * max(now_s, 1.0)
    if late.any():
        job = int(np.argmax(late))
        raise InputError(
            f"Job {written(jobs.index[job])} has arrival_s + elapsed_s = {times_s[job]:g}, another "
            f"job {now_s:g}; together they are the time of the round. Leave one of them out, or "
            f"give all jobs the same sum."
        )
    return arrival_s, now_s


def steps_of(jobs: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return all steps of each job and those that are left; of one step where nothing is told.

    Raises
    ------
    InputError
        If a job has more left than there are.
    """
    given = {name: jobs[name].to_numpy(dtype=float) for name in jobs.columns if "steps" in name}
    one = np.ones(len(jobs))
    total = given.get("total_steps", given.get("steps_remaining", one))
    left = given.get("steps_remaining", total)
    more = left > total
    if more.any():
        job = int(np.argmax(more))
        raise InputError(
            f"Job {written(jobs.index[job])} has steps_remaining = {left[job]:g} of total_steps = "
            f"{total[job]:g}; it cannot have more left than there are."
        )
    return total, left


class Seconds:
    """Seconds by job and option.

    Attributes
    ----------
    rows
        The job of each row.
    kind
        Accelerator type of each column, as a cluster calls it.
    tier
        Tier (its place in `TIERS`) of each column; ``None`` where columns do not say.
    values
        Shape (rows, columns).
    """

    def __init__(self, rows: list[Hashable], columns: pd.Index, values: Floats) -> None:
        self.rows, self.values = rows, values
        levels = level_names(columns) or ()
        of = {name: columns.get_level_values(place) for place, name in enumerate(levels)}
        self.kind = [str(each) for each in of["accelerator"]]
        self.tier = [TIERS.index(each) for each in of["tier"]] if "tier" in of else None

    def array(
        self, place: Mapping[Hashable, int], accelerators: tuple[str, ...], *, tiers: bool
    ) -> Floats:
        """Return them by number of the job and type, or type and tier, of those that are there."""
        kinds = {name: kind for kind, name in enumerate(accelerators)}
        width = len(TIERS) if tiers else 1
        of_tier = self.tier if tiers and self.tier is not None else [0] * len(self.kind)
        found = np.zeros((len(place), len(kinds) * width))
        for job, values in zip(self.rows, self.values, strict=True):
            for kind, tier, seconds in zip(self.kind, of_tier, values, strict=True):
                if job in place and kind in kinds:
                    found[place[job], kinds[kind] * width + tier] += seconds
        return found


def read_seconds(
    name: str, given: Any, tensor: ThroughputTensor, cluster: Cluster, *, signed: bool = False
) -> Seconds:
    """Read seconds by job and option; rows that are not there have none.

    Parameters
    ----------
    name
        Of the argument, for messages.
    given
        A DataFrame, or a mapping of mappings; ``None`` for nothing. Rows are jobs.
    tensor, cluster
        Whose jobs, and whose types.
    signed
        Whether seconds may be below 0.

    Raises
    ------
    InputError
        For unknown jobs and types, and numbers out of range.
    """
    valid = "a DataFrame of jobs by accelerators, or a mapping such as {'job': {'v100': 60.0}}"
    if given is None:
        return Seconds([], pd.Index(cluster.accelerators), np.empty((0, len(cluster.gpus))))
    if not isinstance(given, pd.DataFrame):
        rows = {job: mapping(name, row, valid) for job, row in mapping(name, given, valid).items()}
        columns = dict.fromkeys(option for row in rows.values() for option in row)
        cells = [[row.get(option, 0.0) for option in columns] for row in rows.values()]
        labels = pd.Index(list(rows), tupleize_cols=False)
        given = pd.DataFrame(cells, index=labels, columns=pd.Index(list(columns)))
    check_unique(f"row of {name}", given.index)
    check_unique(f"column of {name}", given.columns)
    if level_names(given.columns) is None:
        raise InputError(f"{name} must be {valid}, or by (accelerator, tier).")
    for job in given.index:
        if job not in tensor.jobs:
            raise unknown_name(f"job in {name}", job, list(tensor.jobs))
    found = Seconds(list(given.index), given.columns, _cells(given))
    for kind in found.kind:
        if kind not in cluster.gpus:
            raise unknown_name(f"accelerator in {name}", kind, cluster.gpus)
    wrong = ~np.isfinite(found.values) | ((found.values < 0) & (not signed))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            f"{name} of {written(given.index[row])} on {written(given.columns[column])} is "
            f"{written(given.iat[row, column])}; it must be a finite number of seconds"
            f"{'' if signed else ' >= 0'}."
        )
    return found


def _cells(table: pd.DataFrame) -> Floats:
    return as_floats(table).reshape(table.shape)
