"""What rises under a lexicographic policy, and how fast, as the policy states it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from apportion.policies.solving.demands import SpeedProblem, levels_of
from apportion.policies.water_filling import WaterFilling

if TYPE_CHECKING:
    from apportion.policies.base import Policy, Rates
    from apportion.policies.instance import Instance
    from apportion.types import Floats


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
        if isinstance(policy, WaterFilling):
            own = type(policy)
            as_stated = own.objective is WaterFilling.objective
            as_stated &= own.utility is WaterFilling.utility
            p = SpeedProblem(told)
            if not as_stated or policy.constraints(p):
                return None
            rates = policy.rates(p)
            return cls(p.equal_share_throughput, rates, p.inexact)
        levels = levels_of(policy, told)
        if levels is None or levels.constrained or not levels.proportional:
            return None
        return cls(levels.rate, lambda active: active.astype(float), 0.0)
