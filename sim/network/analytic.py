"""Network models by formula: collectives overlapped with compute, and static penalties by tier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apportion.checks import listed, mapping, number
from apportion.cluster import TIERS
from apportion.errors import InputError
from apportion.names import model_of
from apportion.sim.network.collectives import hierarchical, phases
from apportion.sim.network.profile import ModelProfile, exposed_s
from apportion.sim.network.shapes import Shape, tier_of

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
