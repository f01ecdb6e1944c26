"""Step times from measured steps: least squares of logarithms, with optimistic priors.

`error_and_gradient` is what a fit minimises; `bootstrapped` takes speeds on types where a job has
not yet held several GPUs from a type where it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, least_squares, minimize

from apportion.checks import whole
from apportion.errors import InputError, unknown_name, written
from apportion.estimators.goodput.step_times import MOST_OVERLAP, StepTimes
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from apportion.estimators.goodput.goodput import StepObservations
    from apportion.types import Floats


_OVERLAP_WEIGHT, _SLOPE_WEIGHT, _NO_SYNCHRONISATION_S = 1e-3, 1e-2, 1e-8
"""What keeps parameters plain, and seconds where nobody synchronises, as in the released code."""
_EXACT = 1e-12
"""Root mean squares below this are 0: their gradient is that of noise."""


class Measured(NamedTuple):
    """Measured steps as a fit reads them at every point that it tries."""

    local: Floats
    synchronised: NDArray[np.int64]
    """Of each step: 0 on one GPU, 1 within a node, 2 between nodes."""
    further: Floats
    log_gradient_s: Floats
    log_step_s: Floats
    of_gradient: Floats
    of_wait: Floats
    """Derivatives of both times by the seven parameters, each a row."""

    @classmethod
    def of(cls, observed: StepObservations) -> Measured:
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
            np.log(np.asarray(observed.gradient_s)),
            np.log(np.asarray(observed.step_s)),
            np.array([np.ones_like(local), local]),
            np.array([none, none, several, several * further, within, within * further, none]),
        )


def error_and_gradient(values: Floats, observed: Measured) -> tuple[float, Floats]:
    """Error of step times, see `fit_step_times`, and its derivatives by the seven parameters.

    Parameters
    ----------
    values
        alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma; all > 0.
    observed
        Measured steps.
    """
    gradients, by_gradient, steps, by_step = _errors(values, observed)
    first, slope_first = _root_mean_square(gradients, by_gradient)
    second, slope_second = _root_mean_square(steps, by_step)
    prior, slope_prior = _prior(values)
    return first + second + prior, slope_first + slope_second + slope_prior


def _errors(values: Floats, observed: Measured) -> tuple[Floats, Floats, Floats, Floats]:
    """Errors of the logarithms of gradient and step times, each with its derivatives."""
    gamma = values[6]
    gradient_s = values[0] + values[1] * observed.local
    by_gradient = np.zeros((7, gradient_s.size))
    by_gradient[:2] = observed.of_gradient / gradient_s

    waits = np.array([_NO_SYNCHRONISATION_S, values[4], values[2]])[observed.synchronised]
    slopes = np.array([0.0, values[5], values[3]])[observed.synchronised]
    waits = waits + observed.further * slopes
    by_wait = observed.of_wait / waits

    # The logarithm of a norm: powers of seconds would lose what is small.
    log_powers = np.logaddexp(gamma * np.log(gradient_s), gamma * np.log(waits))
    log_step = log_powers / gamma
    share = np.exp(gamma * np.log(gradient_s) - log_powers)
    by_step = share * by_gradient + (1.0 - share) * by_wait
    by_step[6] = (share * np.log(gradient_s) + (1 - share) * np.log(waits) - log_step) / gamma
    gradients = np.log(gradient_s) - observed.log_gradient_s
    return gradients, by_gradient, log_step - observed.log_step_s, by_step


def _root_mean_square(errors: Floats, slopes: Floats) -> tuple[float, Floats]:
    size = float(np.sqrt(np.add.reduce(errors**2) / errors.size))  # np.mean, without its calls
    if size < _EXACT:
        return size, np.zeros(len(slopes))
    return size, slopes @ errors / (errors.size * size)


def _prior(values: Floats) -> tuple[float, Floats]:
    """Penalties of overlap, and of slopes relative to constants; both keep to optimistic models."""
    roots, slopes = _prior_roots(values)
    return float(roots @ roots), 2 * slopes @ roots


def _prior_roots(values: Floats) -> tuple[Floats, Floats]:
    """Return roots of the penalties, and their derivatives, shape (7, 3)."""
    ratios = values[[3, 5]] / values[[2, 4]]
    roots = np.append(np.sqrt(_SLOPE_WEIGHT) * ratios, np.sqrt(_OVERLAP_WEIGHT) * (values[6] - 1.0))
    slopes = np.zeros((7, 3))
    slopes[[3, 5], [0, 1]] = np.sqrt(_SLOPE_WEIGHT) / values[[2, 4]]
    slopes[[2, 4], [0, 1]] = -roots[:2] / values[[2, 4]]
    slopes[6, 2] = np.sqrt(_OVERLAP_WEIGHT)
    return roots, slopes


NAMES = ("alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r", "gamma")

_LEAST = 1e-8
"""Lower bound of constants and slopes, as released: logarithms are taken of their sums."""
_START = (0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001)
_NODES_OVER_NODE = 1.1
_LOWEST = np.array([*[_LEAST] * 6, 1.0])
_HIGHEST = np.array([*[np.inf] * 6, MOST_OVERLAP])
_DIGITS, _REWEIGHTED = 6, 8
_LEAST_SQUARES: dict[str, Any] = {"method": "dogbox", "x_scale": "jac", "max_nfev": 25} | (
    dict.fromkeys(("xtol", "ftol", "gtol"), 1e-14)
)
_BETTER = 1e-9
"""The second start is taken only where it is better by more than rounding."""


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

    by L-BFGS-B, from two starts, of which the first that is best is taken, and from there by least
    squares: steps that the model tells exactly make a kink, at which L-BFGS-B stops anywhere near.
    Parameters have six digits, so that no rounding of a processor shows in them. What was not yet
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
    values = _polished(observed, best[0], pinned)
    error = error_and_gradient(values, Measured.of(observed))[0]
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


def _minimised(
    observed: StepObservations, start: Floats, pinned: dict[str, float]
) -> tuple[Floats, float]:
    """Minimise over the parameters that are not pinned."""
    free = np.array([name not in pinned for name in NAMES])
    values = np.where(free, np.maximum(start, _LEAST), [pinned.get(name, 0.0) for name in NAMES])
    measured = Measured.of(observed)

    def objective(part: Floats) -> tuple[float, Floats]:
        values[free] = part
        error, gradient = error_and_gradient(values, measured)
        return error, gradient[free]

    limits = Bounds(_LOWEST[free], _HIGHEST[free])
    found = minimize(objective, values[free], jac=True, method="L-BFGS-B", bounds=limits)
    values[free] = found.x
    return values, float(found.fun)


def _polished(observed: StepObservations, start: Floats, pinned: dict[str, float]) -> Floats:
    """Go on to the very minimum, by least squares with weights anew.

    A root mean square r is ``(r^2 / w + w) / 2`` at its least over w, which is at ``w = r``.
    """
    free = np.array([name not in pinned for name in NAMES])
    values, measured = start.copy(), Measured.of(observed)
    for _ in range(_REWEIGHTED):
        first, _, second, _ = _errors(values, measured)
        sizes = [max(float(np.sqrt(np.mean(each**2))), _EXACT) for each in (first, second)]
        weights = np.sqrt(0.5 / (first.size * np.array(sizes)))

        def terms(part: Floats, weights: Floats = weights) -> tuple[Floats, Floats]:
            values[free] = part
            first, by_first, second, by_second = _errors(values, measured)
            prior, by_prior = _prior_roots(values)
            slopes = [weights[0] * by_first, weights[1] * by_second, by_prior]
            roots = np.concatenate([weights[0] * first, weights[1] * second, prior])
            return roots, np.hstack(slopes)[free].T

        found = least_squares(
            *(lambda part: terms(part)[0], values[free], lambda part: terms(part)[1]),
            bounds=(_LOWEST[free], _HIGHEST[free]),
            **_LEAST_SQUARES,
        )
        values[free] = found.x
    values[free] = [float(f"{each:.{_DIGITS}g}") for each in values[free]]
    return values


def bootstrapped(
    times: Mapping[str, StepTimes], most_gpus: Mapping[str, int], local_batch: int
) -> dict[str, StepTimes]:
    r"""Step times on every type, where most were tried on one GPU only.

    .. math:: thr(k, A) = \frac{thr(1, A)}{thr(1, B)} \, thr(k, B)

    for a type A that was tried on one GPU, and the type B that was tried on most (ties: the first
    given). All times of A are those of B times :math:`T_{grad,A}(m) / T_{grad,B}(m)` at one batch
    per GPU m, so that the formula is exact there and the model stays one of `StepTimes`.
    (Jayaram Subramanya et al., SOSP 2023, section 3.2.)

    Parameters
    ----------
    times
        Fitted step times by accelerator type.
    most_gpus
        Most GPUs on which the job was observed, by type: 1 or more.
    local_batch
        Batch per GPU, samples, at which single GPUs are compared.

    Returns
    -------
    dict
        Step times by type, as they were where the job ran on several GPUs, or nowhere did.

    Raises
    ------
    InputError
        If a type lacks its number of GPUs, or nothing was observed at all.
    """
    whole("The batch per GPU", local_batch, 1)
    if not times:
        raise InputError("No accelerator type was tried; types cannot be told from each other.")
    for name in times:
        if name not in most_gpus:
            raise unknown_name("accelerator among those tried", name, most_gpus)
        whole(f"The most GPUs tried on {written(name)}", most_gpus[name], 1)
    source = max(times, key=lambda name: most_gpus[name])
    if most_gpus[source] == 1:
        return dict(times)
    basis = times[source].gradient_s(local_batch)
    return {
        name: own
        if most_gpus[name] > 1
        else times[source].scaled(own.gradient_s(local_batch) / basis)
        for name, own in times.items()
    }
