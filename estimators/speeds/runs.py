"""What has run, checked: who, on which column, how many steps in how many seconds of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from apportion.checks import LARGEST_NUMBER, LONGEST_LABEL, is_whole, listed
from apportion.errors import InputError, written
from apportion.table_checks import float_array

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from apportion.types import Floats, Ints


_LEAST_SECONDS = 30.0
"""Seconds of work that a measurement takes."""


class RanWhere(Protocol):
    """Who ran where: arrays of one length."""

    @property
    def job(self) -> Any:
        """Number or name of the job."""

    @property
    def column(self) -> Any:
        """Place of the column that the gang held."""


class Runs(NamedTuple):
    """Runs that took long enough to count."""

    jobs: list[int | str]
    columns: Ints
    steps: Floats
    seconds: Floats


def checked_jobs(jobs: Iterable[int | str]) -> list[int | str]:
    """Return jobs as plain numbers and texts.

    Raises
    ------
    InputError
        For what is neither.
    """
    if isinstance(jobs, np.ndarray) and jobs.ndim == 1 and jobs.dtype.kind in "iu":
        return list(jobs.tolist())
    names: list[int | str] = []
    for job in listed("jobs", jobs, "a list of numbers or names of jobs"):
        if is_whole(job):
            names.append(int(job))
        elif isinstance(job, str) and len(job) <= LONGEST_LABEL:
            names.append(job)
        else:
            raise InputError(f"A job is {written(job)}; it must be a whole number or a text.")
    return names


def checked_runs(gangs: RanWhere, steps: ArrayLike, seconds: ArrayLike, columns: int) -> Runs:
    """Check runs, and leave out those that were too short.

    Raises
    ------
    InputError
        For arrays that do not match, columns that are not there, and negative or missing numbers.
    """
    if not (hasattr(gangs, "job") and hasattr(gangs, "column")):
        raise InputError(f"The gangs need `job` and `column`; got {written(type(gangs).__name__)}.")
    names = checked_jobs(gangs.job)
    place = checked_columns(gangs.column, len(names), columns)
    made = checked_amounts("steps", steps, len(names))
    lasted = checked_amounts("seconds", seconds, len(names))
    long = lasted >= _LEAST_SECONDS
    kept = [name for name, counts in zip(names, long.tolist(), strict=True) if counts]
    return Runs(kept, place[long], made[long], lasted[long])


def checked_amounts(what: str, given: ArrayLike, jobs: int) -> Floats:
    """Return a number >= 0 for each job.

    Raises
    ------
    InputError
        For another number of them, and for negative or missing numbers.
    """
    values = float_array(what, given)
    if values.shape != (jobs,):
        raise InputError(f"There are {jobs} jobs and {what} of shape {values.shape}.")
    wrong = ~((values >= 0) & (values <= LARGEST_NUMBER))
    if wrong.any():
        raise InputError(f"The {what} are {values[wrong][0]}; they must be numbers >= 0.")
    return values


def checked_columns(given: ArrayLike, cells: int, columns: int) -> Ints:
    """Return places of columns, one for each cell.

    Raises
    ------
    InputError
        For another number of them, and for columns that are not there.
    """
    place = float_array("column", given)
    if place.shape != (cells,):
        raise InputError(f"There are {cells} jobs and columns of shape {place.shape}.")
    wrong = ~((place >= 0) & (place < columns) & (place == np.floor(place)))
    if wrong.any():
        raise InputError(f"There is no column {place[wrong][0]:g}; valid: 0 to {columns - 1}.")
    return place.astype(np.intp)
