"""The largest common share of given demands, from a program that stays in HiGHS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import SolveError
from apportion.policies.sessions.job_places import Stated
from apportion.policies.solving.certificate import make_feasible
from apportion.policies.solving.second_stage import evenness, relative_throughput
from apportion.policies.solving.worst_off.common_share import (
    HAIR,
    NO_LIMIT,
    SharePoint,
    meeting,
    reached,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.instance import Instance
    from apportion.policies.sessions.job_places import JobPlaces
    from apportion.types import Floats, Ints


class WarmShare:
    """What `DeclaredShare` finds, of jobs that have places in a program; it is a `CommonShare`.

    Parameters
    ----------
    places, place
        The program, and the places of the jobs.
    told
        The jobs.
    least_prices
        Whether the prices are the least, where several are right.
    """

    def __init__(
        self, places: JobPlaces, place: Ints, told: Instance, *, least_prices: bool
    ) -> None:
        self._places, self._place, self._told = places, place, told
        self._least_prices = least_prices

    def optimum(self, demand: Floats, *, alone: bool = True) -> SharePoint:
        """Find the largest share."""
        point = self._optimum(demand, NO_LIMIT)
        return self._optimum(demand, 1.0) if alone and point.bound >= 1.0 - HAIR else point

    def _optimum(self, demand: Floats, limit: float) -> SharePoint:
        """Find the largest share up to a limit."""
        places, told = self._places, self._told
        stated = Stated.of_demands(told, demand, limit)
        if stated is None:
            raise SolveError("the demands lie too far apart for one scale")
        places.hold(self._place, told, stated)
        first = places.solver.solve()
        if first.status != "optimal":
            raise SolveError(f"the problem is {first.status}")
        # A limit that demands miss by less than HiGHS counts would leave the next stage no point.
        self._first = first = places.solver.sharpened(first)
        dual = places.demand_duals(self._place, first.y)
        scale = float(dual @ demand) or 1.0
        bound = -places.stages.bound(first, 1.0)
        self._target = demand * min(bound, 1.0)
        X = self._meeting(first.x)
        prices = places.stages.prices(first.y, places.scales) / scale
        return SharePoint(
            X=X,
            share=reached(told, X, demand),
            bound=bound,
            dual=dual / scale,
            prices=prices if limit > 1.0 else np.zeros_like(prices),
            solver=first.solver,
        )

    def _meeting(self, x: Floats) -> Floats:
        X = make_feasible(self._places.shares(self._place, x), self._told)
        return meeting(self._told, X, self._target)

    def chosen(self) -> Floats:
        """Choose as `apportion.policies.solving.second_stage` says."""
        places, first = self._places, self._first
        if first.unique:
            return self._meeting(first.x)
        costs = relative_throughput(self._told), evenness(self._told)
        gain, squares = (places.over_columns(self._place, each) for each in costs)
        return self._meeting(places.stages.choose(first, gain, squares).x)

    def prices_at_kink(self, rise: Callable[[], Floats]) -> Floats | None:
        """Choose as `apportion.policies.solving.solvers.kinks` says, if that is asked for."""
        if not self._least_prices:
            return None
        places, capacity = self._places, self._told.capacity
        return places.stages.least_prices(
            self._first,
            places.scales,
            capacity,
            lambda: places.with_demands(self._place, rise()),
        )
