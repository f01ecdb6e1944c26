"""The worst off job without a program: what all must make is bought at prices.

At the best level that a job could have by itself, either all demands can be met, and what is left
is spent where it is worth most; or they cannot, and the level is the one of which the demands cost
what there is, at the prices at which they cost most (`DemandWalk`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.policies.solution import Attempted
from apportion.policies.solving.certificate import make_feasible, relative_gap
from apportion.policies.solving.demands import declared
from apportion.policies.solving.worst_off.buyers import Buyers

if TYPE_CHECKING:
    from apportion.policies.instance import Instance
    from apportion.policies.solving.solvers.demand_ties import DemandTie
    from apportion.policies.solving.solvers.demand_walk import DemandWalk
    from apportion.policies.solving.worst_off.declared_levels import Levels
    from apportion.types import Floats

_HAIR = 1e-9
"""Part of a level by which another one is the same."""
_MOST_WAITING = 15
"""Events after which a walk is tried again, however often it came to nothing."""


@dataclass
class LastEnd:
    """Where the last walk of its kind ended.

    Attributes
    ----------
    prices, ties
        Of the types, and ties of jobs at them.
    failed, wait
        Times in a row that nothing was found, and times that it is not to be tried again.
    """

    prices: Floats
    ties: list[DemandTie] = field(default_factory=list)
    failed: int = 0
    wait: int = 0

    def waits(self) -> bool:
        """Whether a walk is not to be tried this time."""
        self.wait = max(self.wait - 1, -1)
        return self.wait >= 0

    def ended(self, walk: DemandWalk) -> None:
        """Begin there the next time."""
        self.prices, self.ties = walk.prices, walk.ties

    def came(self, *, found: bool) -> None:
        """Wait the longer the more often nothing was found."""
        self.failed = 0 if found else self.failed + 1
        self.wait = min(2**self.failed - 1, _MOST_WAITING)


@dataclass
class LastDemands:
    """Where the last walks over prices ended; the next ones begin there.

    Attributes
    ----------
    spent, bought
        The last walk at a level that a job has by itself, and the last to a level.
    level
        The level that the last came to.
    short
        Whether it came to that when it was asked last.
    """

    spent: LastEnd = field(default_factory=lambda: LastEnd(np.zeros(0)))
    bought: LastEnd = field(default_factory=lambda: LastEnd(np.zeros(0)))
    level: float = np.nan
    short: bool = False

    def freed(self) -> None:
        """Note that nothing had a price, as there was room for all."""
        self.spent, self.short = LastEnd(np.zeros(self.spent.prices.size)), False


class Met(NamedTuple):
    """Demands that are met.

    Attributes
    ----------
    shares
        Of time, shape (jobs, options); rounding errors may take them past a limit.
    bound
        What no level is better than.
    prices
        By how much one more GPU of each type would improve the level, shape (types,).
    """

    shares: Floats
    bound: float
    prices: Floats


def meet(buyers: Buyers, levels: Levels, last: LastDemands, *, least: bool) -> Met | None:
    """Meet the demands of the best level, and spend what is left.

    Parameters
    ----------
    buyers, levels
        The jobs, and the levels of an objective about the worst off of them.
    last
        Where to begin; it takes where this ends.
    least
        Whether prices are to be the least where several are right.

    Returns
    -------
    Met
        ``None`` where a walk does not end, two choices cost nearly the same, or, if the least
        prices are wanted, several may be right.
    """
    alone, types = levels.level(buyers.top), buyers.capacity.size
    if not 0 < alone < np.inf:
        return None
    if last.spent.prices.size != types:
        vars(last).update(vars(LastDemands(LastEnd(np.zeros(types)), LastEnd(np.ones(types)))))
    walk = buyers.walk() if last.short else None
    if walk is None or not _too_dear(walk, levels, last, alone):
        if last.spent.waits():
            return None
        met, walk = _spent(buyers, levels, last, alone), None
        if not last.short:
            last.spent.came(found=met is not None)
            return met
    if last.bought.waits():
        return None
    if walk is None:
        _too_dear(walk := buyers.walk(), levels, last, alone)
    met = _bought(buyers, walk, levels, last, alone, least)
    last.bought.came(found=met is not None)
    return met


def _too_dear(walk: DemandWalk, levels: Levels, last: LastDemands, alone: float) -> bool:
    """Whether the last prices say that the level of one job by itself cannot be met."""
    better = alone - last.level if levels.maximised else last.level - alone
    near = last.level if better > 0 and last.level > 0 else alone
    begin = (near, alone), last.bought.prices
    return walk.too_dear(levels.asked, *begin, maximised=levels.maximised)


def _spent(buyers: Buyers, levels: Levels, last: LastDemands, alone: float) -> Met | None:
    """Meet the demands of a level that a job has by itself, and spend all that is left.

    The prices of the level are 0: nothing would improve it. ``None`` if they cannot be met, which
    ``last.short`` tells, or if that is not known.
    """
    value = buyers.top / (buyers.equal_share() * buyers.gpus)
    walk = buyers.walk(value / value.max())
    filled = walk.fill(levels.demand(alone), last.spent.prices, last.spent.ties)
    last.short = not (filled or walk.unfinished)
    if not last.short:
        last.spent.ended(walk)
    if not (filled and walk.alone(1.0)):
        return None
    return Met(walk.shares(), alone, np.zeros_like(walk.prices))


def _bought(
    buyers: Buyers,
    walk: DemandWalk,
    levels: Levels,
    last: LastDemands,
    alone: float,
    least: bool,
) -> Met | None:
    """Find the level of which the demands cost all that there is."""
    sign = 1.0 if levels.maximised else -1.0
    found = walk.rise(last.bought.ties)
    if found or walk.unfinished:
        last.bought.ended(walk)
    if not found:
        return None
    last.level = walk.level
    if sign * (alone - walk.level) <= _HAIR * alone:
        last.spent.came(found=False)  # it was to be met
        return None
    if least and walk.degenerate:
        return None
    if not walk.alone(float(walk.prices.max())):
        return None
    left, grows = walk.missed(*levels.asked(walk.level))
    return Met(walk.shares(), walk.level + sign * left / grows, walk.prices / grows)


def met_by_jobs(
    told: Instance, levels: Levels, last: LastDemands, *, least: bool
) -> Attempted | None:
    """Meet the demands of single jobs; ``None`` where `meet` does not."""
    buyers = Buyers.of(told)
    met = None if buyers is None else meet(buyers, levels, last, least=least)
    if met is None:
        return None
    X = make_feasible(met.shares, told)
    level = levels.level((told.throughput * X).sum(axis=1))
    objective, slope = declared(levels, level)
    stats = {"solver": "demands", "changed": 0}
    return Attempted(X, objective, relative_gap(level, met.bound), slope * met.prices, stats)
