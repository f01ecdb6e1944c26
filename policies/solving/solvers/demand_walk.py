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

from apportion.policies.solving.solvers.demand_end import DemandEnd
from apportion.policies.solving.solvers.demand_ties import ALIKE, NEAR

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
_STILL = 1e-14
"""Part of a level by which it moves for rounding only."""


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
        self.prices = near
        self._choose()
        return self._compared() and self._run(ties)

    def too_dear(
        self,
        asked: Callable[[float], tuple[Floats, Floats]],
        levels: tuple[float, float],
        near: Floats,
        *,
        maximised: bool,
    ) -> bool:
        """Tell whether demands of a level cost more at some prices than there is: not to be met.

        Parameters
        ----------
        asked
            Throughput that jobs must make at a level, and how fast that grows as it gets better.
        levels
            A level to begin at, and the one that is asked about, which none is better than.
        near
            Prices.
        maximised
            Whether a level is better the larger it is; demands are in proportion to it then.
        """
        self._asked, self.prices = asked, near
        self.level, self._best = levels
        self._sign = 1.0 if maximised else -1.0
        self._demanding(asked(self.level)[0])
        self._choose()
        self._rooted = self._to_root()
        return not self._rooted or self._sign * (self._best - self.level) > NEAR * self._best

    def rise(self, ties: list[DemandTie]) -> bool:
        """Find the best level of which all demands can be met; tell whether it was found.

        From the prices at which it was asked whether they are `too_dear`, and ties there.
        """
        return bool(self.prices.all()) and self._rooted and self._run(ties)

    def _to_root(self) -> bool:
        """Go to the level of which the demands cost as much as there is."""
        budget = float(self.prices @ self._capacity)
        for _ in range(_ROOT_STEPS):
            begun, line = self.level, self._line(self.prices)
            demand = self._newton(
                self._gpus * line[0] / self._top, budget - float(self._gpus @ line[1])
            )
            self._wanted = np.minimum(demand / self._top, 1.0)
            up = self._up()
            # At the best level somebody is fastest all the time, where several edges end.
            same = begun != self._best and up.min() > 0.0 and up.max() <= 1.0
            if same or self.level == begun:
                self._compare(*line)
                return True
            self._demanding(demand)
            self._choose()
        return False

    def _newton(self, weight: Floats, budget: float) -> Floats:
        """Go to the level at which demands, weighted, cost so much, and return what it demands."""
        for _ in range(_ROOT_STEPS):
            demand, self._slope = self._asked(self.level)
            spent = float(weight @ demand)
            left = budget - spent
            if self._sign < 0 < budget:  # spent is one over the level, nearly, and this a line
                left *= spent / budget
            level = self.level + self._sign * left / float(weight @ self._slope)
            if self._sign * (level - self._best) > 0:
                level = self._best
            if abs(level - self.level) <= _STILL * abs(level):
                break
            self.level = level
        return demand

    def _compared(self) -> bool:
        """See what else costs at the prices; False if there is no level that costs as much."""
        if not self._valued:
            return self._to_root()
        self._compare(*self._line(self.prices))
        return True

    def _run(self, ties: list[DemandTie]) -> bool:
        """Walk from prices and ties there to the best."""
        if not self._begin(ties):
            return False
        for _ in range(_STEPS):
            way = self._way() if self._mixed is None else self._way_from_mixes(self._mixed)
            if way is None:
                return True
            if not (way.any() and self._step(way) and self._compared()):
                return False
            self._sides()
            if not self._fill_types():
                return False
        self.unfinished = True
        return False

    def _begin(self, ties: list[DemandTie]) -> bool:
        """Keep ties that are some, and types that are free; hold prices in place of the others."""
        each, types = self._per_point(self.prices).tolist(), self._capacity.size
        self._free = [place for place, price in enumerate(self.prices.tolist()) if price == 0]
        self._held, beside = [], len(self._free) + (not self._valued)
        unit = max(each)
        self.ties = [  # both sides of what once was a tie are worth the same
            tie
            for tie in ties
            if abs(sum(map(mul, each, tie.toward)) - tie.gain) <= ALIKE * max(unit, tie.value)
        ]
        self._sides()
        self._tied = [tied for tied in self._tied if tied.held][: types - beside]
        self.ties = [tied.tie for tied in self._tied]
        if len(self.ties) + beside < types:
            self._hold(np.array(self._columns()))
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

    def _leaves(self) -> tuple[int, float] | None:
        """Return what is to be given up, and which way; ``None`` if all shares are in range."""
        share, ties, capacity = self._share, len(self.ties), self._capacity.tolist()
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
        self._even = self._cells_of_ties()
        self._as_much = self._free_to_make_more()
        if leaves < len(self.ties) and sign < 0:
            self._cross(self._tied[leaves])
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
        jobs, tight, base = mixed.jobs, mixed.tight, self._base
        if not self._valued:
            self._demanding(self._asked(self.level)[0])
        own = tight[:, self._lower] & tight[:, self._upper] & (self._gain[jobs] > -np.inf)
        own[:, self._edges :] &= mixed.freed[:, None]
        base[jobs] = np.where(own, self._costs(mixed.way)[jobs], np.inf).argmin(axis=1)
        self._take(base)
        member, point = tight.nonzero()
        self._even = (jobs[member] * self._kind.size + point).tolist()
        self._as_much = jobs[mixed.freed].tolist()
        return mixed.way

    def _step(self, way: Floats) -> bool:
        """Move the prices away from a tie to the first other one; False if there is none."""
        steep, begin = self._line(way)
        moves = self._beyond(way, steep, begin)
        moves.ravel()[self._even] = 0.0
        after = np.full(moves.shape, np.inf)
        np.divide(self._dear, -moves, out=after, where=moves < -_LEVEL)
        cell = int(after.argmin())
        far: float = after.item(cell)
        first: tuple[int, ...] = divmod(cell, self._kind.size)
        if self._valued:
            far, first = self._first_of_value(steep, far, first)
        far, none = max(far, 0.0), -1
        for place, (price, move) in enumerate(zip(self.prices.tolist(), way.tolist(), strict=True)):
            if move < -_LEVEL and place not in self._free and price / -move <= far:
                far, none = price / -move, place
        if far == np.inf or (none >= 0 and not self._valued):
            return False
        new = self._tie_at(*first) if none < 0 else None
        if new is None and none < 0:
            return False
        self.prices = np.maximum(self.prices + far * way, 0.0)
        if new is None:
            self.prices[none] = 0.0
            self._free.append(none)
        else:
            self.ties.append(new)
        return True

    def _first_of_value(
        self, steep: Floats, far: float, first: tuple[int, ...]
    ) -> tuple[float, tuple[int, ...]]:
        """Return where an edge first costs what it gains, if that is nearer, and whose it is."""
        falls = steep < -_LEVEL
        falls[self._hard] = falls[self._as_much] = False
        after = np.full(steep.shape, np.inf)
        np.divide(self._steep - self._value, -steep, out=after, where=falls)
        job = int(after.argmin())
        return (float(after[job]), (job,)) if after[job] < far else (far, first)
