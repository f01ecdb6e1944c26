"""One round of gangs on free GPUs, in the order of Dally's network priority."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.policies import Policy, Problem
from apportion.ties import ranks

if TYPE_CHECKING:
    from apportion.types import Floats, Ints


def satisfaction(p: Problem) -> Floats:
    """Tell how many (type, tier) on which a job can run it likes no better than each option.

    Tighter tiers are liked better on a cluster of one type. Of several types faster options are
    liked better, then tighter tiers, then the types in their order. Options that are one (type,
    tier) at different places are the same to a job.

    Returns
    -------
    ndarray
        Whole numbers, 1 for what a job likes least, 0 where it cannot run; shape (rows, options).
    """
    instance = p.instance
    runs, kind, tier = instance.can_run, instance.option_accelerator, p.tier
    pairs, pair = np.unique(np.column_stack([kind, tier]), axis=0, return_inverse=True)
    pair = pair.reshape(-1)
    speed = np.zeros((instance.rows, len(pairs)))
    for place in range(len(pairs)):
        speed[:, place] = np.where(runs, p.speed, 0.0)[:, pair == place].max(axis=1, initial=0.0)
    slowness = np.zeros(speed.shape, dtype=np.intp)
    if instance.accelerators > 1:
        slowness = ranks(-speed.ravel()).reshape(speed.shape)
    keys = (pairs[:, 0], pairs[:, 1], slowness, speed <= 0)
    order = np.lexsort(tuple(np.broadcast_to(key, speed.shape) for key in keys), axis=1)
    place_of = np.empty_like(order)
    np.put_along_axis(place_of, order, np.arange(len(pairs))[None, :], axis=1)
    liked = (speed > 0).sum(axis=1, keepdims=True) - place_of
    return np.where(runs, liked[:, pair], 0).astype(float)


@dataclass(frozen=True)
class DallyRound(Policy):
    r"""Serve waiting jobs in the order of their network priority, each as well as can be.

    .. math:: \operatorname{lex\,max}_X \Big( \sum_o s_{io} X_{io} \Big)_{i\ \text{by
        priority}},\ X \in \{0, 1\}

    The problem, s being how many of its eligible (type, tier) a job likes no better than this one::

        lex max over whole X of (sum over options of s[j, :] X[j, :], for j in order of priority)

    The order is that of Dally: the jobs that lost most time to the network first, of equals who
    waits longest, then who came first. A job prefers the machine to the rack to the network; where
    there are several accelerator types, the faster option. Options that its delay timers do not
    allow yet have a speed of 0. Algorithm 1 of Dally takes the first job's
    best fit, then the second's, and never looks back; so it is this decision, but where a best fit
    stands in the way of a job that comes later.
    """

    name = "dally_round"
    source = "Dally (arXiv 2401.16492, 2024), Algorithm 1"
    integral = True
    places_gangs = True
    columns = ("network_priority", "waited_s", "order")
    traits = frozenset({"tells_identical_jobs_apart"})

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def objective(self, p: Problem) -> cp.Maximize:
        """State how well jobs are served; `serves_in_order` makes the earlier ones count first."""
        return cp.Maximize(p.total(cp.sum(cp.multiply(satisfaction(p), p.X), axis=1)))

    def serves_in_order(self, p: Problem) -> Ints:
        """Return the jobs in the order in which they are served."""
        keys = (p.column("network_priority"), -p.column("waited_s"))
        # Both are sums of seconds: what differs by rounding is a tie, and the next key decides.
        urgency, wait = (ranks(key, absolute=1e-9) for key in keys)
        return np.lexsort((p.column("order"), wait, urgency))
