"""The overheads that Dally's authors print, as a network model."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from apportion.cluster import TIERS
from apportion.names import model_of
from apportion.sim.network.interconnect import is_unbalanced
from apportion.sim.network.shapes import Shape, gpus_of, machines_of, tier_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.sim.network.analytic import AnalyticNetwork

TABLE1_PERCENT: Mapping[str, tuple[float, float, float]] = MappingProxyType(
    {
        "VGG11": (1, 6, 7),
        "AlexNet": (2, 13, 100),
        "MobileNetV3": (42, 940, 19592),
        "ResNet18": (7, 116, 2749),
        "ResNet50": (12, 12, 38),
        "BERT-large": (8, 23, 715),
    }
)
"""Overhead in percent of compute of 8 GPUs at each tier (Sharma et al., Dally, 2024, Table I)."""

REFERENCE_SHAPES: tuple[Shape, Shape, Shape] = (((8,),), ((4, 4),), ((2, 2), (2, 2)))
"""Shapes of 8 GPUs at each tier that the analytic model stands beside Table I with."""

LATENCY_BOUND = frozenset(
    {
        ("MobileNetV3", "rack"),
        ("MobileNetV3", "network"),
        ("ResNet18", "network"),
        ("BERT-large", "network"),
    }
)
"""Where latency is nearly all of the overhead, which then grows with the steps of the ring."""


@dataclass(frozen=True)
class Table1Network:
    """Dally's Table I, extended from 8 GPUs to other gangs.

    The overhead depends on the model, the tier, and the number k of units on it: GPUs of a
    machine, machines of a rack, racks. k = 8, 2, 2 is Table I, whatever lies inside the units.
    Elsewhere, o(k) = o(2) (k - 1) where `LATENCY_BOUND`. Otherwise the analytic model a carries
    Table I over, o = table * min(1, a(k) / a(table)) + max(0, a(k) - a(table)): a ratio where it
    sees less overhead than at the table's shape, a difference where it sees more. A ratio above 1
    would magnify what the two disagree on, without bound where overlap hides nearly everything.

    Parameters
    ----------
    analytic
        Gives the ratios, and the overheads of models that the table lacks.
    flat_if_unbalanced
        Count every GPU of an unbalanced gang as a unit, see `is_unbalanced`.
    name
        As results show it.
    """

    analytic: AnalyticNetwork
    flat_if_unbalanced: bool = True
    name: str = "table1"
    _at_table: dict[tuple[str, int], float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def overhead(self, job_type: str, shape: Shape) -> float:
        """Exposed communication over compute time, as `NetworkModel.overhead`."""
        if gpus_of(shape) == 1:
            return 0.0
        model = model_of(job_type, self.analytic.profiles)
        if model not in TABLE1_PERCENT:
            return self.analytic.overhead(model, shape)
        tier = tier_of(shape)
        table = TABLE1_PERCENT[model][tier] / 100
        flat = self.flat_if_unbalanced and is_unbalanced(shape)
        units = gpus_of(shape) if flat or not tier else (machines_of(shape), len(shape))[tier - 1]
        if (model, TIERS[tier]) in LATENCY_BOUND:
            return table * (units - 1)
        here = self._analytic(model, shape if flat else _widened(tier, units), flat=flat)
        there = self._at_table.get((model, tier))
        if there is None:
            there = self._analytic(model, REFERENCE_SHAPES[tier], flat=False)
            self._at_table[model, tier] = there
        return table + (here - there) if here >= there else table * here / there

    def _analytic(self, model: str, shape: Shape, *, flat: bool) -> float:
        """Overhead that the analytic model gives a shape."""
        spans = self.analytic.interconnect.spans(shape, flat_if_unbalanced=flat)
        return self.analytic.overhead_over(model, spans)


def _widened(tier: int, units: int) -> Shape:
    """Return the reference shape of a tier with another number of units on it."""
    if tier == 0:
        return ((units,),)
    return ((4,) * units,) if tier == 1 else ((2, 2),) * units
