"""Speeds of gangs whose phases meet on links, under any mechanism; see `CassiniNetwork`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.sim.engine.speeds import Speeds
from apportion.sim.network.cassini import CassiniNetwork, GangLinks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.machines import Layout
    from apportion.mechanism.scheduler import Gangs

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]


class CompatibleSpeeds(Speeds):
    """Steps/s of gangs by the law of the score, see `apportion.sim.engine.speeds.Speeds`.

    ``speed / (2 - score of the gang's worst link)``.

    Parameters
    ----------
    free
        Speeds of gangs that have the links for themselves.
    job_types
        What each job trains, length (jobs,).
    model
        Profiles and Gb/s.
    cluster
        Machines and racks.
    layout
        In which machines and racks devices are.
    """

    def __init__(
        self,
        free: Speeds,
        job_types: Sequence[str],
        model: CassiniNetwork,
        cluster: Cluster,
        layout: Layout,
    ) -> None:
        self._free, self._job_types, self._layout = free, job_types, layout
        self._shifted = model.shifted
        self._links = GangLinks(model, cluster)

    def rates(self, gangs: Gangs, there: Bools | None = None) -> Floats:
        """Return the steps/s of every line, shape (lines,)."""
        free = self._free.rates(gangs, there)
        jobs_of: dict[Any, list[int]] = {}
        trained: dict[int, tuple[str, int]] = {}
        capacities: dict[Any, float] = {}
        for line, (job, held) in enumerate(zip(map(int, gangs.job), gangs.devices, strict=True)):
            if there is not None and not there[line]:
                continue
            own = self._links.network.profiles.get(self._job_types[job])
            if own is not None and not own.phases:
                continue  # who sends nothing waits for nobody
            kind, where = held[0], self._layout.placement(held)
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
