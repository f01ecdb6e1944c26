"""Figures of networks, fitted to measurements: compute, alpha and beta, and b and eta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import nnls, root_scalar
from scipy.stats import t as student_t

from apportion.checks import listed, number
from apportion.errors import InputError, unknown_name
from apportion.sim.network.analytic import AnalyticNetwork
from apportion.sim.network.collectives import COLLECTIVES
from apportion.sim.network.interconnect import Dimension

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from apportion.sim.network.interconnect import Interconnect
    from apportion.sim.network.profile import ModelProfile
    from apportion.sim.network.shapes import Shape


_COLUMNS = ("peers", "size_bytes", "seconds")


@dataclass(frozen=True)
class AlphaBeta:
    """Latency and bandwidth fitted to measured collectives.

    Parameters
    ----------
    alpha_s
        Seconds of a message of no length.
    bandwidth_bytes_per_s
        Bytes per second; infinite where the times do not grow with the bytes.
    relative_residuals
        (fitted - measured) / measured of every point, shape (points,).
    """

    alpha_s: float
    bandwidth_bytes_per_s: float
    relative_residuals: NDArray[np.float64]

    @property
    def median_relative_error(self) -> float:
        """Median size of the relative residuals, without unit."""
        return float(np.median(np.abs(self.relative_residuals)))

    def dimension(self, tier: str) -> Dimension:
        """Return the dimension of a network that has these figures, one hop between any two units.

        Raises
        ------
        InputError
            If the fitted bandwidth is infinite, or the tier is none.
        """
        return Dimension(tier, "fully_connected", self.bandwidth_bytes_per_s, self.alpha_s)


def calibrate(points: pd.DataFrame, *, collective: str = "all_reduce") -> AlphaBeta:
    """Fit alpha and beta >= 0 to measured times, by least squares of the relative errors.

    The time of a ring collective is c (n - 1) alpha + c (n - 1) / n * S beta, linear in both (see
    `apportion.sim.network.collectives.ring`); a ``"send_recv"`` is alpha + S beta.

    Parameters
    ----------
    points
        One row per measurement: ``peers`` (n), ``size_bytes`` (S), ``seconds``.
    collective
        Out of `COLLECTIVES`, or ``"send_recv"``.

    Raises
    ------
    InputError
        If a column is missing, a value is out of range (it names the row), the collective is
        unknown, or the points cannot tell alpha from beta.
    """
    peers, size_bytes, seconds = _checked(points, collective)
    if collective == "send_recv":
        steps, passes = np.ones_like(peers), np.ones_like(peers)
    else:
        steps = COLLECTIVES[collective] * (peers - 1)
        passes = steps / peers
    # Divided by the measured times, least squares are those of the relative errors.
    design = np.column_stack([steps, passes * size_bytes]) / seconds[:, None]
    scale = np.linalg.norm(design, axis=0)
    if np.linalg.matrix_rank(design / scale) < 2:
        raise InputError("The points cannot tell alpha from beta; measure two sizes or more.")
    scaled, _ = nnls(design / scale, np.ones(len(seconds)))
    alpha_s, s_per_byte = scaled / scale
    bandwidth = 1 / s_per_byte if s_per_byte > 0 else np.inf
    residuals = design @ np.array([alpha_s, s_per_byte]) - 1
    return AlphaBeta(float(alpha_s), float(bandwidth), residuals)


def calibrate_groups(
    points: pd.DataFrame, by: Sequence[str], *, collective: str = "all_reduce"
) -> dict[tuple[object, ...], AlphaBeta]:
    """Fit one alpha and beta per group: per model and tier, or per system and layout of the ranks.

    Parameters
    ----------
    points
        As for `calibrate`, with further columns to group by.
    by
        Those columns.
    collective
        As for `calibrate`.

    Raises
    ------
    InputError
        As `calibrate`, naming the group.
    """
    by = listed("by", by, "a list of columns to group by")
    if not by:
        raise InputError("by is empty; it must be a list of columns to group by.")
    missing = [column for column in by if column not in points.columns]
    if missing:
        raise InputError(f"The points have no column {missing[0]!r} to group by.")
    fits: dict[tuple[object, ...], AlphaBeta] = {}
    for group, rows in points.groupby(by, sort=True):
        try:
            fits[tuple(group)] = calibrate(rows, collective=collective)
        except InputError as error:
            raise InputError(f"{dict(zip(by, group, strict=True))}: {error}") from error
    return fits


def compute_scale_for(
    profile: ModelProfile, interconnect: Interconnect, shape: Shape, overhead: float
) -> float:
    """Find what to multiply compute times by so that a gang has a given overhead.

    This is how Dally's authors calibrate: the network stays as it is, and one scale per model
    makes the overhead in one machine the measured one.

    Parameters
    ----------
    profile
        Of the model, before scaling.
    interconnect
        What carries its messages.
    shape
        Of the gang that was measured, more than one GPU.
    overhead
        Measured exposed communication over compute time, above 0.

    Raises
    ------
    InputError
        If the overhead is not above 0, or no scale yields it.
    """
    if not (overhead > 0 and np.isfinite(overhead)):
        raise InputError(f"The overhead is {overhead!r}; it must be above 0.")

    def excess(log_scale: float) -> float:
        scaled = {profile.name: profile.scaled(math.exp(log_scale))}
        model = AnalyticNetwork("calibration", interconnect, scaled)
        return model.overhead(profile.name, shape) - overhead

    low, high = math.log(1e-9), math.log(1e9)
    if not excess(low) > 0 > excess(high):
        raise InputError(
            f"No compute scale gives {profile.name!r} an overhead of {overhead:g} at {shape}; it "
            "must send something, over a network that takes time."
        )
    return math.exp(root_scalar(excess, bracket=(low, high), method="brentq").root)


def _checked(points: pd.DataFrame, collective: str) -> list[NDArray[np.float64]]:
    """Columns of the points as arrays, each value in its range."""
    valid = (*COLLECTIVES, "send_recv")
    if collective not in valid:
        raise unknown_name("collective", collective, valid)
    arrays = []
    for column, least in zip(_COLUMNS, (2, 1, 0), strict=True):
        if column not in points.columns:
            raise InputError(f"The points have no column {column!r}; they need {_COLUMNS}.")
        values = points[column].to_numpy(dtype=np.float64)
        bad = ~(np.isfinite(values) & (values >= least) & (values > 0))
        if bad.any():
            row = points.index[bad].tolist()[0]
            raise InputError(f"The point {row!r} has {column} {values[bad][0]:g}: out of range.")
        arrays.append(values)
    if not len(points):
        raise InputError("There are no points to calibrate from.")
    return arrays


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
