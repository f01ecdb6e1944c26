"""Jobs over types in place of options, where a faster option of a type costs no more than others.

Of options that hold the same GPUs of one type, and nothing else, as network tiers do where whole
gangs fill machines and racks, no optimum has a slower one. What is left are jobs over types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.policies.instance import Instance

if TYPE_CHECKING:
    from apportion.types import Floats, Ints

_APART = 1e-6
"""Least difference of speeds, relative to the faster, that no solver overlooks."""


class FastestOptions(NamedTuple):
    """Jobs by their fastest options.

    Attributes
    ----------
    told
        The jobs over types.
    place
        The fastest option of each type, shape (jobs, types).
    """

    told: Instance
    place: Ints

    @classmethod
    def of(cls, told: Instance) -> FastestOptions | None:
        """Leave out slower options; ``None`` where one may be of use, or is as fast."""
        types, kind = told.capacity.size, told.option_accelerator
        own = np.arange(types)
        if np.array_equal(kind, own):
            return cls(told, np.broadcast_to(own, (told.jobs, types)))
        held, gpus = told.gpus, told.columns["scale_factor"]
        only_gpus = told.solo and not told.alike and set(kind.tolist()) == set(range(types))
        if not (only_gpus and (held == gpus[:, None]).all() and told.usage.sum() == held.sum()):
            return None
        speed = np.where(kind == own[:, None, None], told.throughput, -1.0)
        place, fastest = speed.argmax(axis=2).T, speed.max(axis=2).T
        rivals = (np.maximum((1 - _APART) * fastest, 0.0) < speed.T).sum(axis=0)
        if (rivals > 1).any():
            return None
        columns = told.columns
        return cls(Instance.of_jobs(fastest, gpus, told.capacity, columns=columns), place)

    def spread(self, shares: Floats, options: int) -> Floats:
        """Return shares of the types as shares of the options, shape (jobs, options)."""
        X = np.zeros((len(shares), options))
        np.put_along_axis(X, self.place, shares, axis=1)
        return X
