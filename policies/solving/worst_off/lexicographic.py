"""Beyond the worst off job: the levels that follow the first, by water filling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import cvxpy as cp
import numpy as np

from apportion.errors import InputError
from apportion.policies.base import PassesRatesOn
from apportion.policies.solving.demands import levels_of
from apportion.policies.solving.earlier import constraints_of
from apportion.policies.solving.worst_off.float_filling import even_share
from apportion.policies.solving.worst_off.water_filling import Steady, water_fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.base import Policy
    from apportion.policies.problem import Problem
    from apportion.policies.solving.worst_off.declared_levels import Levels
    from apportion.policies.solving.worst_off.water_filling import Rising
    from apportion.types import Bools, Floats


class Further(NamedTuple):
    """Linear constraints that the final allocation must meet, and the doubt in their numbers.

    `doubt` is by what part of itself a level may be off.
    """

    levels: Sequence[cp.Constraint]
    doubt: float


def further_levels(policy: Policy, p: Problem) -> Further:
    """State linear constraints that the final allocation must meet beyond the optimum.

    `p.X` takes an allocation that meets them: it is returned where no solver finds a better one
    that does.

    They are equalities of what each job has, one a job, which settle it: there is nothing left to
    spend, and the most even allocation that meets them is chosen.

    Raises
    ------
    InputError
        If a policy says that it is lexicographic, and its objective has no levels.
    SolveError
        If a level could not be found.
    """
    constraints = constraints_of(policy, p)
    if isinstance(policy, PassesRatesOn):
        return _filled(p, policy.utility(p), Steady(policy.rates(p)), constraints)
    levels = levels_of(policy, p.instance)
    if levels is None:
        raise InputError(
            f"{policy!r} is lexicographic, and its objective has no levels of jobs: maximise "
            "cp.min of a multiple of p.throughput, or minimise cp.max over its inverse."
        )
    if levels.proportional:
        utility = cp.multiply(1 / levels.rate, p.throughput)
        rising = Steady(lambda active: active.astype(float))
        return _filled(p, utility, rising, constraints)
    return _filled(p, p.throughput, _InverseLevels.of(levels, p), constraints)


def _filled(
    p: Problem, utility: cp.Expression, rising: Rising, constraints: Sequence[cp.Constraint]
) -> Further:
    filled = water_fill(p, utility, rising, constraints)
    return Further([utility == filled.level], filled.doubt)


@dataclass(frozen=True, eq=False)
class _InverseLevels:
    """Steps/s at which the levels ``offset + factor / u`` are 1 / height, for water filling.

    ``factor * height / (1 - offset * height)``: convex, a straight line for jobs without offset.
    """

    factor: Floats
    offset: Floats
    start: float

    straight: ClassVar[bool] = False

    @classmethod
    def of(cls, levels: Levels, p: Problem) -> _InverseLevels:
        """Begin at a height that all jobs have in an even share."""
        p.X.value = even_share(p)
        made = np.asarray(p.throughput.value, dtype=float)
        worst = float(np.max(levels.offset + levels.factor / made))
        return cls(levels.factor, levels.offset, 1 / worst)

    def tangent(self, active: Bools, level: Floats, height: float) -> tuple[Floats, Floats]:
        """Return the demands at a height and their derivatives; zeros for jobs not active."""
        left = np.where(active, 1.0 - self.offset * height, np.inf)
        return self.factor * height / left, self.factor / left**2

    def highest(self, active: Bools) -> float:
        """Return the height at which the first job would have had to be done by now."""
        waited = active & (self.offset > 0)
        return float((1 / self.offset[waited]).min(initial=np.inf))
