r"""What is known of a row before it is measured, learnt from reference rows."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import written
from apportion.estimators.speeds.variances import (
    DEFAULT_VARIANCES,
    Ratios,
    contrasts,
    contrasts_of_rows,
    most_likely_covariance,
    restricted_likelihood,
)

if TYPE_CHECKING:
    from apportion.estimators.speeds.columns import SpeedColumns
    from apportion.types import Bools, Floats


logger = logging.getLogger(__name__)

_CLOSENESS = (0.02, 0.05, 0.1, 0.2, 0.4)
_CELLS_OF_REFERENCE = 3
_FEWEST_REFERENCES = 3
_CELLS_OF_RATIO = 2
REFERENCES_HALF = 0.5
"""Weight of all references together against that of the normal distribution of all rows."""


@dataclass(frozen=True, eq=False)
class SpeedPrior:
    r"""Logarithms of the speeds of a row, :math:`\mu + b 1 + f`.

    Attributes
    ----------
    mean
        :math:`\mu`, the ratios between columns; shape (columns,).
    covariance
        S, of the deviations f; shape (columns, columns).
    references
        Deviations :math:`f_r` of the references, expected given their measurements; shape
        (references, columns), none where there are fewer than three.
    closeness
        :math:`\rho`: a row like a reference has deviations :math:`N(f_r, \rho S)`.
    scale
        Mean scale b of the rows that were learnt from: for a row without a measurement.
    noise
        Standard deviation of the logarithm of a measurement.
    unknown
        Covariance of :math:`\mu` on columns that no row was measured on, 0 on the others, shape
        (columns, columns); ``None`` if there are none of them. On the others it is in S.
    """

    mean: Floats
    covariance: Floats
    references: Floats
    closeness: float
    scale: float
    noise: float
    unknown: Floats | None = None

    def state(self) -> dict[str, Any]:
        """All but the noise, for JSON."""
        return {
            "mean": self.mean.tolist(),
            "covariance": self.covariance.tolist(),
            "references": self.references.tolist(),
            "closeness": self.closeness,
            "scale": self.scale,
            "unknown": None if self.unknown is None else self.unknown.tolist(),
        }

    @classmethod
    def of_state(cls, state: dict[str, Any], columns: int, noise: float) -> SpeedPrior:
        """Make one of a state of `state`."""
        return cls(
            np.array(state["mean"], dtype=np.float64).reshape(columns),
            np.array(state["covariance"], dtype=np.float64).reshape(columns, columns),
            np.array(state["references"], dtype=np.float64).reshape(-1, columns),
            float(state["closeness"]),
            float(state["scale"]),
            noise,
            None
            if state["unknown"] is None
            else np.array(state["unknown"], dtype=np.float64).reshape(columns, columns),
        )


def learn_prior(
    rows: Floats, columns: SpeedColumns, noise: float, imitated: Bools | None = None
) -> SpeedPrior:
    """Learn ratios, covariance, references and how close rows are to them.

    Ratios and covariance come from rows with two measured cells or more, references are those with
    three or more; with fewer than three references there are none, and the four variances of the
    structured covariance are the default ones.

    Parameters
    ----------
    rows
        Logarithms of speeds, NaN where not measured; shape (rows, columns).
    columns
        What the columns are.
    noise
        Standard deviation of a measurement.
    imitated
        Which rows may be references, all of them if left out. Rows that are to be completed may
        not: a row would be found most like itself, and too sure of what it lacks.
    """
    cells = np.count_nonzero(~np.isnan(rows), axis=1)
    used = rows[cells >= _CELLS_OF_RATIO]
    chosen = referred_to(rows, imitated)
    enough = np.count_nonzero(cells >= _CELLS_OF_REFERENCE) >= _FEWEST_REFERENCES
    variances = np.array(DEFAULT_VARIANCES)
    if enough:
        variances = restricted_likelihood(used, columns, noise)
    mean, covariance = columns.usual, np.tensordot(variances, columns.terms(), axes=1)
    if len(used):
        mean, covariance = most_likely_covariance(used, covariance, Ratios(columns), noise)
        # Ratios are the mean of so many rows only: a further row is as much further from them.
        covariance = covariance * (1 + 1 / len(used))
    references, closeness = np.zeros((0, len(columns))), _CLOSENESS[0]
    if np.count_nonzero(chosen) >= _FEWEST_REFERENCES:
        references, _ = deviations_of(rows[chosen], mean, covariance, noise)
        closeness = _most_likely_closeness(rows[chosen] - mean, references, covariance, noise)
    _, scales = deviations_of(rows[cells > 0], mean, covariance, noise)
    scale = float(scales.mean()) if scales.size else 0.0
    unknown = _unknown(used, covariance, columns, noise)
    return SpeedPrior(mean, covariance, references, closeness, scale, noise, unknown)


def referred_to(rows: Floats, imitated: Bools | None) -> Bools:
    """Return which rows may be references."""
    chosen: Bools = np.count_nonzero(~np.isnan(rows), axis=1) >= _CELLS_OF_REFERENCE
    return chosen if imitated is None else chosen & imitated


def _unknown(
    rows: Floats, covariance: Floats, columns: SpeedColumns, noise: float
) -> Floats | None:
    r"""Return what is not known of :math:`\mu` where no row says anything; warn of it."""
    known = ~np.isnan(rows)
    unseen: Bools = np.count_nonzero(known, axis=0) == 0
    if not unseen.any() or not len(rows):
        return None
    names = ", ".join(written(columns.labels[each]) for each in np.flatnonzero(unseen).tolist())
    logger.warning("Nothing was measured on %s: speeds there are guesses.", names)
    precision, _ = contrasts_of_rows(covariance, known, noise)
    _, spread = Ratios(columns).fit(np.where(known, rows, 0.0), precision)
    return np.where(np.outer(unseen, unseen), spread, 0.0)


def deviations_of(
    rows: Floats, mean: Floats, covariance: Floats, noise: float
) -> tuple[Floats, Floats]:
    """Deviations and scale of rows, expected given what was measured of them."""
    if not len(rows):
        return rows, np.zeros(0)
    known = ~np.isnan(rows)
    precision, weights = contrasts_of_rows(covariance, known, noise)
    rest = np.where(known, rows - mean, 0.0)
    return np.einsum("icd,id->ic", precision, rest) @ covariance, (weights * rest).sum(axis=1)


def _most_likely_closeness(
    rest: Floats, references: Floats, covariance: Floats, noise: float
) -> float:
    r"""Choose :math:`\rho` by the likelihood of each reference given the other ones.

    Parameters
    ----------
    rest
        Measurements of the references less :math:`\mu`, NaN in the holes.
    references
        Their deviations.
    covariance, noise
        As in `SpeedPrior`.
    """
    known = ~np.isnan(rest)
    filled = np.where(known, rest, 0.0)
    nobody = np.zeros((1, rest.shape[1]))
    broad = np.log(1 - REFERENCES_HALF) + log_density(filled, nobody, known, covariance, noise)
    total = np.zeros(len(_CLOSENESS))
    for index, closeness in enumerate(_CLOSENESS):
        near = log_density(filled, references, known, closeness * covariance, noise)
        np.fill_diagonal(near, -np.inf)
        near += np.log(REFERENCES_HALF / (len(rest) - 1))
        total[index] = np.logaddexp.reduce(np.concatenate([broad, near], axis=1), axis=1).sum()
    # Equal up to rounding: the broadest of them, whatever the order of the rows.
    best = np.flatnonzero(total >= total.max() - 1e-9 * (1 + abs(total.max())))
    return _CLOSENESS[int(best[-1])]


def log_density(
    rows: Floats, centres: Floats, known: Bools, covariance: Floats, noise: float
) -> Floats:
    """Log density of rows around each centre, up to a constant; their scales are eliminated.

    Shape (rows, centres); `known` is where the rows were measured.
    """
    patterns, of_row = np.unique(known, axis=0, return_inverse=True)
    place = of_row.reshape(-1)
    parts = contrasts(covariance + noise**2 * np.eye(len(covariance)), patterns)
    density = np.empty((len(rows), len(centres)))
    for row, (values, pattern) in enumerate(zip(rows, place.tolist(), strict=True)):
        residual = values - centres
        squares = ((residual @ parts.precision[pattern]) * residual).sum(axis=1)
        density[row] = -0.5 * (squares + parts.log_volume[pattern])
    return density
