"""The largest part of given demands that all jobs can have at once, by either kind of solver.

``max t such that throughput_m >= t * demand_m`` for every job m: what a policy about the worst
off job comes down to at a level of its objective. The limit ``t <= 1`` is left out until all
demands turn out to be met: at the level that is looked for it would be tight together with the
capacities, and the dual values, which are the prices, could then be those of the limit: zero. It
is declared once, in cvxpy, and compiled like any policy. Where every option draws on one resource,
`apportion.policies.solving.worst_off.arrow_share` takes the arrays as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, cast

import cvxpy as cp
import numpy as np

from apportion.errors import SolveError
from apportion.policies.problem import Problem
from apportion.policies.solving.certificate import make_feasible
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.highs import PRIMAL, goes_to_simplex
from apportion.policies.solving.second_stage import (
    choose_among_optima,
    evenness,
    relative_throughput,
)
from apportion.policies.solving.solvers.highs import PersistentHighs

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.instance import Instance
    from apportion.policies.solving.cone import Point
    from apportion.policies.solving.highs import SolverName
    from apportion.types import Floats


HAIR = 1e-9
"""How far, relatively, the share may give way when what is left is spent."""
NO_LIMIT = 2.0
"""A share of the demands that is out of reach where it counts, so that no limit takes its price."""


@dataclass(frozen=True, eq=False)
class SharePoint:
    """An optimum.

    Attributes
    ----------
    X
        Feasible shares of time, shape (rows, options).
    share
        Part of every demand that `X` meets, at most 1.
    bound
        What no allocation can exceed, by the dual values, at most 1.
    dual
        Dual value of each job's demand, scaled to ``dual @ demand = 1``; shape (jobs,).
    prices
        What one more unit of each resource adds to the share, shape (resources,); zero where more
        than all demands could be met, so that no resource is short.
    solver
        Name of the solver.
    """

    X: Floats
    share: float
    bound: float
    dual: Floats
    prices: Floats
    solver: str


class CommonShare(Protocol):
    """A way to find the largest share, and to choose among the allocations that reach it."""

    def optimum(self, demand: Floats, *, alone: bool = True) -> SharePoint:
        """Find the largest share of `demand`.

        Parameters
        ----------
        demand
            Steps/s, shape (jobs,).
        alone
            Whether no level is better, as one job demands all that it could have by itself. If all
            demands can be met then, no resource needs a price. At other levels no more can be met,
            but for rounding errors.
        """
        ...

    def chosen(self) -> Floats:
        """Spend what the last optimum leaves, then share it evenly; shape (rows, options)."""
        ...

    def prices_at_kink(self, rise: Callable[[], Floats]) -> Floats | None:
        """Choose among the prices of the last optimum, if there are several.

        Parameters
        ----------
        rise
            Returns how fast the demands rise with the level, shape (jobs,); the prices are what
            one more unit of each resource adds to the level.
        """
        ...


class DeclaredShare:
    """The problem in cvxpy, compiled once; other demands only change one column of it."""

    def __init__(self, instance: Instance, solver: SolverName) -> None:
        self._p = Problem(instance)
        self._solver: SolverName = solver
        self._share = cp.Variable(name="share")
        self._compiled: Compiled | None = None
        self._highs: PersistentHighs | None = None

    def optimum(self, demand: Floats, *, alone: bool = True) -> SharePoint:
        """Find the largest share."""
        self._demand = demand
        point = self._optimum(NO_LIMIT)
        return self._optimum(1.0) if alone and point.bound >= 1.0 - HAIR else point

    def _optimum(self, limit: float) -> SharePoint:
        """Find the largest share up to a limit."""
        demand = self._demand
        self._compiled = self._at(demand, limit)
        self._first = self._solved(self._compiled)
        dual = np.maximum(self._compiled.duals(self._met.id, self._first), 0.0)
        scale = float(dual @ demand) or 1.0
        bound = -self._compiled.bound(self._first)
        self._target = demand * min(bound, 1.0)
        X = meeting(self._p.instance, self._compiled.X_at(self._first), self._target)
        prices = self._compiled.prices(self._first) / scale
        return SharePoint(
            X=X,
            share=reached(self._p.instance, X, demand),
            bound=bound,
            dual=dual / scale,
            prices=prices if limit > 1.0 else np.zeros_like(prices),
            solver=self._first.solver,
        )

    def _solved(self, compiled: Compiled) -> Point:
        """Solve by the simplex method, which goes on from the level before; or by any other."""
        if goes_to_simplex(compiled.program, self._solver):
            try:
                if self._highs is None:
                    self._highs = PersistentHighs(compiled.program, presolve=False, options=PRIMAL)
                else:
                    self._highs.update(compiled.program)
                point = self._highs.solve_surely()
            except SolveError:  # numbers that it does not take
                self._highs = None
            else:
                if point.status == "optimal":
                    return point
        return compiled.optimum(self._solver, "a common share of all demands")

    def chosen(self) -> Floats:
        """Choose as `apportion.policies.solving.second_stage` says."""
        compiled, instance = cast("Compiled", self._compiled), self._p.instance
        gain = compiled.over_columns(relative_throughput(instance))
        squares = compiled.over_columns(evenness(instance), power=2)
        first = self._first
        program = compiled.program if first.left_in is None else first.left_in.program  # the same
        point = choose_among_optima(program, first, gain, squares, self._solver)
        return meeting(instance, compiled.X_at(point), self._target)

    def prices_at_kink(self, rise: Callable[[], Floats]) -> Floats | None:
        """Choose as `apportion.policies.solving.solvers.kinks` says."""
        compiled = cast("Compiled", self._compiled)
        return compiled.least_prices(self._first, lambda: self._at(rise(), NO_LIMIT).program)

    def _at(self, demand: Floats, limit: float) -> Compiled:
        """Compile the problem, or write other demands into what is compiled."""
        if self._compiled is None:
            self._met = self._p.throughput - cp.multiply(demand, self._share) >= 0
            self._limit = self._share <= NO_LIMIT
            return Compiled.of(self._p, cp.Maximize(self._share), [self._met, self._limit])
        compiled = self._compiled
        program = compiled.program
        place, column = program.rows[self._met.id], program.columns[self._share.id]
        A = program.A.copy()
        entries = np.arange(A.indptr[column], A.indptr[column + 1])
        entries = entries[(A.indices[entries] >= place.start) & (A.indices[entries] < place.stop)]
        rows = A.indices[entries]
        wanted = demand[rows - place.start]
        A.data[entries] = wanted * compiled.row[rows] * compiled.column[column]
        b, at_most = program.b.copy(), program.rows[self._limit.id].start
        b[at_most] = limit * compiled.row[at_most]
        return replace(compiled, program=replace(program, A=A, b=b))


def meeting(instance: Instance, X: Floats, demand: Floats) -> Floats:
    """Make up for the rounding errors by which jobs miss their demands; small demands need it.

    Where rows are combinations of jobs they stay: what one job lacks would be the others', too.
    """
    if not instance.solo:
        return X
    made = np.einsum("mj,mj->m", instance.throughput, X)
    short = (made > 0) & (made < demand)
    factor = np.divide(demand, made, out=np.ones_like(made), where=short)
    return make_feasible(X * factor[:, None], instance) if short.any() else X


def reached(instance: Instance, X: Floats, demand: Floats) -> float:
    """Part of every demand that an allocation meets."""
    wanted = demand > 0
    made = np.einsum("mj,mj->m", instance.throughput, X[instance.member_row])
    if not instance.solo:
        made *= instance.member_share
        made = np.bincount(instance.member_job, weights=made, minlength=instance.jobs)
    return float((made[wanted] / demand[wanted]).min(initial=np.inf))
