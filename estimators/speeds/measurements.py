"""What was measured of rows that come one by one: runs, checked, and means of logarithms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from apportion.checks import LARGEST_NUMBER, LONGEST_LABEL, is_whole, listed
from apportion.errors import InputError, written
from apportion.table_checks import float_array

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from apportion.types import Bools, Floats, Ints


_FIRST_ROOM = 16

_OUT = 3.0
"""Standard deviations off which a measurement is not of the speed of those before it."""

_FADES = 7 / 8
"""Part of the doubt of a cell that is left when one further measurement has come."""


class Measurements:
    r"""Measured logarithms of speeds by row and column; rows are added as their names come up.

    A cell is the mean of its measurements as long as they agree. One that lies more than three
    standard deviations off the mean m of the n before it,

    .. math:: |y - m| > 3 s \sqrt{1 + 1 / n},

    says that the speed has changed, or that measurements are worse than was said: the cell starts
    anew with it, n = 1, and is doubted. Its doubt w, the mean of the squares :math:`(y - m)^2` of
    such steps with weights that fade by 1/8 with each measurement, adds to the variance of a
    measurement: the mean of n is known to :math:`\sqrt{(s^2 + w) / n}`. So a speed that
    changes once is found at once, and trusted as before some twenty measurements later.

    Parameters
    ----------
    columns
        Number of columns.
    noise
        s, standard deviation of a measurement.
    """

    def __init__(self, columns: int, noise: float = 0.05) -> None:
        self._noise = noise
        self._place: dict[int | str, int] = {}
        self._names: list[int | str] = []
        self._log = np.zeros((_FIRST_ROOM, columns))
        self._count = np.zeros((_FIRST_ROOM, columns))
        self._doubt = np.zeros((_FIRST_ROOM, columns))
        self._failed = np.zeros((_FIRST_ROOM, columns), dtype=bool)

    def __len__(self) -> int:
        return len(self._place)

    @property
    def log(self) -> Floats:
        """Mean logarithm of what was measured, 0 where nothing was; shape (rows, columns)."""
        return self._log[: len(self)]

    @property
    def count(self) -> Floats:
        """How many measurements each is the mean of, shape (rows, columns)."""
        return self._count[: len(self)]

    @property
    def worth(self) -> Floats:
        """Measurements without doubt that would be as good as those of each cell."""
        said = self._noise**2
        return self.count * (said / (said + self._doubt[: len(self)]))

    def begin(self, row: int, speeds: Floats) -> None:
        """Begin a row with steps/s that are known; 0 where the job cannot run."""
        measured, failed = np.flatnonzero(speeds > 0), np.flatnonzero(speeds == 0)
        self.enter(np.full(measured.size, row), measured, np.log(speeds[measured]))
        self.fail(np.full(failed.size, row), failed)

    @property
    def failed(self) -> Bools:
        """Where a row is known not to run, shape (rows, columns)."""
        return self._failed[: len(self)]

    def rows(self, names: Iterable[int | str]) -> Ints:
        """Places of rows by name; new names get new rows."""
        place = self._place
        found = [place.setdefault(name, len(place)) for name in names]
        while len(place) > len(self._log):
            self._log, self._count, self._doubt, self._failed = (
                np.concatenate([each, np.zeros_like(each)])
                for each in (self._log, self._count, self._doubt, self._failed)
            )
        return np.array(found, dtype=np.intp)

    def names(self, rows: Ints) -> list[int | str]:
        """Names of rows by place."""
        if len(self._names) < len(self):
            self._names = list(self._place)
        return [self._names[row] for row in rows.tolist()]

    def enter(self, rows: Ints, columns: Ints, logs: Floats) -> None:
        """Average measurements into their cells, or begin these anew; what has run can run."""
        new: Floats = np.ones(rows.size)
        if rows.size > 1:
            cells = rows * self._log.shape[1] + columns
            of_cell, line = np.unique(cells, return_inverse=True)
            new = np.bincount(line).astype(np.float64)
            logs = np.bincount(line, weights=logs).astype(np.float64)
            rows, columns = np.divmod(of_cell, self._log.shape[1])
        kept = self._count[rows, columns]
        before = self._count[rows, columns] > 0
        if before.any():
            kept = self._doubted(rows, columns, np.where(before, kept, 0.0), logs / new, new)
        count = kept + new
        self._log[rows, columns] = (self._log[rows, columns] * kept + logs) / count
        self._count[rows, columns] = count
        self._failed[rows, columns] = False

    def _doubted(
        self, rows: Ints, columns: Ints, kept: Floats, means: Floats, new: Floats
    ) -> Floats:
        """Keep the doubt of cells that are measured again; return what their past counts for."""
        off = np.where(kept > 0, means - self._log[rows, columns], 0.0)
        with np.errstate(divide="ignore"):
            out = np.abs(off) > _OUT * self._noise * np.sqrt(1.0 / new + 1.0 / kept)
        faded = self._doubt[rows, columns] * _FADES**new
        self._doubt[rows, columns] = faded + np.where(out, (1.0 - _FADES) * off**2, 0.0)
        return np.where(out, 0.0, kept)

    def fail(self, rows: Ints, columns: Ints) -> None:
        """Note that rows do not run; what was measured there is forgotten."""
        self._failed[rows, columns] = True
        self._log[rows, columns] = 0.0
        self._count[rows, columns] = 0.0
        self._doubt[rows, columns] = 0.0

    def state(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "rows": list(self._place),
            "log": self.log.tolist(),
            "count": self.count.tolist(),
            "doubt": self._doubt[: len(self)].tolist(),
            "failed": self.failed.tolist(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`; LookupError, TypeError or ValueError if it is none."""
        names = list(state["rows"])
        shape = (len(names), self._log.shape[1])
        log, count, doubt = (
            np.array(state[name], dtype=np.float64).reshape(shape)
            for name in ("log", "count", "doubt")
        )
        failed = np.array(state["failed"], dtype=bool).reshape(shape)
        self._place, self._names = {}, []
        self.rows(names)
        self._log[: len(names)], self._count[: len(names)] = log, count
        self._doubt[: len(names)], self._failed[: len(names)] = doubt, failed


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
