"""Training and requests on the same devices: a runtime, and what is believed of gangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.resumable import Resumable

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from apportion.mechanism.inference import RequestFeed
    from apportion.mechanism.scheduler import Decision, GangProgress
    from apportion.sim.elastic.choice import PolicyChoice
    from apportion.sim.elastic.trainers import Trainers
    from apportion.sim.engine import Fluid

__all__ = ["FluidBesideRequests", "Speedups"]


class FluidBesideRequests(Resumable):
    """Lets gangs work while requests come; a stretch is over when a request needs a loaned GPU.

    Requests that get a GPU by themselves concern nobody else, and cost no decision.

    Parameters
    ----------
    fluid
        Lets the gangs work.
    feed
        Lets the requests come.
    """

    kept = ("_fluid",)

    def __init__(self, fluid: Fluid, feed: RequestFeed) -> None:
        self._fluid, self._feed = fluid, feed

    def apply(self, now_s: float, decision: Decision) -> None:
        """Let the gangs of a decision have their devices from now on."""
        self._fluid.apply(now_s, decision)

    def run(
        self, now_s: float, length_s: float, until_s: float, *, to_completion: bool
    ) -> tuple[float, GangProgress]:
        """Let them work for a while, see `apportion.sim.engine.loop.Runtime`."""
        end_s = now_s + min(length_s, self._fluid.first_done_s(now_s))
        stop_s = self._feed.before(end_s)
        if stop_s < end_s:
            _, ran = self._fluid.run(now_s, stop_s - now_s, now_s, to_completion=to_completion)
            return stop_s, ran
        return self._fluid.run(now_s, length_s, until_s, to_completion=to_completion)

    def awaits(self, starts: NDArray[np.bool_]) -> bool:
        """Tell whether requests are to come or be served, or a gang gets ahead by itself."""
        return self._feed.busy or self._fluid.awaits(starts)

    def tables(self, jobs: pd.Index) -> dict[str, pd.DataFrame]:
        """Return what there is to tell of the speeds."""
        return self._fluid.tables(jobs)


class Speedups:
    """Speeds as jobs believe them, over those that the policy has reckoned for a fair share.

    Parameters
    ----------
    trainers
        Know the speeds.
    choice
        Knows those of fair shares.
    relative
        How fast each type is, shape (types,).
    """

    def __init__(
        self, trainers: Trainers, choice: PolicyChoice, relative: NDArray[np.float64]
    ) -> None:
        self._trainers, self._choice, self._relative = trainers, choice, relative

    def speedup(self, job: int, kind: int, gpus: int, nodes: int) -> float:
        """Return the speed of a job on a type over that with a fair share of the GPUs."""
        fair = float(self._choice.fair[job])
        if not fair > 0:
            return 0.0
        return self._trainers.goodput(job, gpus, nodes) * float(self._relative[kind]) / fair
