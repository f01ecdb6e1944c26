"""One problem, as arrays: what the library is asked and what the oracles know."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


GPUS_PER_MACHINE = 8
MACHINES_PER_RACK = 4


@dataclass(frozen=True)
class Case:
    """A problem of one policy.

    Attributes
    ----------
    policy, number, seed
        Name of the policy, number of the case among those of the policy, seed of the run: they
        determine everything else.
    options, arguments
        Options of the policy, and arguments of `apportion.solve` that must not change the optimum.
    speed
        Steps/s of each member (a job in a row) under each option.
    row, job
        Row and job of each member.
    gpus
        GPUs that a row holds while it runs under an option, shape (rows, options).
    option_type
        Type of each option, an index into `capacity`.
    capacity, types
        GPUs and names of the types; the first ones are those of the tensor, in its order.
    columns
        Columns of the jobs table, each of shape (jobs,); always scale_factor, weight and count.
    entity
        Path of each job's entity, or nothing.
    dollars
        Price per GPU-hour of each type.
    route
        "solve" or "session".
    shape
        "plain", "combinations", "pairs" (of job types), "tiers" or "sizes" (numbers of GPUs).
    kind, beside
        For pairs: job type of each job, and ``beside[a, b]``, the steps/s of type a beside type b.
    order
        Order in which the cluster names its types.
    """

    policy: str
    number: int
    seed: int
    options: dict[str, Any]
    arguments: dict[str, Any]
    speed: Floats
    row: Ints
    job: Ints
    gpus: Floats
    option_type: Ints
    capacity: Floats
    types: tuple[str, ...]
    columns: dict[str, Floats]
    dollars: Floats
    order: Ints
    entity: tuple[str, ...] = ()
    route: str = "solve"
    shape: str = "plain"
    kind: Ints | None = None
    beside: Floats | None = None

    @property
    def name(self) -> str:
        """What ``--case`` takes."""
        return f"{self.policy}:{self.number}"

    @property
    def jobs(self) -> int:
        """Number of rows of the jobs table."""
        return len(self.columns["weight"])

    @property
    def rows(self) -> int:
        """Number of rows of the allocation."""
        return len(self.gpus)

    @property
    def traits(self) -> list[str]:
        """What is unusual about the data."""
        there = {
            "unused type": len(self.types) > self.option_type.max() + 1,
            "type without GPUs": bool((self.capacity == 0).any()),
            "type on which nobody runs": bool((self.speed == 0).all(axis=0).any()),
            "gangs": bool((self.columns["scale_factor"] > 1).any()),
            "counts": bool((self.columns["count"] > 1).any()),
        }
        return [trait for trait, holds in there.items() if holds]

    @cached_property
    def decades(self) -> float:
        """Decades spanned by the speeds, or by another column if that spans more."""
        spans = [_decades(self.speed)]
        spans += [_decades(values) for name, values in self.columns.items() if name in _SPANNING]
        return max(spans)


_SPANNING = ("weight", "steps_remaining")


def _decades(values: Floats) -> float:
    there = values[np.isfinite(values) & (values > 0)]
    return float(np.log10(there.max() / there.min())) if there.size else 0.0
