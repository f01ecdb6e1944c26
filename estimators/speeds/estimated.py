"""Speeds that are learnt while jobs run, and what policies are told of them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from apportion.checks import LARGEST_NUMBER, choice, number
from apportion.checks import seed as check_seed
from apportion.errors import InputError, written
from apportion.estimators.speeds.columns import SpeedColumns
from apportion.estimators.speeds.measurements import Measurements, checked_jobs, checked_runs
from apportion.estimators.speeds.prior import learn_prior, noise_level, posterior
from apportion.estimators.speeds.tables import read_speeds
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import ArrayLike

    from apportion.estimators.speeds.measurements import RanWhere
    from apportion.types import Floats, Ints


ROWS = ("job", "type")
"""Who shares a row of measurements."""

_MOST_OPTIMISM = 10.0

_WORTH_TELLING = 0.05
"""What policies are told changes once an estimate is off by more than this part."""


def checked_optimism(optimism: Any) -> float:
    """Return a number of standard deviations.

    Raises
    ------
    InputError
        For anything else.
    """
    return number("optimism", optimism, most=_MOST_OPTIMISM)


class EstimatedSpeeds:
    r"""Believe what `SpeedModel` predicts from references and from what has run so far.

    Of a cell that was never measured, policies are told :math:`\exp(m + \kappa\, sd)`: what might
    be fast is tried. Of a measured one they are told :math:`\exp(m)`, and of one that cannot run,
    0. A job's row is estimated anew as soon as it was measured; what is told of it changes once the
    estimate of a cell is off by more than 5 %, so that policies solve no more often than
    they must. Measurements that do not agree with those before, as when a speed has changed, begin
    a cell anew and leave it in doubt for a while (`apportion.estimators.speeds.measurements`). Of a
    column that no reference was measured on, `spread` is wide and a warning is logged.

    Parameters
    ----------
    references
        Steps/s of reference jobs, a DataFrame or an array, one row each; NaN where not measured, 0
        where they cannot run.
    columns
        Labels of the columns, see `SpeedModel`; those of the references if left out.
    optimism
        :math:`\kappa`, standard deviations that are added where nothing was measured.
    noise
        Standard deviation of the logarithm of a measurement.
    rows
        ``"job"``: no job is recognised, each has a row of its own. ``"type"``: jobs of one type
        (see `admit`) have one, and a type that is a reference starts as it.
    seed
        If given, every measurement is multiplied by noise: for runs on simulated, exact speeds.

    Raises
    ------
    InputError
        For options out of range, and references that are no table of speeds.
    """

    def __init__(
        self,
        references: Any,
        columns: Iterable[Hashable] | None = None,
        *,
        optimism: float = 1.0,
        noise: float = 0.05,
        rows: Literal["job", "type"] = "job",
        seed: int | None = None,
    ) -> None:
        self.optimism = checked_optimism(optimism)
        self._noise = noise_level(noise)
        self._by_type = choice("rows", rows, ROWS) == "type"
        self._type_of: dict[int | str, int | str] = {}
        named = None if columns is None else SpeedColumns.of(columns)
        read = read_speeds("The references", references, named)
        self._columns = read.columns
        self._known = {str(name): row for row, name in zip(read.speeds, read.rows, strict=True)}
        self._prior = learn_prior(read.logs, read.columns, self._noise)
        self._measured = Measurements(len(read.columns), self._noise)
        self._told: Floats = np.zeros((0, len(read.columns)))
        self._rng = None if seed is None else np.random.default_rng(check_seed(seed))

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """Labels of the columns."""
        return self._columns.labels

    def digest(self) -> str:
        """Return a text that is another one for other references, columns or options."""
        columns = [*map(str, self.columns)]
        rows = [[name, *map(float, row)] for name, row in self._known.items()]
        text = json.dumps([columns, self.optimism, self._noise, self._by_type, rows])
        return hashlib.sha256(text.encode()).hexdigest()

    def admit(self, jobs: Iterable[int | str], types: Iterable[str]) -> None:
        """Tell the types of jobs, before anything else is asked of them.

        Raises
        ------
        InputError
            For more types than jobs or fewer, and for a job that was of another type.
        """
        names, kinds = checked_jobs(jobs), checked_jobs(types)
        if len(names) != len(kinds):
            raise InputError(f"There are {len(names)} jobs and {len(kinds)} types.")
        if not self._by_type:
            return
        new: dict[int | str, int | str] = {}
        for job, kind in zip(names, kinds, strict=True):
            known = new.setdefault(job, self._type_of.get(job, kind))
            if known != kind:
                raise InputError(
                    f"Job {written(job)} is of type {written(known)}, not of {written(kind)}."
                )
        self._type_of |= new

    def forget(self, jobs: Iterable[int | str]) -> None:
        """Let go of jobs that are done, or of another type from now on; what they taught stays."""
        for job in checked_jobs(jobs):
            self._type_of.pop(job, None)

    @one_thread
    def speeds(self, jobs: Iterable[int | str]) -> Floats:
        """Steps/s that policies are told, 0 where a job cannot run; shape (jobs, columns)."""
        rows = self._rows(checked_jobs(jobs))  # which may make room for more
        return self._told[rows]

    @one_thread
    def spread(self, jobs: Iterable[int | str]) -> Floats:
        """Return standard deviations of ln speed, 0 where a job cannot run; (jobs, columns)."""
        return self._estimate(self._rows(checked_jobs(jobs)))[1]

    @one_thread
    def observe(self, gangs: RanWhere, steps: ArrayLike, seconds: ArrayLike) -> list[int | str]:
        """Learn from what has run.

        Parameters
        ----------
        gangs
            Who ran where: ``job`` and ``column`` (place of the column), arrays of one length.
        steps
            Steps that were made. None at all in a time that counts: the job cannot run there.
        seconds
            Seconds of work, less what starts cost. Less than 30 says nothing.

        Returns
        -------
        list
            Jobs that are told other speeds from now on.

        Raises
        ------
        InputError
            For arrays that do not match and numbers out of range; then nothing is learnt at all.
        """
        runs = checked_runs(gangs, steps, seconds, len(self._columns))
        rows = self._rows(runs.jobs)
        counts = runs.steps > 0
        logs = np.log(runs.steps[counts] / runs.seconds[counts])
        if self._rng is not None:
            logs = logs + self._noise * self._rng.standard_normal(logs.size)
        self._measured.enter(rows[counts], runs.columns[counts], logs)
        if logs.size < rows.size:
            self._measured.fail(rows[~counts], runs.columns[~counts])
        rows = np.unique(rows) if rows.size > 1 else rows
        new, old = self._estimate(rows)[0], self._told[rows]
        moved = (np.abs(new - old) > _WORTH_TELLING * old).any(axis=1)
        self._told[rows[moved]] = new[moved]
        return self._jobs_of(self._measured.names(rows[moved]))

    def state(self) -> dict[str, Any]:
        """Everything that was learnt, for JSON."""
        return {
            "measured": self._measured.state(),
            "told": self._told[: len(self._measured)].tolist(),
            "jobs": [[job, kind] for job, kind in self._type_of.items()],
            "random": None if self._rng is None else self._rng.bit_generator.state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`; options and references are those given to the class.

        Raises
        ------
        InputError
            If it is none, or of other columns.
        """
        try:
            shape = len(state["measured"]["rows"]), len(self._columns)
            told = np.array(state["told"], dtype=np.float64).reshape(shape)
            types = dict(state["jobs"])
            rng = None if self._rng is None else np.random.default_rng()
            if rng is not None:
                rng.bit_generator.state = state["random"]
            self._measured.restore(state["measured"])
        except (LookupError, TypeError, ValueError) as error:
            raise InputError(f"This is no state of estimated speeds: {written(error)}.") from error
        self._told, self._type_of, self._rng = told, types, rng

    def _rows(self, jobs: list[int | str]) -> Ints:
        """Places of the rows of jobs; new ones are estimated and told at once."""
        names = self._names(jobs)
        before = len(self._measured)
        rows = self._measured.rows(names)
        size, room = len(self._measured), len(self._told)
        if size == before:
            return rows
        if self._by_type:
            for name, row in dict(zip(names, rows.tolist(), strict=True)).items():
                known = self._known.get(str(name))
                if row >= before and known is not None:  # a new type that is a reference
                    self._measured.begin(row, known)
        if size > room:
            self._told = np.pad(self._told, ((0, max(size, 2 * room) - room), (0, 0)))
        self._told[before:size] = self._estimate(np.arange(before, size))[0]
        return rows

    def _names(self, jobs: list[int | str]) -> list[int | str]:
        """Names of the rows of jobs: their own, or their types."""
        if not self._by_type:
            return jobs
        for job in jobs:
            if job not in self._type_of:
                raise InputError(f"Job {written(job)} has no type; `admit` it first.")
        return [self._type_of[job] for job in jobs]

    def _jobs_of(self, rows: list[int | str]) -> list[int | str]:
        """All jobs of some rows, row by row."""
        if not self._by_type or not rows:
            return rows
        jobs: dict[int | str, list[int | str]] = {row: [] for row in rows}
        for job, kind in self._type_of.items():
            if kind in jobs:
                jobs[kind].append(job)
        return [job for of_row in jobs.values() for job in of_row]

    def _estimate(self, rows: Ints) -> tuple[Floats, Floats]:
        """Return steps/s to tell policies, and standard deviations; 0 where jobs cannot run."""
        mean, spread = posterior(self._prior, self._measured.log[rows], self._measured.worth[rows])
        failed, measured = self._measured.failed[rows], self._measured.count[rows] > 0
        hoped = np.where(measured, mean, mean + self.optimism * spread)
        told = np.exp(np.minimum(hoped, np.log(LARGEST_NUMBER)))
        return np.where(failed, 0.0, told), np.where(failed, 0.0, spread)
