"""The analytic network model: collectives over a gang's shape, overlapped with its compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apportion.names import model_of
from apportion.sim.network.collectives import hierarchical, phases
from apportion.sim.network.profile import ModelProfile, exposed_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apportion.sim.network.interconnect import Interconnect, Span
    from apportion.sim.network.shapes import Shape

__all__ = ["AnalyticNetwork"]


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
