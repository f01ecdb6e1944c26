"""Step times from measured steps: least squares of logarithms, with optimistic priors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize

from apportion.estimators.goodput.fit_error import error_and_gradient
from apportion.estimators.goodput.step_times import MOST_OVERLAP, StepTimes
from apportion.threads import one_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.estimators.goodput.observations import StepObservations

    Floats = NDArray[np.float64]

__all__ = ["StepTimeFit", "fit_step_times"]

NAMES = ("alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r", "gamma")

_LEAST = 1e-8
_START = (0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001)
_NODES_OVER_NODE = 1.1
_BETTER = 1e-9


class StepTimeFit(NamedTuple):
    """Fitted step times, what was minimised, and the parameters that no measurement told."""

    times: StepTimes
    error: float
    pinned: tuple[str, ...]


@one_thread
def fit_step_times(observed: StepObservations) -> StepTimeFit:
    r"""Fit step times to measured steps, as Pollux does (Qiao et al., OSDI 2021, section 4.1).

    .. math:: \min\ RMSLE(T_{grad}) + RMSLE(T_{iter}) + 10^{-3} (\gamma - 1)^2
              + 10^{-2} \left((\beta_n/\alpha_n)^2 + (\beta_r/\alpha_r)^2\right)

    by L-BFGS-B, from two starts, of which the first that is best is taken. What was not yet
    observed is pinned to its lower bound, 1e-8, so that growing looks as good as it could be:

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
    pinned = _pinned(observed)
    found = [_minimised(observed, start, pinned) for start in _starts(observed)]
    best = found[0] if found[0][1] <= found[1][1] + _BETTER else found[1]
    values = best[0].copy()
    if not np.any(nodes > 1):
        values[2] = max(values[2], _NODES_OVER_NODE * values[4])
        values[3] = max(values[3], _NODES_OVER_NODE * values[5])
    alone = not np.any(gpus > 1)
    unknown = [*pinned, "gamma"] if alone else list(pinned)
    return StepTimeFit(StepTimes(*values), best[1], tuple(unknown))


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


def _minimised(
    observed: StepObservations, start: Floats, pinned: dict[str, float]
) -> tuple[Floats, float]:
    """Minimise over the parameters that are not pinned."""
    free = np.array([name not in pinned for name in NAMES])
    values = np.where(free, np.maximum(start, _LEAST), [pinned.get(name, 0.0) for name in NAMES])
    bounds = [(1.0, MOST_OVERLAP) if name == "gamma" else (_LEAST, None) for name in NAMES]

    def objective(part: Floats) -> tuple[float, Floats]:
        values[free] = part
        error, gradient = error_and_gradient(values, observed)
        return error, gradient[free]

    limits = [each for each, is_free in zip(bounds, free, strict=True) if is_free]
    found = minimize(objective, values[free], jac=True, method="L-BFGS-B", bounds=limits)
    values[free] = found.x
    return values, float(found.fun)
