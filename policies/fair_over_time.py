"""What entities have had, and have now, comes out even."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from apportion.checks import seconds
from apportion.policies import Policy, Problem


@dataclass(frozen=True)
class FairOverTime(Policy):
    r"""Share between entities such that what each has had, and has now, comes out even.

    .. math:: \max_X \sum_e \log \Big( \frac{u_e}{\omega} + \sum_{i \in e} s_i
        \frac{\mathrm{thr}_i}{\mathrm{fast}_i} \Big)

    The problem::

        max over X of sum over entities of log(used / window + sum of scale_factor * progress)

    ``used`` are the GPU-seconds of the column ``entity_used_s``, of which half are forgotten after
    each `half_life_s`; the progress of a job is its throughput over its fastest, so that a GPU of
    the type on which it is fastest counts as one. What an entity has per `window_s` is as if it
    went on for that long: one that has used more than the others by then has nothing until they
    have caught up. Proportional fairness (Kelly, 1998) over what was used and what is given; the
    decay is that of Slurm's fair-share factor.

    Parameters
    ----------
    half_life_s
        After which half of what was used is forgotten, seconds; infinite for never.
    window_s
        How long what is given now counts for, seconds: the longer, the less the past does.
    """

    name = "fair_over_time"
    source = "Kelly, Maulloo, Tan (1998); decay as in Slurm's multifactor priority"
    columns = ("entity", "entity_used_s")

    heterogeneity_aware: bool = True
    half_life_s: float = 86_400.0
    window_s: float = 21_600.0

    def __post_init__(self) -> None:
        """Check switches and lengths of time."""
        super().__post_init__()
        seconds("half_life_s", self.half_life_s, strict=True, infinite=True)
        seconds("window_s", self.window_s, strict=True)

    def objective(self, p: Problem) -> cp.Maximize:
        """State the sum of logarithms of what entities have had and have."""
        entity = p.column("entity").astype(int)
        here = np.unique(entity)
        member = here[:, None] == entity
        used_s = np.where(member, p.column("entity_used_s"), 0.0).max(axis=1)
        progress = cp.multiply(p.scale_factor / p.fastest_throughput, p.throughput)
        gpus = (member * p.count) @ progress
        return cp.Maximize(cp.sum(cp.log(used_s / self.window_s + gpus)))
