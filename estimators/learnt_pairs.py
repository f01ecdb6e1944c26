"""Pair throughputs that are learnt while jobs share devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from apportion.checks import choice, is_whole, number
from apportion.errors import InputError, written
from apportion.estimators.interference import InterferenceEstimator
from apportion.estimators.pair_completion import checked_cells
from apportion.estimators.speeds.job_rows import JobRows
from apportion.estimators.speeds.measurements import checked_jobs
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from apportion.types import Floats, Ints


class EstimatedPairs:
    """Believe what `InterferenceEstimator` predicts from references and from pairs that have run.

    Everything is a normalised throughput: steps/s beside a partner relative to steps/s alone. A
    pair that has run is known from then on, up to noise, and what it taught completes the rows of
    its jobs anew.

    Parameters
    ----------
    references
        Of each reference beside each other one, shape (references, references, accelerators).
    rows
        ``"job"``: what is measured of a job says nothing of others of its type, as where no job is
        recognised. ``"type"``: jobs of one type (see `admit`) have one row.
    estimator
        How to complete; ``InterferenceEstimator(noise=0.05)`` if left out.

    Raises
    ------
    InputError
        For references that are no such array.
    """

    def __init__(
        self,
        references: ArrayLike,
        *,
        rows: Literal["job", "type"] = "job",
        estimator: InterferenceEstimator | None = None,
    ) -> None:
        self._jobs = JobRows(choice("rows", rows, ("job", "type")))
        self._estimator = InterferenceEstimator(noise=0.05) if estimator is None else estimator
        if not isinstance(self._estimator, InterferenceEstimator):
            raise InputError(
                f"estimator is {written(estimator)}; InterferenceEstimator() would do."
            )
        given = checked_cells("references", references)
        self._estimator.fit(given, np.empty((0, given.shape[0], given.shape[2])))
        self._known: Floats = self._estimator.known_
        self._count: Floats = np.zeros(self._known.shape)
        self._place: dict[int | str, int] = {}
        self._believed: Floats | None = None

    def admit(self, jobs: Iterable[int | str], types: Iterable[str]) -> None:
        """Tell the types of jobs, see `EstimatedSpeeds.admit`."""
        self._jobs.admit(checked_jobs(jobs), checked_jobs(types))

    @one_thread
    def profile(
        self, jobs: Iterable[int | str], measured: ArrayLike, other: ArrayLike | None = None
    ) -> None:
        """Enter measurements of jobs beside the references.

        Parameters
        ----------
        jobs
            Their numbers or names.
        measured, other
            The job's own throughput and the reference's, NaN where not measured; shape (jobs,
            references, accelerators).

        Raises
        ------
        InputError
            For shapes that do not match, and values that are not >= 0; then nothing is entered.
        """
        names, own = checked_jobs(jobs), checked_cells("measured", measured)
        theirs = np.full_like(own, np.nan) if other is None else checked_cells("other", other)
        shape = (len(names), self._estimator.references_, self._known.shape[2])
        for name, values in (("measured", own), ("other", theirs)):
            if values.shape != shape:
                raise InputError(f"`{name}` has shape {values.shape}; expected {shape}.")
        rows = self._rows(names)
        for line, row in enumerate(rows.tolist()):
            for cell in np.argwhere(~(np.isnan(own[line]) & np.isnan(theirs[line]))).tolist():
                reference, column = cell
                pair = float(own[line, reference, column]), float(theirs[line, reference, column])
                self._enter((row, reference, column), *pair)

    @one_thread
    def observe(
        self, job: int | str, partner: int | str, accelerator: int, own: float, other: float
    ) -> None:
        """Learn from a pair that has run; repeats are averaged.

        Parameters
        ----------
        job, partner
            Their numbers or names.
        accelerator
            Place of the accelerator type.
        own, other
            Normalised throughput of either; 0 for both if they cannot share.

        Raises
        ------
        InputError
            For an accelerator that is not there and values that are not >= 0; then nothing is
            learnt.
        """
        numbers = number("own", own), number("other", other)
        types = self._known.shape[2]
        if not (is_whole(accelerator) and 0 <= accelerator < types):
            raise InputError(
                f"There is no accelerator {written(accelerator)}; valid: 0 to {types - 1}."
            )
        row, beside = self._rows(checked_jobs([job, partner])).tolist()
        self._enter((row, beside, int(accelerator)), *numbers)

    @one_thread
    def throughputs(self, jobs: Iterable[int | str]) -> Floats:
        """Normalised throughput of each job beside each other, shape (jobs, jobs, accelerators).

        Completes anew if anything was measured since the last call.
        """
        rows = self._rows(checked_jobs(jobs))
        if self._believed is None:
            self._estimator.known_ = self._known
            self._believed = self._estimator.predict()
        return self._believed[np.ix_(rows, rows)]

    def keep(self, jobs: Iterable[int | str]) -> None:
        """Forget all jobs but some, unless rows are by type; what they taught of others stays."""
        if self._jobs.by_type:
            return
        names = set(checked_jobs(jobs))
        if names.issuperset(self._place):
            return
        first = self._estimator.references_
        kept = {name: row for name, row in self._place.items() if name in names}
        rows = np.r_[np.arange(first), first + np.array(list(kept.values()), dtype=np.intp)]
        block = np.ix_(rows, rows)
        self._known, self._count = self._known[block], self._count[block]
        self._place = {name: row for row, name in enumerate(kept)}
        self._believed = None

    def _rows(self, jobs: list[int | str]) -> Ints:
        """Places of the rows of jobs, after the references; new ones know nothing."""
        names = self._jobs.names(jobs)
        first = self._estimator.references_
        rows = [first + self._place.setdefault(name, len(self._place)) for name in names]
        more = first + len(self._place) - len(self._known)
        if more:
            wider = ((0, more), (0, more), (0, 0))
            self._known = np.pad(self._known, wider, constant_values=np.nan)
            self._count = np.pad(self._count, wider)
            self._believed = None
        return np.array(rows, dtype=np.intp)

    def _enter(self, cell: tuple[int, int, int], own: float, other: float) -> None:
        """Average both numbers of a pair into their cells; zeros are for good, and for both."""
        job, partner, accelerator = cell
        if 0 in (own, other):
            own = other = 0.0
        values = {(partner, job, accelerator): other, cell: own}
        for place, value in values.items():
            if np.isnan(value):
                continue
            before = self._known[place]
            if value > 0 and before > 0 and self._count[place] > 0:
                count = self._count[place]
                value = float(np.exp((count * np.log(before) + np.log(value)) / (count + 1)))
            self._known[place] = value
            self._count[place] += 1
        self._believed = None
