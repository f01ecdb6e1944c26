"""Step times from measured steps: least squares of logarithms, with optimistic priors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.estimators.goodput.step_times import MOST_OVERLAP, StepTimes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.estimators.goodput.step_times import StepObservations
    from apportion.types import Bools, Floats


_OVERLAP_WEIGHT, _SLOPE_WEIGHT, _NO_SYNCHRONISATION_S = 1e-3, 1e-2, 1e-8
"""What keeps parameters plain, and seconds where nobody synchronises, as in the released code."""
_CENTRE, _LOG_CENTRE, _LOG_2 = 0.75, -0.2876820724517809, 0.6931471805599453


def _log(values: Floats) -> Floats:
    """Logarithms of numbers > 0, by operations that every processor rounds alike.

    Those of numpy depend on which instructions a processor has.
    """
    parts, powers = np.frexp(values)
    ratio = (parts - _CENTRE) / (parts + _CENTRE)
    series = np.zeros_like(ratio)
    for odd in range(23, 0, -2):
        series = series * (ratio * ratio) + 1 / odd
    return np.asarray(powers * _LOG_2 + (2 * ratio * series + _LOG_CENTRE))


def _exp(values: Floats) -> Floats:
    """Exponentials of numbers <= 0, in the same way."""
    kept = np.maximum(values, -700.0)
    powers = np.rint(kept / _LOG_2)
    part, series = kept - powers * _LOG_2, np.ones_like(kept)
    for term in range(16, 0, -1):
        series = 1.0 + series * part / term
    return np.asarray(np.ldexp(series, powers.astype(int)))


class _Measured(NamedTuple):
    """Measured steps as a fit reads them at every point that it tries."""

    local: Floats
    synchronised: NDArray[np.int64]
    """Of each step: 0 on one GPU, 1 within a node, 2 between nodes."""
    further: Floats
    log_s: Floats
    """Logarithms of gradient and step times, each a row."""
    of_gradient: Floats
    of_wait: Floats
    """Derivatives of both times by the seven parameters, each a row."""

    @classmethod
    def of(cls, observed: StepObservations) -> _Measured:
        """Read measured steps."""
        gpus, local = np.asarray(observed.gpus), np.asarray(observed.local_batch)
        several = np.asarray(observed.nodes) > 1
        within = ~several & (gpus > 1)
        further = np.maximum(gpus - 2.0, 0.0)
        none = 0 * local
        return cls(
            local,
            2 * several + within,
            further,
            _log(np.array([observed.gradient_s, observed.step_s])),
            np.array([none + 1, local, *[none] * 5]),
            np.array([none, none, several, several * further, within, within * further, none]),
        )


def _errors(values: Floats, observed: _Measured) -> tuple[Floats, Floats]:
    """Errors of the logarithms of gradient and step times, each a row, and their derivatives."""
    gamma = values[6]
    gradient_s = values[0] + values[1] * observed.local
    waits = np.array([_NO_SYNCHRONISATION_S, values[4], values[2]])[observed.synchronised]
    slopes = np.array([0.0, values[5], values[3]])[observed.synchronised]
    waits = waits + observed.further * slopes

    # The logarithm of a norm: powers of seconds would lose what is small.
    log_gradient, log_wait = _log(np.array([gradient_s, waits]))
    less = _exp(-gamma * np.abs(log_gradient - log_wait))
    log_step = np.maximum(log_gradient, log_wait) + _log(1.0 + less) / gamma
    share = np.where(log_gradient > log_wait, 1.0, less) / (1.0 + less)
    by_gradient = observed.of_gradient / gradient_s
    by_step = share * by_gradient + (1.0 - share) * (observed.of_wait / waits)
    by_step[6] = (share * log_gradient + (1.0 - share) * log_wait - log_step) / gamma
    return np.array([log_gradient, log_step]) - observed.log_s, np.array([by_gradient, by_step])


def _prior_roots(values: Floats) -> tuple[Floats, Floats]:
    """Return roots of the penalties, of slopes and of overlap, and their derivatives, (7, 3)."""
    ratios = values[[3, 5]] / values[[2, 4]]
    roots = np.append(np.sqrt(_SLOPE_WEIGHT) * ratios, np.sqrt(_OVERLAP_WEIGHT) * (values[6] - 1.0))
    slopes = np.zeros((7, 3))
    slopes[[3, 5], [0, 1]] = np.sqrt(_SLOPE_WEIGHT) / values[[2, 4]]
    slopes[[2, 4], [0, 1]] = -roots[:2] / values[[2, 4]]
    slopes[6, 2] = np.sqrt(_OVERLAP_WEIGHT)
    return roots, slopes


def _least_squares(
    values: Floats, observed: _Measured, blur: float
) -> tuple[float, Floats, Floats]:
    """Return the error, and roots and their derivatives of least squares that touch it from above.

    A root mean square r is blurred to ``s = (r^2 + blur^2)^(1/2)``: steps that the model tells
    exactly make a kink. It is ``((r^2 + blur^2) / w + w) / 2`` at its least over w, at ``w = s``.
    """
    errors, slopes = _errors(values, observed)
    prior, by_prior = _prior_roots(values)
    sizes = np.sqrt(np.add.reduce(errors * errors, axis=1) / errors.shape[1] + blur * blur)
    weights = np.sqrt(0.5 / (errors.shape[1] * sizes))
    roots = np.concatenate([*(weights[:, None] * errors), prior])
    rows = np.hstack([*(weights[:, None, None] * slopes), by_prior])
    return float(np.add.reduce(sizes) + np.add.reduce(prior * prior)), roots, rows


def _step(rows: Floats, roots: Floats, damping: float) -> Floats:
    """Solve damped least squares by modified Gram-Schmidt.

    The kernels of a linear algebra library differ in rounding from processor to processor.
    """
    count, scale = len(rows), np.sqrt(np.add.reduce(rows * rows, axis=1))
    table = np.hstack([[*rows, roots], np.eye(count + 1, count) * (damping * scale)])
    upper = np.zeros((count, count + 1))
    for k in range(count):
        upper[k, k] = np.sqrt(np.add.reduce(table[k] * table[k]))
        unit = table[k] / upper[k, k]
        upper[k, k + 1 :] = np.add.reduce(table[k + 1 :] * unit, axis=1)
        table[k + 1 :] -= upper[k, k + 1 :, None] * unit
    found = upper[:, -1]
    for k in range(count - 1, -1, -1):
        found[k] /= upper[k, k]
        found[:k] -= found[k] * upper[:k, k]
    return found


NAMES = ("alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r", "gamma")

_LEAST = 1e-8
"""Lower bound of constants and slopes, as released: logarithms are taken of their sums."""
_START = (0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001)
_NODES_OVER_NODE = 1.1
_LOWEST = np.array([*[_LEAST] * 6, 1.0])
_HIGHEST = np.array([*[np.inf] * 6, MOST_OVERLAP])
_BLURS, _SHARP = (1e-3, 1e-5, 1e-7, 1e-9), 1e-15
"""Blurs of a fit, one after the other; and what is lost in rounding."""
_DIGITS, _STEPS = 6, 100
_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 0.1, 1e-8, 1e6
_ENOUGH = 1e-10
"""A relative gain, or move, below which a fit goes on to the next blur."""


class StepTimeFit(NamedTuple):
    """Fitted step times, what was minimised, and the parameters that no measurement told."""

    times: StepTimes
    error: float
    pinned: tuple[str, ...]


def fit_step_times(observed: StepObservations) -> StepTimeFit:
    r"""Fit step times to measured steps, as Pollux does (Qiao et al., OSDI 2021, section 4.1).

    .. math:: \min\ RMSLE(T_{grad}) + RMSLE(T_{iter}) + 10^{-3} (\gamma - 1)^2
              + 10^{-2} \left((\beta_n/\alpha_n)^2 + (\beta_r/\alpha_r)^2\right)

    by reweighted, damped least squares from two starts, of which the better end is taken, rounded
    to six digits. Every operation is one that all processors round alike, so that the same steps
    give the same parameters everywhere. What was not yet observed is pinned to its lower bound,
    1e-8, so that growing looks as good as it could be:

    - one batch per GPU only: :math:`\alpha_c` is half of the mean gradient time;
    - nothing on several nodes: :math:`\alpha_n` and :math:`\beta_n`. Afterwards they are at least
      1.1 times :math:`\alpha_r` and :math:`\beta_r`: nodes are no faster than one node;
    - nothing on several GPUs of one node: :math:`\alpha_r` and :math:`\beta_r`;
    - nothing on more than 2 GPUs: :math:`\beta_n` and :math:`\beta_r`.

    Parameters
    ----------
    observed
        Measured steps.

    Returns
    -------
    StepTimeFit
    """
    gpus, nodes = np.asarray(observed.gpus), np.asarray(observed.nodes)
    pinned, measured = _pinned(observed), _Measured.of(observed)
    free = np.array([name not in pinned for name in NAMES])
    fixed = np.array([pinned.get(name, 0.0) for name in NAMES])
    starts = [np.where(free, np.maximum(each, _LEAST), fixed) for each in _starts(observed)]
    _, values = min((_minimised(measured, each, free) for each in starts), key=lambda end: end[0])
    values[free] = [float(f"{each:.{_DIGITS}g}") for each in values[free]]
    error, _, _ = _least_squares(values, measured, _SHARP)
    if not np.any(nodes > 1):
        values[2] = max(values[2], _NODES_OVER_NODE * values[4])
        values[3] = max(values[3], _NODES_OVER_NODE * values[5])
    alone = not np.any(gpus > 1)
    unknown = [*pinned, "gamma"] if alone else list(pinned)
    return StepTimeFit(StepTimes(*values), error, tuple(unknown))


def _pinned(observed: StepObservations) -> dict[str, float]:
    """Parameters that no measurement tells, and the values that they take."""
    gpus, nodes = np.asarray(observed.gpus), np.asarray(observed.nodes)
    pinned: dict[str, float] = {}
    if len(np.unique(np.asarray(observed.local_batch))) == 1:
        pinned["alpha_c"] = float(np.mean(np.asarray(observed.gradient_s))) / 2
    if not np.any(nodes > 1):
        pinned |= {"alpha_n": _LEAST, "beta_n": _LEAST}
    if not np.any((nodes == 1) & (gpus > 1)):
        pinned |= {"alpha_r": _LEAST, "beta_r": _LEAST}
    if not np.any(gpus > 2):
        pinned |= {"beta_n": _LEAST, "beta_r": _LEAST}
    return pinned


def _starts(observed: StepObservations) -> tuple[Floats, Floats]:
    """Two starts: the fixed one of Pollux, and one on the scale of what was measured."""
    gradient_s, step_s = np.asarray(observed.gradient_s), np.asarray(observed.step_s)
    constant = float(np.min(gradient_s)) / 2
    slope = float(np.median(gradient_s / np.asarray(observed.local_batch))) / 2
    wait = max(float(np.median(step_s - gradient_s)), 1e-3 * constant)
    scaled = [constant, slope, wait, 0.1 * wait, wait, 0.1 * wait, _START[-1]]
    return np.array(_START), np.array(scaled)


def _minimised(observed: _Measured, values: Floats, free: Bools) -> tuple[float, Floats]:
    """Minimise over free parameters, with less and less blur; return the error and where it is."""
    error, damping = np.inf, _DAMPING
    for blur in _BLURS:
        error, roots, rows = _least_squares(values, observed, blur)
        damping, growth = min(damping, _DAMPING), 2.0
        for _ in range(_STEPS):
            slopes = np.add.reduce(rows * roots, axis=1)
            held = ((values <= _LOWEST) & (slopes > 0)) | ((values >= _HIGHEST) & (slopes < 0))
            moving = free & ~held
            tried = values.copy()
            there = values[moving] - _step(rows[moving], roots, damping)
            tried[moving] = np.clip(there, _LOWEST[moving], _HIGHEST[moving])
            at = _least_squares(tried, observed, blur)
            gain, move = error - at[0], np.max(np.abs(tried - values) / values)
            if gain > 0:
                values, (error, roots, rows) = tried, at
                damping, growth = damping / 3.0, 2.0
            else:
                damping, growth = max(damping, _LEAST_DAMPING) * growth, 2.0 * growth
            if 0 < gain < _ENOUGH * error or move < _ENOUGH or damping > _MOST_DAMPING:
                break
    return error, values
