"""A policy's problem over whole numbers, in arrays: what every way to solve it begins with.

Columns are the units of a row that have an option, ``z = count * X``, of which only those are there
that can be more than zero; behind them come the variables of the policy and of cvxpy.

A search begins from what holds now, or from what lies near a point that is none of its decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.policies.solving.compiled import Compiled
from apportion.ties import ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.base import Policy
    from apportion.policies.problem import Problem
    from apportion.policies.solving.cone import ConeProgram
    from apportion.types import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class WholeProgram:
    """A problem over whole numbers.

    Attributes
    ----------
    policy, p
        The policy, and the problem that it saw.
    objective, constraints
        What it stated.
    program
        Its costs, of which those that differ by rounding are equal. Its rows: those of the policy,
        ``z >= 0``, capacities, units of each row.
    costs
        Its costs as stated, shape (columns,).
    cells
        Cell of X, counted row by row, of each of the first columns.
    whole
        Which columns are whole numbers.
    lower, upper
        Bounds of the columns.
    own, priced
        Number of rows of the policy; the rows that are capacities.
    """

    policy: Policy
    p: Problem
    objective: cp.Maximize | cp.Minimize
    constraints: Sequence[cp.Constraint]
    program: ConeProgram
    costs: Floats
    cells: Ints
    whole: Bools
    lower: Floats
    upper: Floats
    own: int
    priced: slice

    @property
    def maximises(self) -> bool:
        """Whether the declared objective is maximised."""
        return isinstance(self.objective, cp.Maximize)

    @property
    def separable(self) -> bool:
        """Whether the objective is a sum of a value for each cell, without other constraints."""
        return self.own == 0 and self.program.c.size == self.cells.size and not self.constraints

    @property
    def row_of_cell(self) -> Ints:
        """Row of X of each of the first columns."""
        return self.cells // self.p.instance.options

    @property
    def count(self) -> Floats:
        """Units of the row of each of the first columns."""
        return self.p.instance.row_count[self.row_of_cell]

    @property
    def stays(self) -> Bools:
        """Which of the first columns are options that rows have now."""
        return np.asarray(self.p.instance.current.ravel()[self.cells] > 0)

    @property
    def largest_cost(self) -> float:
        """Largest cost of a unit of any column that can be other than zero."""
        return float(np.abs(self.program.c[self.upper > self.lower]).max(initial=0.0))

    def units(self, x: Floats) -> Floats:
        """Units of each row under each option at a point, shape (rows, options)."""
        instance = self.p.instance
        units = np.zeros(instance.rows * instance.options)
        units[self.cells] = x[: self.cells.size]
        return units.reshape(instance.rows, instance.options)

    def evaluate(self, x: Floats) -> float:
        """Return the declared objective at a point, by cvxpy; the variables take its values."""
        p = self.p
        p.X.value = self.units(x) / p.instance.row_count[:, None]
        for variable in self.declared.variables():
            start = self.program.columns.get(variable.id)
            if variable is not p.X and start is not None:
                values = x[start : start + variable.size]
                variable.value = values.reshape(variable.shape, order="F")
        return float(np.asarray(self.objective.args[0].value).item())

    @property
    def declared(self) -> cp.Problem:
        """The cvxpy problem without what holds for every policy."""
        return cp.Problem(self.objective, list(self.constraints))

    def violation(self) -> float:
        """Tell by what part of its numbers a constraint of the policy's own is missed at most.

        The variables hold a point.
        """
        return max((_missed(each) for each in self.constraints), default=0.0)

    def compiled(self) -> Compiled:
        """Compile the relaxation with names for all constraints, to tell which cannot hold."""
        return Compiled.of(self.p, self.objective, self.constraints)


def _missed(constraint: cp.Constraint) -> float:
    """Violation of a constraint, relative to numbers above 1."""
    sides = (np.abs(np.asarray(side.value)).max(initial=0.0) for side in constraint.args)
    return float(np.max(constraint.violation(), initial=0.0)) / max(1.0, *map(float, sides))


NOISE = 1e-12
"""Part of the largest number up to which a difference is rounding."""


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


def likely(whole: WholeProgram, x: Floats) -> Floats:
    """Return a decision that may well break a constraint, over the first columns.

    It is what holds now, if anything does; else the largest cell of each row of one unit at a
    point, and what is whole of the others.
    """
    k = whole.cells.size
    count = whole.count
    if whole.stays.any():
        return np.where(whole.stays, count, 0.0)
    # Solvers miss a whole number by less, which would lose a whole job.
    z = np.floor(x[:k] + 1e-7)
    row = whole.row_of_cell
    largest = np.lexsort((-np.arange(k), x[:k], row))
    last = largest[np.flatnonzero(np.diff(row[largest], append=-1))]
    single = last[count[last] == 1]
    z[np.isin(row, row[single])] = 0.0
    z[single] = 1.0
    return z


def rounded_down(whole: WholeProgram, x: Floats) -> Floats | None:
    """Round a relaxed decision down and give what is left to the best units that still fit.

    Where what holds now is better, that is what is returned.

    Returns
    -------
    x
        ``None`` where the policy has constraints or variables of its own, which rounding may miss.
    """
    if not whole.separable:
        return None
    rounded = _filled(whole, x)
    now = likely(whole, x)
    value = whole.program.value
    # Rounding of sums: amounts and limits are whole numbers, or parts of few digits.
    fits = (whole.program.A @ now <= whole.program.b + 1e-9).all()
    return now if fits and value(now) < value(rounded) else rounded


def _filled(whole: WholeProgram, x: Floats) -> Floats:
    """Round down and fill up."""
    program, k = whole.program, whole.cells.size
    shared = program.A[whole.own + k :].tocsc()
    # As in `likely`.
    z = np.maximum(np.floor(x[:k] + 1e-7), whole.lower[:k])
    left = program.b[whole.own + k :] - shared @ z
    order = np.lexsort((np.arange(k), program.c[:k]))
    starts, rows, amounts = shared.indptr.tolist(), shared.indices, shared.data
    waits = left[whole.priced.stop - whole.priced.start :] > 0
    row = whole.row_of_cell
    if whole.p.instance.solo:
        order = order[waits[row[order]]]
    for cell in order.tolist():
        entries = slice(starts[cell], starts[cell + 1])
        taken = rows[entries]
        # What is left was subtracted step by step, and 0.999999999 is 1.
        more = np.floor((left[taken] / amounts[entries]).min() + 1e-9)
        if more > 0 and program.c[cell] < 0:
            z[cell] += more
            left[taken] -= more * amounts[entries]
    return z
