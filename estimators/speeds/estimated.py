"""Speeds that are learnt while jobs run, and what policies are told of them."""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from apportion.checks import choice, number
from apportion.checks import seed as check_seed
from apportion.errors import InputError, written
from apportion.estimators.speeds.columns import SpeedColumns
from apportion.estimators.speeds.completion import completion_by
from apportion.estimators.speeds.job_rows import ROWS, JobRows, checked_optimism
from apportion.estimators.speeds.measurements import (
    Measurements,
    checked_columns,
    checked_jobs,
    checked_runs,
)
from apportion.estimators.speeds.model import noise_level
from apportion.estimators.speeds.tables import read_speeds
from apportion.estimators.speeds.told import ToldSpeeds
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import ArrayLike

    from apportion.estimators.speeds.measurements import RanWhere
    from apportion.types import Floats, Ints


_MOST_ROWS_TO_LEARN_FROM = 200
"""Jobs that a new fit learns from beside the references: those with the most measured columns."""


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
    model
        What completes rows, with the calls of `SpeedModel`, which is the default: `ImputedSpeeds`
        or `ColumnMeans`. Where one predicts no deviations, optimism does nothing.
    memory
        What a measurement counts for once a further one of its cell has come; 1 for no forgetting.
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
        model: Any = None,
        memory: float = 1.0,
        seed: int | None = None,
    ) -> None:
        self.optimism = checked_optimism(optimism)
        self._noise = noise_level(noise)
        self._jobs = JobRows(choice("rows", rows, ROWS))
        named = None if columns is None else SpeedColumns.of(columns)
        read = read_speeds("The references", references, named)
        self._columns, self._references = read.columns, read.logs
        self._known = {str(name): row for row, name in zip(read.speeds, read.rows, strict=True)}
        self._completion = completion_by(model, read.columns, self._noise)
        self._completion.fit(read.logs)
        kept = number("memory", memory, most=1.0)
        self._measured = Measurements(len(read.columns), kept, self._noise)
        self._rng = None if seed is None else np.random.default_rng(check_seed(seed))
        self._told = ToldSpeeds(self._measured, self._jobs, self._completion, self.optimism)

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """Labels of the columns."""
        return self._columns.labels

    def digest(self) -> str:
        """Return a text that is another one for other references, columns or options."""
        columns, by_type = [*map(str, self.columns)], self._jobs.by_type
        told: list[Any] = [columns, self.optimism, self._noise, by_type]
        rows = [[name, *map(float, row)] for name, row in self._known.items()]
        text = json.dumps([*told, type(self._completion).__name__, rows])
        return hashlib.sha256(text.encode()).hexdigest()

    def admit(self, jobs: Iterable[int | str], types: Iterable[str]) -> None:
        """Tell the types of jobs, before anything else is asked of them.

        Raises
        ------
        InputError
            For more types than jobs or fewer, and for a job that was of another type.
        """
        self._jobs.admit(checked_jobs(jobs), checked_jobs(types))

    def forget(self, jobs: Iterable[int | str]) -> None:
        """Let go of jobs that are done, or of another type from now on; what they taught stays."""
        self._jobs.forget(checked_jobs(jobs))

    @one_thread
    def speeds(self, jobs: Iterable[int | str]) -> Floats:
        """Steps/s that policies are told, 0 where a job cannot run; shape (jobs, columns)."""
        rows = self._rows(checked_jobs(jobs))  # which may make room for more
        return self._told.speeds[rows]

    @one_thread
    def expected(self, jobs: Iterable[int | str]) -> Floats:
        """Steps/s as expected, exp(m), for reports; shape (jobs, columns)."""
        return self._told.estimate(self._rows(checked_jobs(jobs))).expected

    @one_thread
    def spread(self, jobs: Iterable[int | str]) -> Floats:
        """Return standard deviations of ln speed, 0 where a job cannot run; (jobs, columns)."""
        return self._told.estimate(self._rows(checked_jobs(jobs))).spread

    def measurements(self, jobs: Iterable[int | str]) -> Floats:
        """How many measurements each cell has, shape (jobs, columns).

        Where a job has none at all, only the ratios of its speeds mean anything.
        """
        rows = self._rows(checked_jobs(jobs))
        return self._measured.count[rows]

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
        return self._told.tell(np.unique(rows) if rows.size > 1 else rows)

    @one_thread
    def cannot_run(self, jobs: Iterable[int | str], columns: ArrayLike) -> list[int | str]:
        """Declare cells where jobs cannot run, or failed; return jobs that are told other speeds.

        Parameters
        ----------
        jobs, columns
            A job and the place of a column for each cell.
        """
        names = checked_jobs(jobs)
        places = checked_columns(columns, len(names), len(self._columns))
        rows = self._rows(names)
        self._measured.fail(rows, places)
        return self._told.tell(np.unique(rows))

    @one_thread
    def refit(self) -> list[int | str]:
        """Learn ratios and covariance anew, from what has run too.

        Returns
        -------
        list
            Jobs that are told other speeds from now on.
        """
        logs = np.where(self._measured.count > 0, self._measured.log, np.nan)
        cells = np.count_nonzero(self._measured.count, axis=1)
        most = np.argsort(-cells, kind="stable")[:_MOST_ROWS_TO_LEARN_FROM]
        chosen = most[cells[most] > 0]
        self._completion.fit(np.concatenate([self._references, logs[chosen]]))
        return self._told.tell(np.arange(len(self._measured)))

    def state(self) -> dict[str, Any]:
        """Everything that was learnt, for JSON."""
        return {
            "measured": self._measured.state(),
            "told": self._told.speeds[: len(self._measured)].tolist(),
            "jobs": self._jobs.state(),
            "prior": self._completion.state(),
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
            jobs = [(job, row) for job, row in state["jobs"]]
            rng = None if self._rng is None else np.random.default_rng()
            if rng is not None:
                rng.bit_generator.state = state["random"]
            completion = deepcopy(self._completion)
            completion.restore(state["prior"])
            self._measured.restore(state["measured"])
        except (LookupError, TypeError, ValueError) as error:
            raise InputError(f"This is no state of estimated speeds: {written(error)}.") from error
        self._jobs.restore(jobs)
        self._completion, self._rng = completion, rng
        self._told.take_up(told, completion)

    def _rows(self, jobs: list[int | str]) -> Ints:
        """Places of the rows of jobs; new ones are estimated and told at once."""
        names = self._jobs.names(jobs)
        before = len(self._measured)
        rows = self._measured.rows(names)
        if len(self._measured) > before:
            if self._jobs.by_type:
                for name, row in dict(zip(names, rows.tolist(), strict=True)).items():
                    known = self._known.get(str(name))
                    if row >= before and known is not None:  # a new type that is a reference
                        self._measured.begin(row, known)
            self._told.add(np.arange(before, len(self._measured)))
        return rows
