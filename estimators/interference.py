"""How fast jobs that were hardly measured run beside others on the same GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from scipy.spatial.distance import cdist

from apportion.checks import choice, is_whole, number
from apportion.errors import InputError, written
from apportion.estimators.gaussian import MixtureImputer
from apportion.estimators.pair_completion import (
    check_shape,
    checked_cells,
    complete_pairs,
    complete_rows,
    filled_references,
    weighed,
)
from apportion.threads import one_thread

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from apportion.estimators.imputer import Imputer
    from apportion.types import Floats, Ints

    Metric = Literal["cosine", "euclidean"]
    Source = Literal["completed", "nearest"]

_METRICS = ("cosine", "euclidean")
_SOURCES = ("completed", "nearest")
_AXES = ("job", "job", "accelerator")
_ROUNDING = 1e-9
"""A column of equal small numbers keeps the direction of rows that are all zeros."""
_LEAST = 1e-6
"""Normalised throughput of a pair that can share, at the least."""


class InterferenceEstimator:
    """Predict normalised pair throughputs of new jobs from a few measurements.

    The normalised throughput of a job beside a partner is its steps/s there relative to its steps/s
    alone on the same accelerator. It is known among reference job types; a new job was measured
    beside a few of them. First, the row of every new job over (reference, accelerator), in both
    roles, is completed against the rows of the references. Second, the same imputer extends the
    completed rows to pairs of two new jobs. Whether two jobs can share at all (0 or not) is
    completed alongside, as if on further accelerators, and decided by one half.

    Parameters
    ----------
    imputer
        Completes a matrix in which NaN is missing: any object with ``fit_transform``; results must
        be >= 0. By default `MixtureImputer`: on Gavel's measurements, with 16 references and a
        fifth of the cells, its mean absolute error is 0.054, that of `GaussianImputer` 0.051, of
        low-rank completion 0.104 or more.
    source
        ``"completed"`` predicts as above (0.054). ``"nearest"`` (0.067) takes the values of the
        reference whose row is nearest to the completed row, as Gavel does (Narayanan et al., OSDI
        2020).
    metric
        Distance between rows for ``"nearest"`` and `nearest`: cosine or euclidean.
    smoothing
        Weight of a new measurement of a cell against what was known of it, in (0, 1]; 1 replaces.
    noise
        Standard deviation of the logarithm of a measurement. If it is not 0, measured cells of new
        jobs are weighed against what the imputer makes of their rows.

    Notes
    -----
    After `fit`: ``known_``, what was given and measured, shape (jobs, jobs, accelerators), the
    references first.

    Pairs that cannot share for want of memory are hard to tell from interference: in the setting
    above, about 40 % of Gavel's are found, and 0.3 % of the others taken for such. Where memory
    footprints are known, enter zeros with `update`.
    """

    known_: Floats
    references_: int

    def __init__(
        self,
        imputer: Imputer | None = None,
        *,
        source: Source = "completed",
        metric: Metric = "cosine",
        smoothing: float = 1.0,
        noise: float = 0.0,
    ) -> None:
        self.imputer = imputer
        self.source = source
        self.metric = metric
        self.smoothing = smoothing
        self.noise = noise

    @one_thread
    def fit(
        self, references: ArrayLike, measured: ArrayLike, measured_other: ArrayLike | None = None
    ) -> Self:
        """Take in the references and the first measurements.

        Parameters
        ----------
        references
            Normalised throughput of each reference beside each other one, shape (references,
            references, accelerators). Missing entries (NaN) are filled with the mean of the pair
            over the other accelerators, or else of what is known of the job or of all.
        measured
            Normalised throughput of each new job beside each reference, NaN where not measured;
            shape (new jobs, references, accelerators).
        measured_other
            The reference's own number in the same runs, same shape; a run of two jobs yields both.

        Raises
        ------
        InputError
            For unknown options, shapes that do not match, and values that are not >= 0.
        """
        self._check_options()
        given = checked_cells("references", references)
        new = checked_cells("measured", measured)
        other = np.full_like(new, np.nan)
        if measured_other is not None:
            other = checked_cells("measured_other", measured_other)
        count, _, accelerators = given.shape
        check_shape("references", given, (count, count, accelerators))
        check_shape("measured", new, (len(new), count, accelerators))
        check_shape("measured_other", other, new.shape)
        if not count or np.isnan(given).all():
            raise InputError("At least one reference job type must be known, with one number.")
        total = count + len(new)
        self.references_ = count
        self.known_ = np.full((total, total, accelerators), np.nan)
        self.known_[:count, :count] = filled_references(given)
        # A pair that cannot share has 0 for both of its members.
        self.known_[count:, :count] = np.where(other == 0, 0.0, new)
        self.known_[:count, count:] = np.where(new == 0, 0.0, other).transpose(1, 0, 2)
        return self

    @one_thread
    def update(
        self, job: int, partner: int, accelerator: int, value: float, other: float | None = None
    ) -> None:
        """Enter a later measurement; predictions of its cell are exact from then on.

        Parameters
        ----------
        job, partner
            Positions: the references come first, then the new jobs.
        accelerator
            Position of the accelerator type.
        value
            Normalised throughput of the job beside the partner.
        other
            That of the partner in the same run, if known.

        Raises
        ------
        InputError
            Before `fit`, for positions out of range and values that are not >= 0.
        """
        known = self._fitted()
        value = number("value", value)
        other = None if other is None else number("other", other)
        for cell in ((job, partner, accelerator), (partner, job, accelerator)):
            for position, size, what in zip(cell, known.shape, _AXES, strict=True):
                if not (is_whole(position) and 0 <= position < size):
                    raise InputError(f"There is no {what} {position}; valid: 0 to {size - 1}.")
        if value == 0 or other == 0:
            value = other = 0.0
        elif other is None and known[partner, job, accelerator] == 0:
            raise InputError(
                f"Jobs {job} and {partner} were known not to share accelerator {accelerator}; now "
                f"that they do, give the throughput of both (`other`)."
            )
        self._enter((job, partner, accelerator), value)
        if other is not None and job != partner:
            self._enter((partner, job, accelerator), other)

    @one_thread
    def predict(self) -> Floats:
        """Normalised throughput of every pair, the shape of ``known_``; known cells as they are.

        Raises
        ------
        InputError
            If the imputer returns another shape, missing or negative numbers.
        """
        known = self._fitted()
        if self.source == "nearest":
            stand_in = np.r_[np.arange(self.references_), self.nearest()]
            estimate = known[np.ix_(stand_in, stand_in)]
            never = estimate == 0
        else:
            estimate, never = complete_pairs(known, self.references_, self._imputer())
        zero, runs = known == 0, known > 0
        never |= never.transpose(1, 0, 2) | zero | zero.transpose(1, 0, 2)
        never &= ~(runs | runs.transpose(1, 0, 2))
        estimate = np.where(never, 0.0, np.maximum(estimate, _LEAST))
        if self.noise > 0:
            # Of pairs that cannot share there is nothing to average.
            known = weighed(known, self.references_, self._imputer(), self.noise)
        return np.where(np.isnan(known), estimate, known)

    def nearest(self) -> Ints:
        """Position of the reference whose row is nearest to each new job's, by `metric`."""
        rows = complete_rows(self._fitted(), self.references_, self._imputer())
        ours, theirs = rows[self.references_ :], rows[: self.references_]
        if self.metric == "euclidean":
            distance = cdist(ours, theirs)
        else:
            # Rows of zeros have no direction: they are alike to each other, and to nothing else.
            ours, theirs = (
                np.column_stack([matrix, np.full(len(matrix), _ROUNDING)])
                for matrix in (ours, theirs)
            )
            distance = cdist(ours, theirs, "cosine")
        return np.asarray(np.argmin(distance, axis=1), dtype=np.intp)

    def checked(self) -> Self:
        """Return it, once its options have been checked, as `fit` does.

        Raises
        ------
        InputError
            For unknown options.
        """
        self._check_options()
        return self

    def _check_options(self) -> None:
        choice("metric", self.metric, _METRICS)
        choice("source", self.source, _SOURCES)
        number("smoothing", self.smoothing, strict=True, most=1.0)
        number("noise", self.noise, most=10.0)
        if self.imputer is not None and not hasattr(self.imputer, "fit_transform"):
            raise InputError(
                f"imputer is {written(self.imputer)}; it must have `fit_transform`, as "
                f"MixtureImputer() has."
            )

    def _imputer(self) -> Imputer:
        return MixtureImputer() if self.imputer is None else self.imputer

    def _fitted(self) -> Floats:
        if not hasattr(self, "known_"):
            raise InputError("The InterferenceEstimator has not been fitted yet: call fit first.")
        return self.known_

    def _enter(self, cell: tuple[int, int, int], value: float) -> None:
        """Blend a measurement into a cell, or put it there."""
        before = self.known_[cell]
        if np.isnan(before) or before == 0 or value == 0:
            self.known_[cell] = value
        else:
            self.known_[cell] += self.smoothing * (value - before)
