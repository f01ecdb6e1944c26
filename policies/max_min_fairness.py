"""Max-min fairness: nobody's normalised throughput can rise without a poorer one's falling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from apportion.policies.max_min import MaxMinPolicy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

__all__ = ["MaxMinFairness"]


@dataclass(frozen=True)
class MaxMinFairness(MaxMinPolicy):
    """Least attained service: maximise the least weighted, normalised throughput.

    A job's throughput is counted relative to its equal share, per GPU that it holds, and per unit
    of its weight (Gavel, section 4.1).
    """

    name = "max_min_fairness"
    problem = "max over X of min over jobs of scale_factor / weight * throughput / equal share"
    source = "Gavel (OSDI 2020), section 4.1"
    columns: ClassVar[tuple[str, ...]] = ("weight",)

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    lexicographic: bool = False

    def demand(self, p: Problem, level: float) -> NDArray[np.float64] | None:
        """Return the steps/s at which each job's normalised throughput is `level`."""
        return level * p.weight * p.equal_share_throughput / p.scale_factor
