"""The relaxation of a problem over whole numbers: its optimum bounds what whole decisions reach.

From it branch and bound goes over the few cells that matter: first near the relaxation, then all in
reach. A unit of a cell that the relaxation leaves empty costs at least its reduced cost above the
bound. So a decision that is the best of those over the cells of least reduced cost (the core) is
the best of all, unless cells that were left out cost less than the decision lies above the bound;
then those are let in, and a better decision is looked for that has a unit of one at least (after
Balas and Zemel, "An algorithm for large zero-one knapsack problems", Operations Research 28, 1980).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.errors import InfeasibleError, SolveError
from apportion.policies.solving.certificate import Bounds, dual_bound, relative_gap
from apportion.policies.solving.cone import Point, equilibrate
from apportion.policies.solving.highs import optimise
from apportion.policies.solving.solvers.highs import PersistentHighs
from apportion.policies.solving.solvers.kinks import Priced, least_duals
from apportion.policies.solving.solvers.price_walk import PriceWalk
from apportion.policies.solving.whole.branch_and_bound import STAYING, Found, branch_and_bound
from apportion.policies.solving.whole.program import likely, rounded_down, without_noise

if TYPE_CHECKING:
    from apportion.policies.solving.whole.program import WholeProgram
    from apportion.types import Floats


_ROUNDING = 1e-10
"""Part of a bound that rounding may amount to."""
_MANY, _PART = 1000, 8
"""Options from which on a walk over prices is quicker, which begins with one job in so many."""
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

    def from_bound(self, whole: WholeProgram, known: Floats) -> tuple[WholeProgram, Floats]:
        """State how far above the bound decisions lie that are as good as a known one.

        Each capacity and each job's units, times their dual value, are added to the costs, and what
        they leave idle becomes a column of that cost. No cost that matters is above `slack` then:
        what a job costs that goes without, which may be a million times any option, is gone, and
        with it what its rounding hides.

        Returns
        -------
        near, known
            The problem, columns of what is idle behind those of `whole`, and the decision in it.
        """
        slack, program = self.slack(whole, known), whole.program
        rows = np.arange(whole.priced.start, program.b.size)
        rows = rows[self.dual[rows] > 0]
        narrow, price, held = self.narrowed(whole, slack), self.dual[rows], program.A.tocsr()[rows]
        idle = slack / price
        amounts = np.append(held.data, program.b[rows])
        if (amounts == np.rint(amounts)).all():
            idle = np.floor(idle)
        lower = np.append(whole.lower, np.zeros(rows.size))
        upper = np.append(narrow.upper, idle)
        costs = np.append(whole.costs + held.T @ price, price)
        fixed = upper <= lower
        offset = (
            program.offset - float(price @ program.b[rows]) + float((costs * lower)[fixed].sum())
        )
        costs[fixed] = 0.0
        told_apart = costs.copy()
        told_apart[~fixed] = without_noise(costs[~fixed])
        k, equality = rows.size, program.equality.copy()
        equality[rows] = True
        place = sparse.csc_array((np.ones(k), (rows, np.arange(k))), shape=(program.b.size, k))
        A = sparse.csc_array(sparse.hstack([program.A, place]))
        P = sparse.csc_array((costs.size, costs.size))
        beside = replace(program, P=P, c=told_apart, A=A, equality=equality, offset=offset)
        must = np.append(whole.whole, np.zeros(k, dtype=bool))
        near = replace(narrow, program=beside, costs=costs, whole=must, lower=lower, upper=upper)
        return near, np.append(known, np.clip(program.b[rows] - held @ known, 0.0, idle))

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
    walked = _walked(whole)
    if walked is None:
        point = PersistentHighs(program).solve(budget_s)
    else:
        there = walked[0] / column, walked[1] / (row * program.cost_scale)
        point = Point(*there, "optimal", "prices", unique=True)
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
    # Ten times its value bounds a free variable; one about 0 has room as well.
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


def _walked(whole: WholeProgram) -> tuple[Floats, Floats] | None:
    """Solve the relaxation of many options, which hold one resource each, by a walk over prices.

    It begins at the prices of a few jobs that share as small a part of each resource.

    Returns
    -------
    x, y
        Over the columns and the rows; ``None`` where the problem is of another kind, or small, or
        has several optima.
    """
    program, k, instance = whole.program, whole.cells.size, whole.p.instance
    single = whole.separable and instance.solo and bool((instance.count == 1).all())
    b = program.b[whole.priced]
    if k < _MANY or not (single and (b > 0).all()) or whole.lower.any():
        return None
    held, kind = program.A[whole.priced].tocsc(), np.zeros(instance.options, dtype=np.intp)
    if (np.diff(held.indptr) != 1).any():
        return None
    cells = np.divmod(whole.cells, instance.options)
    kind[cells[1]] = held.indices
    if (kind[cells[1]] != held.indices).any():
        return None
    adds, gpus = np.full(instance.throughput.shape, -np.inf), np.zeros(instance.throughput.shape)
    adds[cells], gpus[cells] = -program.c, held.data
    near = np.zeros(b.size)
    for part in (_PART, 1):
        walk = PriceWalk(adds[::part], gpus[::part], kind, b / part)
        arrived, near = walk.run(near), walk.prices
    if not arrived or walk.degenerate or walk.apart <= _ROUNDING * whole.largest_cost:
        return None
    each = np.maximum((adds - gpus * near[kind]).max(axis=1), 0.0)
    y = np.concatenate([np.zeros(k), near, each])
    y[:k] = np.maximum(program.c + program.A.T @ y, 0.0)
    return np.maximum(walk.shares[cells], 0.0), y


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


_CORE = 120
"""Cells of the core beside one for each row."""


def search(whole: WholeProgram, relaxed: Relaxed, deadline: float, gap: float) -> Found:
    """Search for the best whole decision, beginning with the core.

    Parameters
    ----------
    whole, relaxed
        A program and its relaxation.
    deadline
        Value of the clock at which the search ends.
    gap
        Relative distance from the bound at which it ends too.
    """
    if relaxed.whole:
        start = np.where(whole.whole, np.rint(relaxed.x), relaxed.x)
        slack = relaxed.slack(whole, start)
        return branch_and_bound(
            relaxed.narrowed(whole, slack), start, budget_s=_left(deadline), gap=gap
        )
    best = rounded_down(whole, relaxed.x)
    if best is None:
        start = likely(whole, relaxed.x)
        return branch_and_bound(whole, start, budget_s=_left(deadline), gap=gap)
    return _from_core(whole, relaxed, best, deadline, gap)


def _from_core(
    whole: WholeProgram, relaxed: Relaxed, best: Floats, deadline: float, gap: float
) -> Found:
    """Search the core, then all cells in reach of what was found there."""
    if relative_gap(whole.program.value(best), relaxed.bound) <= gap and not whole.stays.any():
        return Found(best, relaxed.bound, "optimal", 0)
    cells = slice(whole.cells.size)
    reduced = np.sort(relaxed.reduced[cells])
    core = float(reduced[min(reduced.size - 1, whole.p.instance.rows + _CORE)])
    tried = min(core, relaxed.slack(whole, best))
    narrow = relaxed.narrowed(whole, tried)
    inside = (best[cells] <= narrow.upper[cells]).all()
    try:
        known = branch_and_bound(
            narrow, best if inside else None, budget_s=_left(deadline), gap=gap
        )
    except SolveError:
        if _left(deadline) > 0:
            raise
        return Found(best, relaxed.bound, "time_limit", 0)
    value = whole.program.value
    best = known.x if value(known.x) <= value(best) else best
    if (needed := relaxed.slack(whole, best)) <= tried:
        return known._replace(x=best)
    unproved = Found(best, -np.inf, known.status, known.nodes)
    if relative_gap(value(best), relaxed.bound) <= gap or known.status != "optimal":
        return unproved
    wide = relaxed.narrowed(whole, needed)
    beyond = (wide.upper > narrow.upper)[cells]
    try:
        found = branch_and_bound(wide, best, budget_s=_left(deadline), gap=gap, beyond=beyond)
    except SolveError:
        return unproved._replace(status="time_limit")
    best = found.x if value(found.x) <= value(best) else best
    bound, nodes = min(known.bound, found.bound), known.nodes + found.nodes
    return Found(best, bound if found.status == "optimal" else -np.inf, found.status, nodes)


def _left(deadline: float) -> float:
    """Seconds until the clock shows a value."""
    return max(deadline - time.perf_counter(), 0.0)
