"""The relaxation of a problem over whole numbers: its optimum bounds what whole decisions reach."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InfeasibleError, SolveError
from apportion.policies.solving.certificate import Bounds, dual_bound
from apportion.policies.solving.cone import equilibrate
from apportion.policies.solving.highs import optimise
from apportion.policies.solving.solvers.highs import PersistentHighs
from apportion.policies.solving.solvers.kinks import Priced, least_duals
from apportion.policies.solving.whole.branch_and_bound import STAYING
from apportion.policies.solving.whole.program import without_noise

if TYPE_CHECKING:
    from apportion.policies.solving.cone import Point
    from apportion.policies.solving.whole.program import WholeProgram
    from apportion.types import Floats


_ROUNDING = 1e-10
"""Part of a bound that rounding may amount to."""
DWARFED = 1e-3
"""Part of the largest cost below which costs are too small to be told apart well."""
_WHOLE = 1e-7
"""Distance from a whole number up to which a number of an exact vertex is one."""


@dataclass(frozen=True, eq=False)
class Relaxed:
    """An optimum of the relaxation.

    Attributes
    ----------
    x
        Its point, over the columns of the program.
    bound
        Certified bound of the objective as it is minimised.
    prices
        What one more unit of each resource would improve the relaxation by, shape (resources,).
    reduced
        Least by which the minimised objective rises for a unit of each column, shape (columns,).
    dual
        Dual values of the rows, but for those that say ``z >= 0``, shape (rows,).
    whole
        Whether the columns that must be whole numbers are.
    """

    x: Floats
    bound: float
    prices: Floats
    reduced: Floats
    dual: Floats
    whole: bool

    def narrowed(self, whole: WholeProgram, slack: float) -> WholeProgram:
        """Leave out the cells of which a unit costs more than `slack` above the bound."""
        upper, k = whole.upper.copy(), whole.cells.size
        upper[:k][(self.reduced[:k] > slack) & (whole.lower[:k] == 0)] = 0.0
        return replace(whole, upper=upper)

    def settled(self, whole: WholeProgram, known: Floats) -> WholeProgram | None:
        """Take what is the same in all decisions as good as a known one out of the costs.

        Where an idle unit of a job costs more than `slack`, the job has none: its row is an
        equality, and that row times its dual value may be added to the costs. Costs of jobs that
        go without, which may be a million times those of any option, are gone then, and with them
        what their rounding hides. ``None`` where that leaves costs of the same size.
        """
        if not whole.p.instance.solo:
            return None
        slack, program = self.slack(whole, known), whole.program
        rows = np.arange(program.b.size - whole.p.instance.jobs, program.b.size)
        rows = rows[self.dual[rows] > slack]
        price = np.zeros(program.b.size)
        price[rows] = self.dual[rows]
        narrow = self.narrowed(whole, slack)
        costs = whole.costs + program.A.T @ price
        told_apart, matters = costs.copy(), narrow.upper > narrow.lower
        told_apart[matters] = without_noise(costs[matters])
        equality = program.equality.copy()
        equality[rows] = True
        offset = program.offset - float(price @ program.b)
        smaller = replace(program, c=told_apart, equality=equality, offset=offset)
        near = replace(narrow, program=smaller, costs=costs)
        return near if near.largest_cost < DWARFED * whole.largest_cost else None

    def slack(self, whole: WholeProgram, known: Floats) -> float:
        """Return what a decision as good as a known one may cost above the bound at most."""
        largest = float(np.abs(whole.program.c).max(initial=0.0))
        staying = STAYING * largest * float(whole.count[whole.stays].sum())
        rounding = _ROUNDING * max(abs(self.bound), largest)
        return whole.program.value(known) - self.bound + staying + rounding

    def leaves_open(self, whole: WholeProgram) -> bool:
        """Whether a job that has another option now than at a whole optimum could keep its own."""
        k = whole.cells.size
        moves = whole.stays & (self.x[:k] < whole.count - _WHOLE)
        return bool((moves & (self.reduced[:k] <= self.slack(whole, self.x))).any())


def relax(whole: WholeProgram, budget_s: float) -> Relaxed:
    """Solve the relaxation.

    Raises
    ------
    InfeasibleError
        If nothing meets the constraints; it names those that cannot hold together.
    SolveError
        If the seconds do not suffice, or no solver finds an optimum.
    """
    program, column, row = equilibrate(whole.program)
    point = PersistentHighs(program).solve(budget_s)
    if "ime limit" in point.status:
        raise SolveError(
            f"time_limit_s struck while the relaxation of {whole.policy!r} was solved: there is no "
            f"decision yet."
        )
    if point.status != "optimal":
        point = optimise(program, "clarabel")
    if point.status != "optimal":
        raise _why(whole, point)
    x = column * point.x
    room = 10 * np.maximum(np.abs(x), 1e-6)
    lower = np.where(np.isfinite(whole.lower), whole.lower, -room) / column
    upper = np.where(np.isfinite(whole.upper), whole.upper, room) / column
    bound = dual_bound(program, point.x, point.y, lower, upper)
    y = row * point.y * program.cost_scale
    others = y.copy()
    others[whole.own : whole.own + whole.cells.size] = 0.0  # those that say z >= 0
    prices = np.zeros(whole.p.instance.capacity.size)
    if whole.program.c.any():  # an objective that nothing changes has no prices
        units = Priced.of(whole.priced, whole.program.b[whole.priced], row)
        least = least_duals(program, point, Bounds.of(program), units)
        dual = (point.y if least is None else least) * row * program.cost_scale
        prices[whole.p.instance.hard] = np.maximum(dual[whole.priced], 0.0)
    reduced = whole.program.c + whole.program.A.T @ others
    must = x[whole.whole]
    is_whole = bool(np.abs(must - np.rint(must)).max(initial=0.0) <= _WHOLE)
    return Relaxed(x, bound, prices, reduced, others, is_whole)


def _why(whole: WholeProgram, point: Point) -> SolveError:
    """Say why there is no optimum."""
    name = repr(whole.policy)
    if point.status == "unbounded":
        return SolveError(f"The objective of {name} is unbounded on this problem.")
    if point.status != "infeasible":
        return SolveError(f"No solver found an optimum of the relaxation ({point.status}).")
    try:
        whole.compiled().optimum("auto", name)
    except InfeasibleError as error:
        return error
    return InfeasibleError(
        f"No allocation meets the constraints of {name} with the pinned jobs where they are."
    )
