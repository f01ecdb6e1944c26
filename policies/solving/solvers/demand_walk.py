"""A walk over the prices of types at which jobs that must make so much fill the types.

What all jobs choose (`demand_choices`) is linear between *ties*: prices at which a point of a job's
hull lies on the line between two others, or an edge costs what it gains. The walk is the simplex
method on the dual of ::

    max over x, t of t or, at a given level t, of sum of value * speed * x
    such that  sum of speed * x >= demand(t) and sum of x <= 1 for each job,
               sum of gpus * x <= capacity of each type,  x >= 0

Any prices are a place to begin; those of a moment ago are near. All jobs of a tie are one: how much
of their time goes to its other side is shared evenly in the end.
"""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack

from apportion.policies.solving.solvers.demand_end import DemandEnd
from apportion.policies.solving.solvers.demand_ties import ALIKE, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.solving.solvers.demand_end import Mixed
    from apportion.policies.solving.solvers.demand_ties import DemandTie
    from apportion.types import Floats

_STEPS, _ROOT_STEPS = 60, 50
_MISSED = 1e-10
"""By how much a share of a tie, or of a type, may be below nothing or above all."""
_LEVEL = 1e-11
"""Slopes below it are none."""
_STILL, _NEAR_ROOT = 1e-14, 1e-8
"""Part of a level by which it moves for rounding only, and by which one more step is the last."""


class DemandWalk(DemandEnd):
    """Prices, what each job takes at them, and as many ties as there are types.

    Beside ties of jobs there are the level, if it is to be found; a type of price 0, which need not
    be full; and, before the walk has come to these, a price held where it began.

    Attributes
    ----------
    level
        The level, once it is found.
    unfinished
        Whether a walk was too long: the next one may go on from where it came to.
    """

    level, unfinished = np.nan, False

    def fill(self, demand: Floats, near: Floats, ties: list[DemandTie]) -> bool:
        """Fill the types at given demands with what is worth most.

        Parameters
        ----------
        demand
            Throughput that each job must make, shape (jobs,).
        near, ties
            Prices and ties to begin at.

        Returns
        -------
        bool
            Whether it came to an end; it does not if the demands cannot be met.
        """
        self._demanding(demand)
        return self._run(near, ties)

    def rise(
        self,
        asked: Callable[[float], tuple[Floats, Floats]],
        levels: tuple[float, float],
        near: Floats,
        ties: list[DemandTie],
        *,
        maximised: bool,
    ) -> bool:
        """Find the best level of which all demands can be met; tell whether it was found.

        Parameters
        ----------
        asked
            Throughput that jobs must make at a level, and how fast that grows as it gets better.
        levels
            A level to begin at, and one that none is better than.
        near, ties
            Prices and ties to begin at.
        maximised
            Whether a level is better the larger it is; demands are in proportion to it then.
        """
        self._asked = asked
        self.level, self._best = levels
        self._sign = 1.0 if maximised else -1.0
        return bool(near.all()) and self._run(near, ties)

    def too_dear(self, demand: Floats, prices: Floats) -> bool:
        """Whether demands cost more at some prices than there is, so that they cannot be met."""
        self._demanding(demand)
        self.prices = prices
        self._choose()
        dearer = -float(self._gpus @ self._of_base(self._worths))
        return dearer > (1 + _MISSED) * float(self._capacity @ prices)

    def _to_root(self) -> bool:
        """Go to the level of which the demands cost as much as there is, by Newton's method."""
        budget, left = float(self.prices @ self._capacity), np.inf
        for _ in range(_ROOT_STEPS):
            demand, slope = self._asked(self.level)
            self._demanding(demand)
            self._choose()
            self._grows = self._growing(slope)
            left = budget - float(self.prices @ self._taken())
            moved = self._nearer(left, self._grows)
            if moved <= _STILL:
                return True
            if self._sign < 0 and moved > _NEAR_ROOT:
                self._near_root(budget)
        return abs(left) <= _MISSED * budget

    def _near_root(self, budget: float) -> None:
        """Go near the root with what jobs chose before: steps that look at no other choice."""
        gpus, below, span = self._gpus, self._of_base(self._below), self._of_base(self._span)
        for _ in range(_ROOT_STEPS):
            demand, slope = self._asked(self.level)
            upper = gpus * ((np.minimum(demand / self._top, 1.0) - below) / span)
            taken = self._by_type(self._base, gpus - upper, upper)
            left = budget - float(self.prices @ taken)
            if self._nearer(left, self._growing(slope)) <= _NEAR_ROOT:
                break

    def _nearer(self, left: float, grows: Floats) -> float:
        """Take a step of Newton's method, and return by what part of the level it moved."""
        level = self.level + self._sign * left / float(self.prices @ grows)
        if self._sign * (level - self._best) > 0:
            level = self._best
        moved = abs(level - self.level) / (abs(level) or 1.0)
        if moved > _STILL:
            self.level = level
        return moved

    def _look(self) -> bool:
        """See what is chosen at the prices; False if there is no level that costs as much."""
        if self._valued:
            self._choose()
            return True
        return self._to_root()

    def _run(self, near: Floats, ties: list[DemandTie]) -> bool:
        """Walk from some prices and ties to the best."""
        self.prices = near
        if not (self._look() and self._begin(ties)):
            return False
        for _ in range(_STEPS):
            way = self._way() if self._mixed is None else self._way_from_mixes(self._mixed)
            if way is None:
                return True
            if not (way.any() and self._step(way) and self._look() and self._spread()):
                return False
        self.unfinished = True
        return False

    def _begin(self, ties: list[DemandTie]) -> bool:
        """Keep ties that are some, and types that are free; hold prices in place of the others."""
        types = self._capacity.size
        self._free, self._held = np.flatnonzero(self.prices == 0).tolist(), []
        beside = [self._unit[place] for place in self._free]
        beside += [] if self._valued else [self._grows]
        each = self._per_point(self.prices).tolist()
        unit = max(each)
        self.ties = [  # both sides of what once was a tie are worth the same
            tie
            for tie in ties
            if abs(sum(map(mul, each, tie.toward)) - tie.gain) <= ALIKE * max(unit, tie.value)
        ]
        self._tied = self._sides(self.ties)
        some = np.flatnonzero(self._tied.columns.any(axis=1)).tolist()[: types - len(beside)]
        if len(some) < len(ties):
            self.ties = [self.ties[place] for place in some]
            self._tied = self._sides(self.ties)
        if len(some) + len(beside) < types:
            self._hold(np.array([*beside, *self._tied.columns]))
        return self._fill_types()

    def _hold(self, columns: Floats) -> None:
        """Hold prices that say most about what some columns leave open."""
        matrix = columns.reshape(-1, self._capacity.size).T
        beside = np.linalg.qr(matrix, mode="complete")[0][:, len(columns) :]
        for _ in range(beside.shape[1]):
            place = int((beside**2).sum(axis=1).argmax())
            self._held.append(place)
            away = beside[place] / np.linalg.norm(beside[place])
            beside = beside - np.outer(beside @ away, away)

    def _spread(self) -> bool:
        """Look who is in the ties now, and fill the types."""
        self._tied = self._sides(self.ties)
        return self._fill_types()

    def _fill_types(self) -> bool:
        """Find the shares of ties, of free types and of the level that fill the types."""
        self._mixed = None
        ties, types, jobs = len(self.ties), self._capacity.size, self._tied.job
        if ties > 1 and len({*jobs.tolist()}) < jobs.size:
            return self._mix()  # two ties of one job are more than a range each
        columns = np.zeros((types, types))
        columns[:ties] = self._tied.columns
        for row, place in enumerate((*self._free, *self._held), ties):
            columns[row, place] = 1.0
        if not self._valued:
            columns[-1] = self._grows
        solve = lapack.dgesv  # pyright: ignore[reportAttributeAccessIssue]
        _, _, self._inverse, failed = solve(columns.T, self._unit[:-1])
        self._share = self._inverse @ (self._capacity - self._taken())
        return not failed

    def _leaves(self) -> tuple[int, float] | None:
        """Return what is to be given up, and which way; ``None`` if all shares are in range."""
        share, ties, capacity = self._share.tolist(), len(self.ties), self._capacity.tolist()
        short = [max(-one, one - 1.0) for one in share[:ties]]
        beside, held = share[ties:], share[ties + len(self._free) :]  # the level is the last
        short += [-one / capacity[at] for one, at in zip(beside, self._free, strict=False)]
        short += [abs(one) / capacity[at] for one, at in zip(held, self._held, strict=False)]
        worst = max(range(len(short)), key=short.__getitem__, default=None)
        if worst is None or short[worst] <= _MISSED:
            return None
        return worst, 1.0 if share[worst] < 0 else -1.0

    def _way(self) -> Floats | None:
        """Give up what is out of range, and return the way of the prices; ``None`` at the end."""
        found = self._leaves()
        if found is None:
            return None
        leaves, sign = found
        if leaves < len(self.ties) and sign < 0:
            self._cross(leaves)
        own = [within(tie.points, self._kind.size, self._valued) for tie in self.ties]
        self._even = (self._tied.job, np.array(own)[self._tied.tie]) if own else None
        way = sign * self._inverse[leaves]
        for given_up in (self.ties, self._free, self._held):
            if leaves < len(given_up):
                del given_up[leaves]
                break
            leaves -= len(given_up)
        return np.asarray(way)

    def _way_from_mixes(self, mixed: Mixed) -> Floats | None:
        """Let the jobs that are indifferent take what is least along a way; ``None`` at the end."""
        if mixed.shares is not None:
            return None
        types = [one for one in mixed.kept if isinstance(one, int)]
        self.ties = [one for one in mixed.kept if not isinstance(one, int)]
        self._free, self._held = (
            [one for one in those if one in types] for those in (self._free, self._held)
        )
        jobs = mixed.jobs
        own = mixed.tight[:, self._lower] & mixed.tight[:, self._upper]
        behind = self._of_base(self._worths)[jobs, None] - self._worths[jobs]
        least = np.where(own & (behind <= self._alike), self._costs(mixed.way)[jobs], np.inf)
        self._base[jobs] = least.argmin(axis=1)
        self._even = jobs, own
        return mixed.way

    def _step(self, way: Floats) -> bool:
        """Move the prices away from a tie to the first other one; False if there is none."""
        costs, own_worth = self._costs(way), self._of_base(self._worths)
        gains = self._of_base(costs)[:, None] - costs
        comes = gains > _LEVEL
        comes &= self._meet.take(self._base, axis=0)  # others of the job come no later
        if self._even is not None:
            jobs, own = self._even
            comes[jobs] &= ~own
        cells = comes.ravel().nonzero()[0]
        behind = own_worth.take(cells // self._lower.size) - self._worths.take(cells)
        after = np.maximum(behind, 0.0) / gains.take(cells)
        to_zero = np.full(way.shape, np.inf)
        np.divide(self.prices, -way, out=to_zero, where=way < -_LEVEL)
        to_zero[self._free] = np.inf
        none = int(to_zero.argmin())
        far = min(float(after.min(initial=np.inf)), float(to_zero[none]))
        reaches_zero = to_zero[none] <= far
        if far == np.inf or (reaches_zero and not self._valued):
            return False
        new = None if reaches_zero else self._tie_at(int(cells[after.argmin()]))
        if new is None and not reaches_zero:
            return False
        self.prices = np.maximum(self.prices + far * way, 0.0)
        if new is None:
            self.prices[none] = 0.0
            self._free.append(none)
        else:
            self.ties.append(new)
        return True
