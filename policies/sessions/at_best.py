"""Room for all: each job runs all the time where it is fastest, and nothing has a price."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.policies.solution import Attempted
from apportion.policies.solving.certificate import make_feasible
from apportion.policies.solving.demands import declared, read_off

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.demands import ReadOff
    from apportion.types import Floats, Ints

_OTHER = 1e-9
"""Part of a number by which another one that is not the same differs."""


class AtBest(NamedTuple):
    """Jobs, or classes of identical ones, each all the time under its fastest option.

    None can make more. So, if there is room for all, this is an optimum of every objective that is
    no worse for more throughput of any job, and a resource more improves nothing: prices are 0. If
    no job is as fast under a second option, all other allocations have less total throughput, for
    which optima are chosen.

    Attributes
    ----------
    told
        The problem, whose rows are the jobs or the classes.
    X
        1 where a row is fastest, else 0; shape (rows, options).
    tied
        Rows without speed, or as fast under two options.
    """

    told: Instance
    X: Floats
    tied: Ints

    @classmethod
    def of(cls, told: Instance) -> AtBest:
        """Find where rows are fastest."""
        fastest = np.maximum.reduce(told.throughput, axis=1, keepdims=True)
        best = (told.throughput >= (1 - _OTHER) * fastest) & (fastest > 0)
        return cls(told, best.astype(float), (np.add.reduce(best, axis=1) != 1).nonzero()[0])

    def fit(self, gpus: Floats) -> bool:
        """Whether there is room for rows that hold so many GPUs each, none of them tied."""
        told = self.told
        if gpus[self.tied].nonzero()[0].size:
            return False
        held = np.bincount(told.option_accelerator, gpus @ self.X, told.capacity.size)
        return not (held > told.capacity).nonzero()[0].size

    def optimum(self, policy: Policy) -> Attempted | None:
        """Return this as the optimum of a policy, if it has no other; there is room for all."""
        read = read_off(policy, self.told)
        return self.attempted(read) if favours_speed(read) else None

    def attempted(
        self, read: ReadOff, there: Ints | slice = slice(None), count: Floats | float = 1.0
    ) -> Attempted:
        """Return the optimum of rows that are there, and fit.

        Parameters
        ----------
        read
            An objective that `favours_speed`.
        there, count
            Which rows are there, and how many jobs each row stands for; all, and one, by default.
        """
        told, X = self.told, np.zeros(self.X.shape)
        X[there] = best = self.X[there]
        throughput, levels, gains = told.throughput[there], read.levels, read.gains
        objective = np.nan
        if levels is not None:
            level = levels.some(there).level((throughput * best).sum(axis=1))
            objective = declared(levels, level)[0]
        elif gains is not None:
            slope = (gains.slope * count)[there]
            objective = float((slope[:, None] * throughput * best).sum()) + gains.constant
        prices = np.zeros(told.capacity.size)
        return Attempted(X, objective, 0.0, prices, {"solver": "all at their best", "changed": 0})


class RoomForAll(NamedTuple):
    """Where the jobs of a problem are at their best, if there is room: see `best_with_room`."""

    told: Instance
    best: AtBest | None

    def is_of(self, told: Instance) -> bool:
        """Whether a problem is posed of the same arrays, but for columns that say nothing of it."""
        last = self.told
        return (
            told.throughput is last.throughput
            and told.capacity is last.capacity
            and told.own_usage is last.own_usage
            and told.columns["scale_factor"] is last.columns["scale_factor"]
        )


def favours_speed(read: ReadOff) -> bool:
    """Whether it is known that no throughput makes an objective worse."""
    levels, gains = read.levels, read.gains
    if levels is not None:
        return read.exact and not levels.constrained
    if gains is None or not read.exact:
        return False
    better = gains.slope if gains.maximised else -gains.slope
    return bool(((better >= 0) & (better < np.inf)).all())


def best_with_room(told: Instance) -> AtBest | None:
    """Let single jobs run where they are fastest, if none is tied and there is room for all."""
    plain, gpus = told.own_usage is None, told.columns["scale_factor"]
    too_many = plain and np.add.reduce(gpus) > np.add.reduce(told.capacity)
    if too_many or not (plain or told.solo):
        return None
    best = AtBest.of(told)
    if best.tied.size:
        return None
    fit = best.fit(gpus) if plain else not (make_feasible(best.X, told) < best.X).any()
    return best if fit else None


def all_at_their_best(policy: Policy, told: Instance) -> Attempted | None:
    """Let single jobs run where they are fastest, whatever they hold beside GPUs.

    Returns
    -------
    Attempted
        ``None`` where there is no room, jobs are tied, or the objective is of another kind.
    """
    best = best_with_room(told)
    return None if best is None else best.optimum(policy)
