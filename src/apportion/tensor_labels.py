"""Labels of a throughput tensor: its rows, jobs and combinations of them, and its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import hashable, listed, mapping
from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


COMBINATION = " + "
"""Between the ids of jobs in the label of their combination."""


def combination_table(
    combinations: Mapping[tuple[Any, ...], Sequence[Sequence[float]]],
    options: Sequence[Any] | pd.Index,
) -> pd.DataFrame:
    """Make a table, rows ``(row, job)``, of a row of steps/s for each job of each combination.

    Raises
    ------
    InputError
        If a combination is no tuple, or has no number for each of its jobs and options.
    """
    labels, rows = [], []
    valid = "a mapping from tuples of job ids to rows of steps/s"
    combinations = mapping("combinations", combinations, valid)
    options = hashable("option", options)
    for members, given in combinations.items():
        if not isinstance(members, tuple) or not members:
            raise InputError(f"A combination is {written(members)}; it must be a tuple of ids.")
        rows_of = f"The throughputs of the combination {written(members)}"
        speeds = [listed(rows_of, speed, "rows of steps/s") for speed in listed(rows_of, given)]
        if any(len(speed) != len(options) for speed in speeds):
            raise InputError(f"{rows_of} must have a number for each of {written(options)}.")
        if len(speeds) != len(members):
            raise InputError(
                f"The combination {members!r} has {len(speeds)} rows of throughputs for "
                f"{len(members)} jobs."
            )
        name = members[0] if len(members) == 1 else COMBINATION.join(map(str, members))
        labels += [(name, job) for job in members]
        rows += [list(speed) for speed in speeds]
    index = pd.MultiIndex.from_tuples(labels, names=["row", "job"])
    return pd.DataFrame(rows, index=index, columns=pd.Index(options))


def rows_of_jobs(ids: pd.Index) -> pd.MultiIndex:
    """Return the labels ``(row, job)`` of jobs that are rows of their own; no id stands twice."""
    places = np.arange(len(ids))
    levels: Any = [ids, ids]
    codes: Any = [places, places]
    return pd.MultiIndex(levels, codes, names=["row", "job"])


def each_alone(index: pd.Index) -> bool:
    """Whether the labels ``(row, job)`` are of different jobs, each a row of its own.

    Told from the codes, without a look at the labels one by one. False says nothing for labels of
    several kinds, of which some may be equal that are not the same, as 1 and True.
    """
    if not isinstance(index, pd.MultiIndex) or index.nlevels != 2:
        return False
    (rows, jobs), (row, job) = index.levels, index.codes
    if rows.dtype == object or rows.dtype != jobs.dtype or not rows.equals(jobs):
        return False
    counts = np.bincount(row, minlength=1) if row.size and row.min() >= 0 else np.full(1, 2)
    return bool(counts.max() == 1) and np.array_equal(row, job)


def check_members(index: pd.Index) -> None:
    """Name the first combination that does not have the jobs that its label says.

    Raises
    ------
    InputError
        If there is one in the labels ``(row, job)``.
    """
    combined = index[index.get_level_values(0) != index.get_level_values(1)]
    members: dict[Any, list[str]] = {}
    for row, job in combined:
        members.setdefault(row, []).append(str(job))
    for row, jobs in members.items():
        named = str(row).split(COMBINATION)
        if len(jobs) == 1 and len(named) == 1:
            raise InputError(
                f"The row {written(row)} is of job {jobs[0]!r} only; a row of one job has the "
                f"job's own id."
            )
        if len(named) > 1 and len(jobs) < len(named):
            missing = next((name for name in named if name not in jobs), named[-1])
            raise InputError(
                f"The combination {written(row)} has no throughputs for its member "
                f"{missing!r}; it needs a row for each of {', '.join(named)}."
            )


OPTION_LEVELS = ("accelerator", "tier", "gpus")
"""What an option can say, the names of the levels of the columns."""


def name_in_cluster(option: Any) -> Any:
    """Return an option under the name that its type has in a cluster."""
    return (str(option[0]), *option[1:]) if isinstance(option, tuple) else str(option)


def level_names(options: pd.Index) -> tuple[str, ...] | None:
    """Return what the levels of options say, out of `OPTION_LEVELS`; None where that is unknown."""
    if options.nlevels == 1:
        return ("accelerator",)
    named = tuple(map(str, options.names))
    if any(name in OPTION_LEVELS for name in named):
        right = {"accelerator"} <= set(named) <= set(OPTION_LEVELS)
        return named if right and len(set(named)) == len(named) else None
    if options.nlevels > 2:
        return None
    numbers = pd.api.types.is_numeric_dtype(options.get_level_values(1))
    return ("accelerator", "gpus" if numbers else "tier")


def called(options: pd.Index) -> str:
    """Write the names of levels that have any."""
    return f" called {list(options.names)}" if any(options.names) else ""


def written_option(option: Any) -> str:
    """Write an option as a user would."""
    return " at ".join(map(written, option)) if isinstance(option, tuple) else written(option)
