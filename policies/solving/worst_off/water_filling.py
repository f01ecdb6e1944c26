"""Water filling: raise all levels together, freeze what cannot rise, go on with the rest.

Every level is one linear program: the largest step by which all jobs that are not frozen rise at
their rates. Jobs whose demand has a positive dual value are bottlenecks: they are as high in
every solution of that step, so they are frozen where they are. No job is tested one by one and no
integer variable is needed. At least one job freezes at each level, so there are at most as many
levels as jobs (classes of identical jobs). Where they freeze because they have all of their time,
one after the other, such levels are passed together
(`apportion.policies.solving.worst_off.own_limits`).

Levels that are no straight lines in what rises, as demands in a completion time, are replaced by
their tangents until these no longer matter (Newton's method: a tangent of a convex demand asks for
less, so each step ends at the level or beyond it).

The steps are taken in floats first (`apportion.policies.solving.worst_off.float_filling`), and it
is counted what their rounding errors may have done to the levels: a level is built upon the ones
before, and where little of it hangs on a job, what rounding leaves of another one is much to that.
If it may show, the steps are taken once more without any rounding errors
(`apportion.policies.solving.worst_off.exact_filling`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from apportion.errors import SolveError
from apportion.policies.solving.worst_off.fixed_point import fixed, floats
from apportion.policies.solving.worst_off.float_filling import FloatFill
from apportion.policies.solving.worst_off.own_limits import pass_own_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    import cvxpy as cp

    from apportion.policies.base import Rates
    from apportion.policies.problem import Problem
    from apportion.policies.solving.worst_off.fixed_point import Fixed
    from apportion.types import Bools, Floats


_LOG = logging.getLogger(__name__)

_CERTAIN = 1e-9
"""Doubt in a level with which rounding errors are of no account."""
_STRAIGHT = 1e-11
"""By how much, relatively, a tangent may miss the level."""
_STILL = 1e-14
"""Relative step at which a height no longer moves."""
_MOST_TANGENTS = 200
_IN_A_ROW = 4
"""Steps to own limits after which it pays to look for more of them at once, or the very first one
(measured: that takes some five programs)."""


class Rising(Protocol):
    """Levels as functions of one height, which is raised as far as it goes."""

    @property
    def straight(self) -> bool:
        """Whether a tangent is the level itself."""
        ...

    @property
    def start(self) -> float:
        """Height to begin with: one that all jobs can have."""
        ...

    def tangent(self, active: Bools, level: Floats, height: float) -> tuple[Floats, Floats]:
        """Return the levels of jobs at a height, and how fast they rise there, shape (jobs,) each.

        Parameters
        ----------
        active
            Which jobs are not frozen; the others' numbers are not used.
        level
            Where all jobs are now.
        height
            The height.
        """
        ...

    def highest(self, active: Bools) -> float:
        """Return a height beyond which there is no level for an active job."""
        ...


class Steady:
    """Levels that rise from nothing, at rates which change only when a job freezes."""

    straight, start = True, 0.0

    def __init__(self, rates: Rates) -> None:
        self._rates = rates

    def tangent(self, active: Bools, level: Floats, height: float) -> tuple[Floats, Floats]:
        """Go on from where the jobs are."""
        return level, self._rates(active)

    def highest(self, active: Bools) -> float:
        """Return no limit."""
        return np.inf


class Filled(NamedTuple):
    """Levels of all jobs, an allocation that has them, and how many steps were taken.

    `doubt` is by what part of itself a level may be off, at most, to first order.
    """

    level: Floats
    X: Floats
    steps: int
    doubt: float


def water_fill(
    p: Problem,
    utility: cp.Expression,
    rising: Rising,
    constraints: Sequence[cp.Constraint] = (),
) -> Filled:
    """Find the lexicographically largest levels of a utility.

    Parameters
    ----------
    p
        The problem; its X takes the allocation that was found.
    utility
        What is to rise: an affine expression of shape (jobs,).
    rising
        Its levels. `Steady` at equal rates that never change gives lexicographic max-min fairness;
        rates that pass a frozen job's share on within its entity give hierarchical fairness.
    constraints
        What the policy asks beyond the problem's own constraints.

    Raises
    ------
    SolveError
        If no solver found one of the levels to within a relative error of 1e-6.
    """
    fill = FloatFill(p, utility, constraints)
    try:
        filled = _filled(fill, rising, fill if rising.straight else None)
    except SolveError:
        if not fill.exact:
            raise
        return _filled(fill.exact, rising)
    if filled.doubt <= _CERTAIN or not fill.exact:
        return filled
    try:
        return _filled(fill.exact, rising)
    except SolveError as error:
        _LOG.info("water filling without rounding errors: %s", error)
        return filled


class FillingSteps(Protocol):
    """A way to take the steps."""

    steps: int
    binding: Bools

    def rise(self, base: Fixed, rate: Floats, active: Bools) -> tuple[Fixed, float]:
        """Raise all levels from `base` at their rates as far as they go.

        Sets `binding`: active jobs, one at least, that can rise no further in any allocation.

        Returns
        -------
        risen
            By how much each level has risen, shape (jobs,).
        step
            The same per unit of the rates.
        """
        ...

    def keep(self) -> None:
        """Build upon the last step."""
        ...

    def doubt(self, level: Floats) -> float:
        """Tell by what part of itself a level may be off, at most."""
        ...

    def allocation(self) -> Floats:
        """Return the allocation of the last step, which the problem's X takes."""
        ...


def _filled(fill: FillingSteps, rising: Rising, floating: FloatFill | None = None) -> Filled:
    """Take step after step until every job is frozen.

    Where one ends at the own limits of jobs, others like it are taken together, in floats.
    """
    active = np.ones(fill.binding.size, dtype=bool)
    level, height, in_a_row = fixed(np.zeros(active.size)), rising.start, _IN_A_ROW - 1
    while active.any():
        level, height = _to_the_next_bottleneck(fill, rising, active, level, height)
        stopped = active & fill.binding
        active = active & ~stopped
        if floating is not None and active.any():
            own = floating.limits.most[stopped] * (1 - _STRAIGHT) <= floats(level)[stopped]
            in_a_row = in_a_row + 1 if own.all() else 0
            if in_a_row >= _IN_A_ROW:
                level, active = pass_own_limits(floating, rising, active, level)
                in_a_row = 0
    reached = floats(level)
    return Filled(reached, fill.allocation(), fill.steps, fill.doubt(reached))


def _to_the_next_bottleneck(
    fill: FillingSteps, rising: Rising, active: Bools, level: Fixed, height: float
) -> tuple[Fixed, float]:
    """Raise the active jobs until one can rise no further: their levels, and the height."""
    for _ in range(_MOST_TANGENTS):
        at, rate = rising.tangent(active, floats(level), height)
        base = level if rising.straight else np.where(active, fixed(at), level)
        risen, step = fill.rise(base, np.where(active, rate, 0.0), active)
        if rising.straight and step < 0:
            risen, step = risen * 0, 0.0
        reached, higher = base + risen, height + step
        if rising.straight:
            fill.keep()
            return reached, higher
        if higher < (top := rising.highest(active)):
            there = rising.tangent(active, floats(level), higher)[0][active]
            off = np.abs(there - floats(reached)[active]) / there
            # Next to a height that nobody can pass, rounding errors of the height decide.
            if off.max(initial=0.0) <= _STRAIGHT or abs(step) <= _STILL * height:
                fill.keep()
                return reached, higher
        height = higher if 0 < higher < top else 0.5 * (height + (top if higher > 0 else 0.0))
    raise SolveError(f"Water filling found no level in {_MOST_TANGENTS} tangents.")
