r"""What a speed that nobody measured is worth to a job that still has so much to do.

Of the speed v of an unmeasured cell :math:`\ln v \sim N(m, s^2)` is believed, and a trial of
:math:`\tau` seconds tells it. A job with W steps left may be done at a sure speed u in W / u
seconds. Or it tries the cell, which takes :math:`\tau`, or less if that makes all W steps; is then
done there where v turns out to be u or more, and at the speed u where it does not. The cell is
*worth* the sure speed at which both take as long: the time that the knowledge saves is the time
that the trial costs,

.. math:: W\, E[(1 / u - 1 / v)^+] = \tau\, E[(1 - v / u)^+] \quad (u \leq w = W / \tau).

That is Gittins' index (Gittins 1979; Weitzman 1979) of a cell of which one trial tells all: the
most steps by time of any threshold c up to which a job leaves,

.. math:: u = \max_{c \leq w} \frac{E[v;\, v < c] + w P(v \geq c)}
    {P(v < c) + w\, E[1 / v;\, v \geq c]}.

A job that is done within the first trial is as fast as W steps take long in the mean, and
:math:`u < e^m`; with time left for twelve trials u is some :math:`e^{m + s}`, and it grows with W
and s. What the policy would do otherwise needs no place in it: u is what the policy compares with
all that it has besides, and the cell is tried where that is slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtr

from apportion.checks import number

if TYPE_CHECKING:
    from apportion.types import Floats

_MOST_OPTIMISM = 10.0

_MOST_ROUNDS = 100
_CONVERGED = 1e-12
"""Change of ln u at which it is as good as found: the next one is of the order of its square."""

_LEAST_SPREAD = 1e-9
"""Standard deviation below which all that is believed is the mean."""

_MOST_LOG = 300.0
"""Logarithm of the most work for a trial's time, and of the least, that are reckoned with."""

_MOST_SPREAD = 10.0
"""Standard deviation beyond which no more is hoped for; exp of its square is still a number."""


def checked_optimism(optimism: Any) -> float | Literal["worth"]:
    """Return a number of standard deviations, or "worth".

    Raises
    ------
    InputError
        For anything else.
    """
    if isinstance(optimism, str) and optimism == "worth":
        return "worth"
    return number("optimism", optimism, most=_MOST_OPTIMISM, words="'worth' or a number")


def log_worth(mean: Floats, sd: Floats, per_trial: Floats) -> Floats:
    r"""Logarithms of the speeds that unmeasured cells are worth.

    A threshold is raised to the speed that it makes (Dinkelbach 1967) until it stays: that is the
    best one.

    Parameters
    ----------
    mean, sd
        Of the logarithm of the speed; shape (jobs, columns).
    per_trial
        w, the speed at which each job would be done in just one trial; shape (jobs,).

    Returns
    -------
    NDArray[np.float64]
        The shape of `mean`; `mean` itself where nothing is in doubt.
    """
    s = np.clip(sd, _LEAST_SPREAD, _MOST_SPREAD)
    # In units of exp(m).
    log_w = np.log(np.maximum(per_trial, np.finfo(float).tiny))[:, None] - mean
    log_w = np.clip(log_w, -_MOST_LOG, _MOST_LOG)
    w = np.exp(log_w)
    factor = np.exp(s * s / 2.0)
    log_u = np.zeros_like(s)
    for _ in range(_MOST_ROUNDS):
        k = np.minimum(log_u, log_w) / s
        steps = factor * ndtr(k - s) + w * ndtr(-k)
        time = ndtr(k) + w * factor * ndtr(-k - s)
        better = np.log(steps / time)
        done = np.abs(better - log_u).max(initial=0.0) <= _CONVERGED
        log_u = better
        if done:
            break
    return np.where(sd > 0, mean + log_u, mean)
