"""Jobs that buy time on types of GPU, where nothing else limits them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.policies.solving.solvers.demand_walk import DemandWalk

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.instance import Instance
    from apportion.types import Floats, Ints

_MOST_TYPES = 10
"""With more, there are so many mixes of two that a program is quicker."""


class Buyers(NamedTuple):
    """Jobs, or classes of them, each of which holds so many GPUs wherever it runs.

    Attributes
    ----------
    speed
        Throughput under each option, shape (jobs, options).
    top
        The largest of each job, shape (jobs,).
    gpus, held
        GPUs that one holds, and all of a class do, shape (jobs,).
    equal_share
        Return the throughput that its equal share is worth, shape (jobs,): few ask for it.
    kind, capacity
        Type of each option, and GPUs of each type.
    """

    speed: Floats
    top: Floats
    gpus: Floats
    held: Floats
    equal_share: Callable[[], Floats]
    kind: Ints
    capacity: Floats

    @classmethod
    def of(cls, told: Instance) -> Buyers | None:
        """Read them off; ``None`` where options are no types, or one of them has no use."""
        plain, capacity, least = told.own_usage is None, told.capacity, np.minimum.reduce
        if told.option_accelerator.tolist() != [*range(capacity.size)]:
            return None
        gpus = told.columns["scale_factor"] if plain else told.gpus[:, 0]
        top = np.maximum.reduce(told.throughput, axis=1) if plain else told.fastest_throughput
        there = least(capacity) > 0 and least(gpus) > 0 and least(top) > 0
        if not (there and capacity.size <= _MOST_TYPES):
            return None
        if not (plain or (told.gpus == gpus[:, None]).all()):
            return None
        each = top, gpus, gpus * told.count, lambda: told.equal_share_throughput
        return cls(told.throughput, *each, told.option_accelerator, capacity)

    def some(self, there: Ints, count: Floats) -> Buyers:
        """Return some of them, and how many there are of each."""
        gpus = self.gpus[there]
        rows = self.speed[there], self.top[there], gpus, gpus * count
        return Buyers(*rows, lambda: self.equal_share()[there], self.kind, self.capacity)

    def walk(self, value: Floats | None = None) -> DemandWalk:
        """Return a walk over the prices of the types."""
        return DemandWalk(self.speed, self.held, self.kind, self.capacity, value)
