"""The jobs table: one row per job, documented columns and one's own."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_COUNT, LARGEST_NUMBER, at_most, is_truth
from apportion.errors import InputError, unknown_name, written
from apportion.table_checks import as_floats, check_unique, table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True)
class JobColumn:
    """One column of the jobs table: its meaning, unit and range."""

    meaning: str
    kind: Literal["number", "count", "text", "option", "truth", "own"] = "number"
    least: float = 0.0
    strict: bool = False
    optional: bool = False
    largest: float | None = None

    @property
    def most(self) -> float:
        """The largest value."""
        if self.largest is not None:
            return self.largest
        return LARGEST_COUNT if self.kind == "count" else LARGEST_NUMBER

    @property
    def valid(self) -> str:
        """The range in words, for error messages."""
        if self.kind in _WORDS:
            return _WORDS[self.kind]
        number = "a whole number" if self.kind == "count" else "a finite number"
        return f"{number} {'>' if self.strict else '>='} {self.least:g}"


_WORDS = {
    "text": "a text",
    "option": "the label of an option",
    "truth": "True or False",
    "own": "a finite number, True or False, or a text, of one kind for all jobs",
}

JOB_COLUMNS: Mapping[str, JobColumn] = {
    "arrival_s": JobColumn("when the job arrives, seconds from the start of the workload"),
    "job_type": JobColumn("model and batch size, the key into a table of throughputs", "text"),
    "scale_factor": JobColumn("GPUs that the job holds while it runs (its gang)", "count", 1),
    "total_steps": JobColumn("training steps from start to completion", strict=True),
    "steps_remaining": JobColumn("training steps still to do", strict=True),
    "weight": JobColumn("priority weight: twice the weight, twice the share", strict=True),
    "entity": JobColumn("user, team or virtual cluster that the job belongs to", "text"),
    "deadline_s": JobColumn(
        "seconds after arrival within which the job should complete; NaN for none",
        strict=True,
        optional=True,
    ),
    "time_limit_s": JobColumn(
        "seconds that the job takes at most, as its user says; NaN for not said",
        strict=True,
        optional=True,
    ),
    "duration_s": JobColumn("duration recorded in the trace, seconds", optional=True),
    "start_included": JobColumn(
        "whether the steps include what a first start takes, as the duration of a log does", "truth"
    ),
    "recorded_start_s": JobColumn(
        "when the job started by its log, seconds from the start of the workload", optional=True
    ),
    "recorded_end_s": JobColumn(
        "when the job ended by its log, seconds from the start of the workload", optional=True
    ),
    "recorded_on": JobColumn(
        "accelerator type on which the job ran by its log; empty for not said",
        "text",
        optional=True,
    ),
    "runs_on": JobColumn(
        "the one accelerator type that the job may run on, where the cluster has it; empty for any",
        "text",
        optional=True,
    ),
    "elapsed_s": JobColumn("seconds since the job arrived"),
    "now_s": JobColumn("the time, the same for all jobs, seconds"),
    "count": JobColumn("identical jobs that the row stands for", "count", 1),
    "isolated_elapsed_s": JobColumn(
        "seconds that the steps done so far would have taken in an isolated 1/n share"
    ),
    "network_priority": JobColumn(
        "seconds that the steps done would have taken without network delay, over the seconds "
        "that they took; 0 for a job that never ran"
    ),
    "waited_s": JobColumn("seconds since the job arrived or last gave up its GPUs, if it waits"),
    "entity_used_s": JobColumn(
        "GPU-seconds that the jobs of its entity have had, those of long ago counting less: "
        "half after each half_life_s of the policy"
    ),
    "reallocation_factor": JobColumn(
        "part of its speed that a job keeps on average if it is moved now", largest=1.0
    ),
    "running_on": JobColumn(
        "accelerator type on which the job has been running all the time; empty for none",
        "text",
        optional=True,
    ),
    "current_option": JobColumn(
        "option that the job has now, as the throughputs call it; None, NaN or empty for none",
        "option",
        optional=True,
    ),
    "pinned": JobColumn("whether the job must keep its current option", "truth"),
    "measured": JobColumn(
        "whether the figures of a run are of this job, too; the others keep the GPUs busy", "truth"
    ),
}
"""Every column of a jobs table that means something here, by name; others are one's own."""

RECORDED_TIMES = ("recorded_start_s", "recorded_end_s")
"""Columns with times of the log that a workload was read from."""


_OWN = JobColumn("a column of your own", "own", least=-LARGEST_NUMBER, optional=True)
_ALIKE = 0.75
"""From which likeness on (`difflib`) a name is taken for a misspelt one."""
_NO_SLIPS = frozenset({"account"})
"""Names that look like misspelt ones, and are none."""
TOLD_BY_RUNS = frozenset(
    {
        *("start_s", "completion_s", "jct_s", "queueing_s", "isolated_s", "ftf", "gpu_seconds"),
        *("cost", "preemptions", "met_deadline", "order"),
    }
)


def column_named(name: object, where: str = "column in the jobs table") -> JobColumn:
    """Return what is known of a column: of one's own, that it may hold numbers or texts.

    Raises
    ------
    InputError
        For a name that looks like a misspelt one, with the nearest; for one that a run gives to
        what it tells of jobs; and for what is no name.
    """
    if name in JOB_COLUMNS:
        return JOB_COLUMNS[str(name)]
    if not isinstance(name, str) or not name.strip():
        raise unknown_name(where, name, JOB_COLUMNS)
    if name == "order":
        raise InputError(
            f"The {where} 'order' is made of 'arrival_s', and of the ids where jobs came together: "
            f"give arrival_s in its place."
        )
    if name in TOLD_BY_RUNS:
        raise InputError(
            f"The {where} {name!r} has a name of what a run tells of jobs; choose another."
        )
    alike = difflib.get_close_matches(name.lower(), JOB_COLUMNS, n=1, cutoff=_ALIKE)
    if alike and name not in _NO_SLIPS:
        raise unknown_name(where, name, JOB_COLUMNS)
    return _OWN


_OTHER_NAMES = {
    **{"priority_weight": "weight", "priority_weights": "weight"},
    **{"slo": "deadline_s", "slos": "deadline_s", "times_since_start": "elapsed_s"},
}
"""Names that Gavel has for columns, in lower case, where they are not like ours anyway."""


def refuse_misplaced(
    names: Iterable[object], read: Collection[str], types: Collection[str] = ()
) -> None:
    """Refuse columns that are none of one's own: of another name here, or called as a type.

    Parameters
    ----------
    names
        Of columns.
    read
        Columns that the policy reads, whatever they are called.
    types
        Accelerator types, of which speeds are told with the throughputs.
    """
    lower = {str(kind).lower(): kind for kind in types}
    for name in map(str, names):
        if name in JOB_COLUMNS or name in read:
            continue
        if (known := _OTHER_NAMES.get(name.lower())) is not None:
            raise InputError(
                f"Unknown column in the jobs table {name!r}. Did you mean {known!r}? That is "
                f"{JOB_COLUMNS[known].meaning}."
            )
        if (kind := lower.get(name.lower())) is not None:
            raise InputError(
                f"The jobs table has a column {name!r}, and {kind!r} is an accelerator type; give "
                f"the speeds on it with the throughputs."
            )


def check_jobs(jobs: pd.DataFrame, *, required: Iterable[str] = ()) -> pd.DataFrame:
    """Return the table with its types fixed, or name the first thing that is wrong with it.

    Parameters
    ----------
    jobs
        One row per job, indexed by job id; columns of `JOB_COLUMNS`, and of one's own: numbers
        (NaN for none), truths or texts, which policies and schedulers may read.
    required
        Columns that must be there.

    Raises
    ------
    InputError
        For duplicate ids, misspelt or missing columns (with the nearest name), and values out of
        range (naming the job).
    """
    table("The jobs table", jobs)
    check_unique("job id", jobs.index)
    check_unique("column of the jobs table", jobs.columns)
    for column in jobs.columns:
        column_named(column)
    for column in required:
        meaning = column_named(column, "column of the jobs table").meaning
        if column not in jobs.columns:
            raise InputError(
                f"The jobs table has no column {column!r} ({meaning}), which is needed here."
            )
    if _are_good_numbers(jobs):
        return jobs.copy()
    columns = {str(name): _checked(str(name), values) for name, values in jobs.items()}
    if all(
        _as_it_is(each, dtype) for each, dtype in zip(columns.values(), jobs.dtypes, strict=True)
    ):
        return jobs.copy()
    return pd.DataFrame(columns, index=jobs.index)


def _are_good_numbers(jobs: pd.DataFrame) -> bool:
    """Whether a table holds numbers only, each column of its type and in its range.

    Quicker than column by column, of which pandas makes an object each.
    """
    known = [column_named(name) for name in jobs.columns]
    wanted = {"number": "f8", "count": "i8", "own": "f8"}
    if not jobs.size or any(
        column.kind not in wanted or np.dtype(wanted[column.kind]) != dtype
        for column, dtype in zip(known, jobs.dtypes, strict=True)
    ):
        return False
    numbers = jobs.to_numpy(dtype=np.float64)
    least = np.array([column.least for column in known])
    low = np.where([column.strict for column in known], numbers <= least, numbers < least)
    wrong = low | ~(numbers <= [column.most for column in known])
    wrong &= ~(np.isnan(numbers) & [column.optional for column in known])
    return not wrong.any()


def _as_it_is(checked: Any, dtype: Any) -> bool:
    """Whether a checked column is a plain one that was of its type before."""
    return isinstance(checked, np.ndarray) and checked.dtype == dtype


def _checked(name: str, values: pd.Series) -> Any:
    """Convert one column to its type, an array, and check its range."""
    column = column_named(name)
    if column.kind == "own":
        column = replace(column, kind=_kind_of_own(values))
    if column.kind == "option":
        labels = np.empty(len(values), dtype=object)
        labels[:] = [_option(value) for value in values]
        return pd.Series(labels, index=values.index, name=name, dtype=object)
    if column.kind == "truth":
        wrong = ~np.array([is_truth(value) for value in values], dtype=bool)
        checked: Any = values if wrong.any() else values.to_numpy(dtype=bool)
    elif column.kind == "text":
        blank = (values.astype(str).str.strip() == "").to_numpy() & (not column.optional)
        wrong = values.isna().to_numpy() | blank
        checked = values.astype(str).array
    else:
        array = as_floats(values)
        low = array <= column.least if column.strict else array < column.least
        wrong = ~np.isfinite(array) | low | (array > column.most)
        if column.kind == "count":
            wrong |= array != np.floor(array)
        if column.optional:
            wrong &= ~values.isna().to_numpy()
        checked = array
    if wrong.any():
        place = int(np.argmax(wrong))
        number = column.kind in ("number", "count")
        value = as_floats(values.iloc[[place]])[0] if number else 0.0
        valid = column.valid + at_most(value, column.most)
        raise InputError(
            f"Job {written(values.index[place])} has {name} = {written(values.iloc[place])}; it "
            f"must be {valid} ({column.meaning})."
        )
    return checked.astype(np.int64) if column.kind == "count" else checked


def _kind_of_own(values: pd.Series) -> Literal["number", "text", "truth"]:
    """Return what a column of one's own holds; what is neither is refused as no number."""
    known = values[values.notna()]
    if len(known) == len(values) and all(map(is_truth, known)):
        return "truth"
    return "text" if len(known) and all(isinstance(each, str) for each in known) else "number"


def _option(value: object) -> object:
    """Return the label of an option, lists as tuples; None for none."""
    if isinstance(value, (list, tuple)):
        return tuple(value)
    missing = (
        value is None
        or value is pd.NA
        or value != value
        or (isinstance(value, str) and not value.strip())
    )
    return None if missing else value


def places_of_texts(values: Any) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return the place of each value among the different ones in their order, and these."""
    code, names = pd.factorize(pd.Index(values, tupleize_cols=False), sort=True)
    return code.astype(float), tuple(map(str, names))
