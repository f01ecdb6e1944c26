"""How fast jobs that were hardly measured run beside others on the same GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from scipy.spatial.distance import cdist

from apportion.checks import choice
from apportion.errors import InputError, written
from apportion.estimators.mixture import MixtureImputer
from apportion.estimators.pair_completion import (
    check_shape,
    checked_cells,
    complete_pairs,
    complete_rows,
    filled_references,
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
        fifth of the cells, its mean absolute error is 0.054, that of low-rank completion
        0.104 or more.
    source
        ``"completed"`` predicts as above (0.054). ``"nearest"`` (0.067) takes the values of the
        reference whose row is nearest to the completed row, as Gavel does (Narayanan et al., OSDI
        2020).
    metric
        Distance between rows for ``"nearest"`` and `nearest`: cosine or euclidean.

    Notes
    -----
    After `fit`: ``known_``, what was given and measured, shape (jobs, jobs, accelerators), the
    references first.

    Pairs that cannot share for want of memory are hard to tell from interference: in the setting
    above, about 40 % of Gavel's are found, and 0.3 % of the others taken for such. Where memory
    footprints are known, give zeros among the measurements.
    """

    known_: Floats
    references_: int

    def __init__(
        self,
        imputer: Imputer | None = None,
        *,
        source: Source = "completed",
        metric: Metric = "cosine",
    ) -> None:
        self.imputer = imputer
        self.source = source
        self.metric = metric

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

    def _check_options(self) -> None:
        choice("metric", self.metric, _METRICS)
        choice("source", self.source, _SOURCES)
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
