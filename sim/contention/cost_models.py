"""What transfers that share a link cost, b and eta, from measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import t as student_t

from apportion.checks import number
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Contended(NamedTuple):
    """A measured all-reduce: so many at once, each of so many bytes, took so long."""

    transfers: int
    size: float
    seconds: float


class Penalty(NamedTuple):
    """Figures of ``a + k b M + (k - 1) eta M``, fitted, with 95 % intervals.

    Attributes
    ----------
    startup_s, s_per_byte, penalty_s_per_byte
        a, b and eta.
    startup_interval, s_per_byte_interval, penalty_interval
        Each from and to; infinite if there are no more samples than figures.
    """

    startup_s: float
    s_per_byte: float
    penalty_s_per_byte: float
    startup_interval: tuple[float, float]
    s_per_byte_interval: tuple[float, float]
    penalty_interval: tuple[float, float]


def fitted_penalty(
    samples: Sequence[Contended], *, startup_s: float | None = None, level: float = 0.95
) -> Penalty:
    """Fit a, b and eta to measured all-reduces by least squares, with intervals of Student's t.

    Parameters
    ----------
    samples
        Measurements, of transfers alone and of several at once.
    startup_s
        a if it is known; then only b and eta are fitted.
    level
        Of the intervals.

    Raises
    ------
    InputError
        If the samples do not tell the figures apart: of one number of transfers only, or, with a,
        of one size only.
    """
    number("level", level, strict=True, most=1.0)
    k = np.array([number("transfers", sample.transfers, least=1) for sample in samples])
    size = np.array([number("size", sample.size, strict=True) for sample in samples])
    seconds = np.array([number("seconds", sample.seconds) for sample in samples])
    columns = [k * size, (k - 1) * size]
    if startup_s is None:
        columns.insert(0, np.ones_like(size))
    else:
        seconds = seconds - number("startup_s", startup_s)
    scales = np.array([np.abs(column).max(initial=0.0) or 1.0 for column in columns])
    design = np.column_stack(columns) / scales
    if len(samples) < len(columns) or np.linalg.matrix_rank(design) < len(columns):
        raise InputError(
            f"{len(samples)} samples do not tell a, b and eta apart: there must be transfers alone "
            f"and several at once, and transfers of several sizes unless startup_s is given."
        )
    fitted, *_ = np.linalg.lstsq(design, seconds, rcond=None)
    free = len(samples) - len(columns)
    error = seconds - design @ fitted
    covariance = np.linalg.inv(design.T @ design) * (error @ error / free if free else np.inf)
    half = student_t.ppf((1 + level) / 2, max(free, 1)) * np.sqrt(np.diag(covariance)) / scales
    figures = (fitted / scales).tolist()
    spans = [(value - each, value + each) for value, each in zip(figures, half, strict=True)]
    if startup_s is not None:
        figures, spans = [startup_s, *figures], [(startup_s, startup_s), *spans]
    return Penalty(*figures, *((float(low), float(high)) for low, high in spans))
