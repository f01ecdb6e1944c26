"""Static penalties: a factor to the speed of a gang by the tier that it spans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apportion.checks import listed, mapping, number
from apportion.cluster import TIERS
from apportion.errors import InputError
from apportion.sim.network.shapes import Shape, tier_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["StaticNetwork"]

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
