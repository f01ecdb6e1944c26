"""Shares of time in place of whole decisions, and branch and bound, by HiGHS.

The relaxation bounds what whole decisions reach. Branch and bound minimises how far a decision lies
above that bound: with dual values y of the rows, and the reduced costs ``r = c - A'y`` of the
columns, that is ::

    r'(x - x at the bound) + sum over rows of |y| * what the row leaves idle

No cost that matters is above the distance of a known decision then. What a job costs that goes
without, which may be a million times any option, is gone, and with it what its rounding hides.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import highspy
import numpy as np
from scipy import sparse

from apportion.errors import InfeasibleError, SolveError
from apportion.policies.core.highs import pass_program, quiet_solver
from apportion.policies.core.unsolvable import no_optimum
from apportion.ties import ranks

if TYPE_CHECKING:
    from typing import Any

    from apportion.policies.whole.statement import WholeProgram
    from apportion.types import Floats


STAYING = 1e-10
"""What it is worth to keep an option, in parts of the largest cost of a unit: of decisions that are
equal but for that, the one is taken in which more jobs keep the option that they have."""
NOISE = 1e-12
"""Part of the largest number up to which a difference is rounding."""
_WHOLE = 1e-7
"""Distance from a whole number up to which a number of an exact vertex is one."""
_MORE, _SAME = 1e-6, 1e-12
"""Part of all capacities that is put to them on trial, and of a bound that is rounding."""
_LARGEST = 1e4
"""Largest cost that HiGHS sees in a search; it counts what is below some 1e-8 as nothing."""
_OPTIONS = {
    "threads": 1,
    "parallel": "off",
    "random_seed": 0,
    "mip_feasibility_tolerance": 1e-8,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}
_INFEASIBLE = {
    highspy.HighsModelStatus.kInfeasible,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,
}


def without_noise(numbers: Floats) -> Floats:
    """Return numbers of which those that differ by rounding only are equal, to about 12 digits."""
    largest = float(np.abs(numbers).max(initial=0.0))
    if largest == 0.0:
        return np.zeros_like(numbers)
    step = 2.0 ** (np.ceil(np.log2(largest)) - 40)
    rank = ranks(numbers, absolute=NOISE * largest, relative=0.0)
    first = np.full(int(rank.max()) + 1, np.inf)
    np.minimum.at(first, rank, numbers)
    return np.asarray((np.rint(first / step) * step)[rank], dtype=float)


@dataclass(frozen=True, eq=False)
class Relaxed:
    """An optimum of the relaxation.

    Attributes
    ----------
    x
        Its point, shape (columns,).
    y
        Dual values of the rows: at most 0 where a row has an upper limit only.
    reduced
        Reduced costs, ``c - A'y``, shape (columns,).
    bound
        Certified bound of the objective as it is minimised.
    """

    x: Floats
    y: Floats
    reduced: Floats
    bound: float

    def is_whole(self, whole: WholeProgram) -> bool:
        """Whether the columns that must be whole numbers are."""
        x = self.x[whole.whole]
        return bool(np.abs(x - np.rint(x)).max(initial=0.0) <= _WHOLE)


def relax(whole: WholeProgram, deadline: float) -> Relaxed:
    """Solve the relaxation.

    Raises
    ------
    InfeasibleError
        If nothing meets the constraints; it names those that cannot hold together.
    SolveError
        If the time is over, the objective is unbounded, or HiGHS fails.
    """
    if not whole.c.size:  # no job can have any option
        if (whole.least > 0).any() or (whole.most < 0).any():
            raise _infeasible(whole)
        return Relaxed(whole.c, np.zeros(whole.most.size), whole.c, whole.offset)
    scale = whole.largest_cost or 1.0
    solver = _solver(whole, whole.c / scale, deadline)
    solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kTimeLimit:
        raise SolveError(
            f"time_limit_s struck while the relaxation of {whole.policy!r} was solved: there is no "
            f"decision yet."
        )
    if status == highspy.HighsModelStatus.kUnbounded:
        raise _no_optimum(whole, "unbounded")
    if status in _INFEASIBLE:
        raise _infeasible(whole)
    if status != highspy.HighsModelStatus.kOptimal:
        word = solver.modelStatusToString(status)
        raise SolveError(f"HiGHS found no optimum of the relaxation of {whole.policy!r} ({word}).")
    x = np.array(solver.getSolution().col_value)
    relaxed = _at_duals(whole, x, np.array(solver.getSolution().row_dual) * scale)
    # With a little more of everything prices are the least where the optimum leaves a choice.
    priced = np.arange(whole.own, whole.priced.stop, dtype=np.int32)
    more = whole.most[priced] * (1 + _MORE)
    solver.changeRowsBounds(priced.size, priced, whole.least[priced], more)
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
        least = _at_duals(whole, x, np.array(solver.getSolution().row_dual) * scale)
        if least.bound >= relaxed.bound - _SAME * abs(relaxed.bound):
            return least
    return relaxed


def _at_duals(whole: WholeProgram, x: Floats, y: Floats) -> Relaxed:
    """Return an optimum with dual values, and the bound that they prove."""
    y = np.where(np.isinf(whole.least), np.minimum(y, 0.0), y)
    reduced = whole.c - whole.A.T @ y
    # Ten times its value bounds a free variable; one about 0 has room as well.
    room = 10 * np.maximum(np.abs(x), 1e-6)
    lower = np.where(np.isfinite(whole.lower), whole.lower, -room)
    upper = np.where(np.isfinite(whole.upper), whole.upper, room)
    bound = whole.offset + float(y @ np.where(y > 0, whole.least, whole.most))
    bound += float(reduced @ np.where(reduced > 0, lower, upper))
    return Relaxed(x, y, reduced, bound)


def _infeasible(whole: WholeProgram) -> SolveError:
    """Name the constraints that cannot hold together."""
    if not whole.p.instance.pinned.any():
        return _no_optimum(whole, "infeasible")
    return InfeasibleError(
        f"No allocation meets the constraints of {whole.policy!r} with the pinned jobs where they "
        f"are."
    )


def _no_optimum(whole: WholeProgram, status: str) -> SolveError:
    return no_optimum(whole.policy, whole.p, whole.objective, whole.constraints, status)


class Found(NamedTuple):
    """What branch and bound found: a decision, a bound of the minimised objective, and if proved.

    `nodes` are those of the search.
    """

    x: Floats
    bound: float
    proved: bool
    nodes: int


def search(
    whole: WholeProgram, relaxed: Relaxed, known: Floats | None, deadline: float, gap: float
) -> Found:
    """Search for the best whole decision by branch and bound.

    The search is repeated from what it found where the costs hid what `gap` asks for.

    Parameters
    ----------
    known
        A decision, if there is one: only what is as good matters then.
    deadline
        Value of the clock at which the search ends.
    gap
        Relative distance from the bound at which it stops.

    Raises
    ------
    InfeasibleError
        If no whole decision meets the constraints.
    SolveError
        If there is no decision at the deadline, or HiGHS fails.
    """
    near, unit = _above_bound(whole, relaxed, known)
    found = _branch_and_bound(near, unit, deadline, gap)
    x = found.x[: whole.c.size]
    hidden = NOISE * unit * x.size > gap * abs(whole.value(x))
    if found.proved and hidden and _slack(whole, relaxed, x) < unit / 100:
        near, unit = _above_bound(whole, relaxed, x)
        found = _branch_and_bound(near, unit, deadline, gap)
    return found._replace(x=found.x[: whole.c.size])


def _slack(whole: WholeProgram, relaxed: Relaxed, known: Floats) -> float:
    """Return what a decision as good as a known one may cost above the bound at most."""
    staying = STAYING * whole.largest_cost * float(whole.upper[whole.stays].sum())
    rounding = STAYING * max(abs(relaxed.bound), whole.largest_cost)
    return whole.value(known) - relaxed.bound + staying + rounding


def _above_bound(
    whole: WholeProgram, relaxed: Relaxed, known: Floats | None
) -> tuple[WholeProgram, float]:
    """State how far above the bound decisions lie; columns of what is idle come last.

    Returns
    -------
    near, unit
        The problem, and its largest cost that matters.
    """
    y, reduced = relaxed.y, relaxed.reduced.copy()
    rows = np.flatnonzero((y < 0) & np.isinf(whole.least))
    upper = whole.upper.copy()
    unit = float(np.abs(reduced[upper > whole.lower]).max(initial=0.0))
    idle = np.full(rows.size, np.inf)
    if known is not None:
        slack = _slack(whole, relaxed, known)
        far = whole.whole & (whole.lower == 0) & (reduced > slack)
        upper[far], unit, idle = 0.0, min(slack, unit), slack / -y[rows]
    size = whole.c.size + rows.size
    place = sparse.csc_array(
        (np.ones(rows.size), (rows, np.arange(rows.size))), shape=(y.size, rows.size)
    )
    fixed, least = np.append(upper <= whole.lower, np.zeros(rows.size, dtype=bool)), whole.least
    c = np.append(reduced, -y[rows])
    offset = whole.offset + float(y @ np.where(y > 0, least, whole.most))
    lower = np.append(whole.lower, np.zeros(rows.size))
    offset += float(c[fixed] @ lower[fixed])
    c[fixed] = 0.0
    least = whole.least.copy()
    least[rows] = whole.most[rows]
    near = replace(
        whole,
        c=without_noise(c),
        offset=offset,
        A=sparse.csc_array(sparse.hstack([whole.A, place])),
        least=least,
        lower=lower,
        upper=np.append(upper, idle),
        whole=np.append(whole.whole, np.zeros(size - whole.c.size, dtype=bool)),
    )
    return near, unit or 1.0


def _branch_and_bound(near: WholeProgram, unit: float, deadline: float, gap: float) -> Found:
    """Minimise the distance from the bound; to keep an option is worth `STAYING` of the unit."""
    scale = unit / _LARGEST
    solver = _solver(near, near.c / scale - STAYING * _LARGEST * near.stays, deadline)
    solver.setOptionValue("mip_rel_gap", gap)
    solver.setOptionValue("mip_abs_gap", gap * abs(near.offset) / scale)
    places = np.flatnonzero(near.whole).astype(np.int32)
    kinds = np.full(places.size, int(highspy.HighsVarType.kInteger), dtype=np.uint8)
    solver.changeColsIntegrality(places.size, places, kinds)
    started = time.perf_counter()
    solver.run()
    status, info = solver.getModelStatus(), solver.getInfo()
    if status in _INFEASIBLE:
        raise InfeasibleError(
            f"No whole decision meets the constraints of {near.policy!r}, though shares of time "
            f"would."
        )
    timeout = status == highspy.HighsModelStatus.kTimeLimit
    if info.primal_solution_status != 2:  # HiGHS's word for a point that meets all constraints
        word = str(solver.modelStatusToString(status))
        reason = "time_limit_s struck" if timeout else f"HiGHS stopped ({word})"
        spent = time.perf_counter() - started
        raise SolveError(f"{reason} after {spent:.3g} s and {near.policy!r} has no decision yet.")
    x = np.array(solver.getSolution().col_value)
    x[near.whole] = np.rint(x[near.whole])
    bound = info.mip_dual_bound * scale + near.offset
    return Found(x, bound, not timeout, int(info.mip_node_count))


def _solver(whole: WholeProgram, cost: Floats, deadline: float) -> Any:
    """Return a HiGHS that holds a program without its whole numbers, at costs."""
    left_s = max(deadline - time.perf_counter(), 0.0)
    solver = quiet_solver({**_OPTIONS, "time_limit": left_s})
    columns, rows = (whole.lower, whole.upper), (whole.least, whole.most)
    pass_program(solver, cost, whole.A, columns, rows)
    return solver
