"""Which row of speeds a job has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.checks import number
from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Iterable


ROWS = ("job", "type")
"""Who shares a row, see `JobRows`."""


class JobRows:
    """Names of rows by job, and jobs by row.

    Parameters
    ----------
    by
        ``"job"``: each job has a row, ``"type"``: those of one type have one.
    """

    def __init__(self, by: str) -> None:
        self.by_type = by == "type"
        self._row: dict[int | str, int | str] = {}
        self._jobs: dict[int | str, list[int | str]] = {}

    def admit(self, jobs: list[int | str], types: list[int | str]) -> None:
        """Note the types of jobs, all or none of them.

        Raises
        ------
        InputError
            For more types than jobs or fewer, and for a job that was of another type.
        """
        if len(jobs) != len(types):
            raise InputError(f"There are {len(jobs)} jobs and {len(types)} types.")
        if not self.by_type:
            return
        given: dict[int | str, int | str] = {}
        for job, kind in zip(jobs, types, strict=True):
            known = given.setdefault(job, self._row.get(job, kind))
            if known != kind:
                raise InputError(
                    f"Job {written(job)} is of type {written(known)}, not of {written(kind)}."
                )
        self._enter(given.items())

    def forget(self, jobs: Iterable[int | str]) -> None:
        """Let go of jobs; what was learnt of their rows stays."""
        for job in jobs:
            if job in self._row:
                row = self._row.pop(job)
                self._jobs[row].remove(job)
                if not self._jobs[row]:
                    del self._jobs[row]

    def names(self, jobs: list[int | str]) -> list[int | str]:
        """Return the names of the rows of jobs.

        Raises
        ------
        InputError
            For a job without a type where rows are by type.
        """
        if not self.by_type:
            self._enter((job, job) for job in jobs)
            return jobs
        for job in jobs:
            if job not in self._row:
                raise InputError(f"Job {written(job)} has no type; `admit` it first.")
        return [self._row[job] for job in jobs]

    def jobs(self, rows: Iterable[int | str]) -> list[int | str]:
        """Return all jobs of some rows."""
        return [job for row in rows for job in self._jobs.get(row, ())]

    def state(self) -> list[Any]:
        """Return jobs, each with its row, for JSON."""
        return [[job, row] for job, row in self._row.items()]

    def restore(self, state: list[Any]) -> None:
        """Take up a state of `state`."""
        self._row, self._jobs = {}, {}
        self._enter((job, row) for job, row in state)

    def _enter(self, pairs: Iterable[tuple[int | str, int | str]]) -> None:
        for job, row in pairs:
            if job not in self._row:
                self._row[job] = row
                self._jobs.setdefault(row, []).append(job)


_MOST_OPTIMISM = 10.0


def checked_optimism(optimism: Any) -> float:
    """Return a number of standard deviations.

    Raises
    ------
    InputError
        For anything else.
    """
    return number("optimism", optimism, most=_MOST_OPTIMISM)
