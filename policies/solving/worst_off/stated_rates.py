"""What rises under a lexicographic policy, and how fast, as the policy states it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import numpy as np

from apportion.policies.solving.demands import (
    SpeedProblem,
    has_earlier,
    is_of_each,
    levels_of,
)
from apportion.policies.solving.worst_off.line_path import CrowdPath, LinePath
from apportion.policies.solving.worst_off.own_limits import OwnLimits, Path
from apportion.policies.solving.worst_off.water_filling import Steady
from apportion.policies.water_filling import RatesOfGroups, WaterFilling

if TYPE_CHECKING:
    from apportion.policies.base import PassesRatesOn, Policy, Rates
    from apportion.policies.instance import Instance
    from apportion.policies.solving.worst_off.buyers import Buyers
    from apportion.types import Bools, Floats

_SAME = 1e-13
"""Part of a rate by which another one that is the same may differ."""


class Rise(Protocol):
    """Levels at heights, as far as only what jobs make with all of their time stops them."""

    @property
    def first(self) -> float:
        """Height of the first stop."""
        ...

    def until(self, height: float, /) -> float:
        """Return the height of a stop beyond another height, or of the last one if none is."""
        ...

    def standing(self, height: float) -> Bools:
        """Return who has not stopped yet, shape (jobs,)."""
        ...

    def along(self, height: float) -> tuple[Floats, Floats]:
        """Return the levels at a height, and how fast they rise up to there, shape (jobs,) each."""
        ...


class StatedRates(NamedTuple):
    """What is to rise.

    Attributes
    ----------
    unit
        Steps/s of a job that are one unit of what rises, shape (jobs,).
    rates
        How fast that rises, given which jobs still can.
    inexact
        Relative error of the rates.
    """

    unit: Floats
    rates: Rates
    inexact: float

    @classmethod
    def of(cls, policy: Policy, told: Instance) -> StatedRates | None:
        """Read it off a policy; ``None`` where there is more to it than levels of jobs."""
        if hasattr(policy, "rates") and hasattr(policy, "utility"):  # quicker than isinstance
            return cls._passed_on(policy, told)
        levels = levels_of(policy, told)
        if levels is None or levels.constrained or not levels.proportional:
            return None
        return cls(levels.rate, _each_alike, 0.0)

    @classmethod
    def _passed_on(cls, policy: Policy, told: Instance) -> StatedRates | None:
        """Read rates; the objective is to be the height of the first level."""
        p, stated = SpeedProblem(told), cast("PassesRatesOn", policy)
        if policy.constraints(p) or has_earlier(policy):
            return None
        unit = _unit(stated, p)
        if unit is None:
            return None
        rates = stated.rates(p)
        if type(policy).objective is not WaterFilling.objective:
            levels, first = levels_of(policy, told), unit * rates(np.ones(unit.size, dtype=bool))
            if levels is None or levels.constrained or not levels.proportional:
                return None
            if (np.abs(levels.rate - first) > _SAME * first).any():
                return None
        return cls(unit, rates, p.inexact)

    def path(self, most: Floats, buyers: Buyers, active: Bools, level: Floats) -> Rise:
        """Return how jobs go up from where they are until nobody can, or nothing is left.

        `most` is what each has at most, shape (jobs,).
        """
        if isinstance(self.rates, RatesOfGroups):
            path = CrowdPath if self.rates.in_line is None else LinePath
            return path(self.rates, most, active, level)
        if self.rates is _each_alike:
            return AlikePath(most, active, level)
        part = buyers.held[:, None] / buyers.capacity[buyers.kind]
        runs = buyers.speed > 0
        cost = np.divide(part, buyers.speed, out=np.full(part.shape, np.inf), where=runs)
        worth = cost.min(axis=1) * self.unit  # where all of each type is worth one
        limits = OwnLimits(most, worth, float(buyers.capacity.size))
        return Path.of(Steady(self.rates), limits, active, level)


def _each_alike(active: Bools) -> Floats:
    """Let all rise as fast, whoever else does."""
    return active.astype(float)


class AlikePath:
    """A path of jobs that all rise as fast as the height, until each stops at what it has at most.

    Attributes
    ----------
    first
        Height of the first stop.
    """

    def __init__(self, most: Floats, active: Bools, level: Floats) -> None:
        self._level, self._most, self._active = level, most, active
        self._stop = np.where(active, np.maximum(most - level, 0.0), -1.0)
        self.first = float(self._stop.min(where=active, initial=np.inf))
        self._last = float(self._stop.max())

    def until(self, _: float) -> float:
        """Return the height of the last stop."""
        return self._last

    def standing(self, height: float) -> Bools:
        """Return who has not stopped yet, shape (jobs,)."""
        stands: Bools = self._stop > height
        return stands

    def along(self, height: float) -> tuple[Floats, Floats]:
        """Return the levels at a height, and how fast they rise up to there, shape (jobs,) each."""
        rises = self._stop >= height
        level = np.where(rises, self._level + height, self._most)
        return np.where(self._active, level, self._level), rises.astype(float)


def _unit(stated: PassesRatesOn, p: SpeedProblem) -> Floats | None:
    """Return throughputs at which a utility is 1; ``None`` if it is no multiple of them."""
    if type(stated).utility is WaterFilling.utility:
        return p.equal_share_throughput
    utility = stated.utility(p)
    if not is_of_each(utility, p.throughput):
        return None
    p.throughput.value = np.zeros(p.throughput.shape)
    offset = np.asarray(utility.value, dtype=float)
    p.throughput.value = np.ones(p.throughput.shape)
    slope = np.asarray(utility.value, dtype=float)
    return None if offset.any() or not (slope > 0).all() else np.asarray(1 / slope)
