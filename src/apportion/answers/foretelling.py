"""When jobs of a state start and end in many futures, by one policy on one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.answers.drawn_futures import ZERO_S, Futures
from apportion.mechanism.batch.scheduler import BatchScheduler
from apportion.sim.carried_on import carried_on
from apportion.sim.deciders import get_decider

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.answers.hindsight import Moment
    from apportion.answers.history import History
    from apportion.answers.state import ClusterState
    from apportion.cluster import Cluster
    from apportion.mechanism.own import Decides
    from apportion.sim.deciders import AnyDecider
    from apportion.types import Floats

_FREE = {"preemption_overhead_seconds": 0.0}
"""Settings under which nothing but the queue counts."""


class Foretelling:
    """Draws futures of states of one log; what it foretold of earlier moments it remembers.

    Parameters
    ----------
    policy, settings
        As for `apportion.simulate`.
    cluster
        Where jobs run.
    horizon_s
        For how long jobs come later.
    seed
        Of all draws.

    Attributes
    ----------
    alone
        Whether a future is a queue alone (`apportion.mechanism.batch.alone`); if not, it is
        simulated (`apportion.sim.carried_on`), which takes far longer.
    """

    def __init__(
        self,
        policy: str | AnyDecider | Decides,
        cluster: Cluster,
        horizon_s: float,
        seed: int,
        settings: Mapping[str, Any],
    ) -> None:
        self.cluster, self.seed = cluster, seed
        self._decider, self._settings = get_decider(policy), settings
        self._horizon_s = horizon_s
        own = type(self._decider) is BatchScheduler and self._decider.order is None
        self.alone = own and all(_FREE.get(name) == each for name, each in settings.items())
        self._told: dict[tuple[int, bytes], tuple[Floats, Floats]] = {}

    def __call__(self, state: ClusterState, history: History, count: int) -> tuple[Floats, Floats]:
        """Return starts and ends in the clock of the state, each of shape (jobs, futures)."""
        reads = getattr(self._decider, "columns", ())
        futures = Futures(state, history, self.cluster, reads, self._horizon_s)
        starts, ends = np.full((2, len(state.jobs), count), np.nan)
        # Of moments apart: what is rare in the futures of one is to be rare in those of another.
        rngs = np.random.default_rng([self.seed, history.gpus.size]).spawn(count)
        for future, rng in enumerate(rngs):
            drawn = futures.draw(rng)
            if self.alone:
                began_s = futures.in_queue(self._decider, *drawn)
                starts[futures.order, future] = began_s
                ends[futures.order, future] = began_s + drawn[0]
                continue
            workload, begun = futures.workload(*drawn)
            run = carried_on(
                self._decider,
                *(workload, self.cluster, ZERO_S, begun),
                seed=self.seed,
                **self._settings,
            )
            jobs = run.jobs.loc[workload.jobs.index[: futures.order.size]]
            starts[futures.order, future] = jobs["start_s"] - ZERO_S
            ends[futures.order, future] = jobs["completion_s"] - ZERO_S
        starts, ends = starts + state.now_s, ends + state.now_s
        here = (state.jobs["state"] == "running").to_numpy()
        starts[here] = state.jobs["start_s"].to_numpy()[here, None]
        return starts, ends

    def remembered(self, moment: Moment, count: int) -> tuple[Floats, Floats]:
        """Return the same of an earlier moment, which is foretold once."""
        key = count, moment.key
        if key not in self._told:
            self._told[key] = self(moment.state(), moment.history(), count)
        return self._told[key]
