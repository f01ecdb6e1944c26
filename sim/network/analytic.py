"""Network models by formula or table: collectives, penalties by tier, and printed overheads."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from apportion.checks import listed, mapping, number
from apportion.cluster import TIERS
from apportion.errors import InputError
from apportion.names import model_of
from apportion.sim.network.collectives import hierarchical, phases
from apportion.sim.network.interconnect import is_unbalanced
from apportion.sim.network.profile import ModelProfile, exposed_s
from apportion.sim.network.shapes import Shape, gpus_of, machines_of, tier_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.sim.network.interconnect import Interconnect, Span


@dataclass(frozen=True)
class AnalyticNetwork:
    """Overheads from the layers of a model and the dimensions of an interconnect.

    Source: ASTRA-sim's layer-wise training loop (ISPASS 2020, section III), with hierarchical ring
    collectives. Messages queue for each dimension where the interconnect is pipelined, else for
    all of them together, in the order of the outermost.

    Parameters
    ----------
    name
        As results show it.
    interconnect
        What carries the messages.
    profiles
        What an iteration computes and sends, by model.
    flat_if_unbalanced
        See `Interconnect.spans`.
    fixed_overhead
        Added to the overhead of a model wherever it runs on several GPUs, without unit.
    """

    name: str
    interconnect: Interconnect
    profiles: Mapping[str, ModelProfile]
    flat_if_unbalanced: bool = False
    fixed_overhead: Mapping[str, float] = field(default_factory=dict)

    def overhead(self, job_type: str, shape: Shape) -> float:
        """Exposed communication over compute time, as `NetworkModel.overhead`."""
        spans = self.interconnect.spans(shape, flat_if_unbalanced=self.flat_if_unbalanced)
        return self.overhead_over(job_type, spans)

    def overhead_over(self, job_type: str, spans: Iterable[Span]) -> float:
        """Exposed communication over compute time for given spans of the dimensions."""
        spans = tuple(spans)
        if not spans:
            return 0.0
        model = model_of(job_type, self.profiles)
        profile = self.profiles[model]
        if self.interconnect.pipelined:
            costs = {name: phases(name, spans) for name in profile.collectives}
        else:
            costs = {name: (hierarchical(name, spans),) for name in profile.collectives}
        queues = spans if self.interconnect.pipelined else spans[-1:]
        last_first = tuple(span.dimension.order == "lifo" for span in queues)
        exposed = exposed_s(profile, costs, last_first) / profile.compute_s
        return exposed + self.fixed_overhead.get(model, 0.0)


_SHIPPED = (1.0, 0.8, 0.7)


@dataclass(frozen=True)
class StaticNetwork:
    """Gangs keep a part of their speed that hangs on their tier alone, as in Themis' simulator.

    A gang in several machines, or in several racks, makes so many of the steps that it makes in one
    machine; how many machines or racks there are does not matter. The defaults are those of the
    released job files, which have one more level, GPUs of a machine that are not linked directly;
    for the paper, Themis (NSDI 2020), section 5.2, see the sensitivity of each job to placement.

    Parameters
    ----------
    speed
        Part of the speed by tier: machine, rack, network.
    by_model
        The same for some job types.

    Raises
    ------
    InputError
        If there are not three parts above 0 and up to 1.
    """

    speed: tuple[float, ...] = _SHIPPED
    by_model: Mapping[str, Sequence[float]] = field(default_factory=dict, hash=False)
    name: str = "static"

    def __post_init__(self) -> None:
        by_model = mapping("by_model", self.by_model, "a mapping from job types to their parts")
        for model, speed in {"": self.speed, **by_model}.items():
            of = model and f" of {model!r}"
            parts = listed(f"speed{of}", speed, "a part of the speed for each tier")
            if len(parts) != len(TIERS):
                raise InputError(f"speed{of} has {len(parts)} parts; one for each of {TIERS}.")
            for tier, part in zip(TIERS, parts, strict=True):
                number(f"speed{of} at tier {tier!r}", part, strict=True, most=1.0)

    def overhead(self, job_type: str, shape: Shape) -> float:
        """Return 1 / part - 1, as `NetworkModel.overhead`."""
        return 1 / self.by_model.get(job_type, self.speed)[tier_of(shape)] - 1


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
