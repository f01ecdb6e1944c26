"""Speeds of gangs whose phases meet on links, under any mechanism; see `CassiniNetwork`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.sim.network.cassini import CassiniNetwork, GangLinks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.places import Placement
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.engine.speeds import Speeds
    from apportion.sim.network import MemoizedNetwork

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

__all__ = ["CompatibleSpeeds"]


class CompatibleSpeeds:
    """Steps/s of gangs by the law of the score, see `apportion.sim.engine.speeds.NeighbourSpeeds`.

    ``speed / (2 - score of the gang's worst link)``.

    Parameters
    ----------
    free
        Speeds of gangs that have the links for themselves.
    job_types
        What each job trains, length (jobs,).
    model, network
        Profiles and Gb/s, and with them the cluster.
    where
        Returns the placement of a gang.
    """

    def __init__(
        self,
        free: Speeds,
        job_types: Sequence[str],
        model: CassiniNetwork,
        network: MemoizedNetwork,
        where: Callable[[int], Placement],
    ) -> None:
        self._free, self._job_types, self._where = free, job_types, where
        self._shifted = model.shifted
        self._links = GangLinks(model, network.cluster)

    def rates(self, gangs: Gangs) -> Floats:
        """Return the steps/s of every line, shape (lines,)."""
        return self.rates_among(gangs, np.ones(gangs.job.size, dtype=bool))

    def rates_among(self, gangs: Gangs, there: Bools) -> Floats:
        """Return the steps/s of every line while some lines are there no more, shape (lines,)."""
        free = self._free.rates(gangs)
        jobs_of: dict[Any, list[int]] = {}
        trained: dict[int, tuple[str, int]] = {}
        capacities: dict[Any, float] = {}
        lines = zip(gangs.job.tolist(), gangs.gang.tolist(), gangs.option.tolist(), strict=True)
        for line, (job, gang, kind) in enumerate(lines):
            if not there[line]:
                continue
            where = self._where(gang)
            for link, gbps in self._links.links_of(where).items():
                jobs_of.setdefault((kind, link), []).append(line)
                capacities[kind, link] = gbps
            trained[line] = self._job_types[job], sum(gpus for _, _, gpus in where)
        scores = self._links.scores.of_links(jobs_of, trained, capacities, shifted=self._shifted)
        longer = np.ones(free.size)
        for link, score in scores.items():
            for line in jobs_of[link]:
                longer[line] = max(longer[line], 2 - score)
        rates: Floats = free / longer
        return rates
