"""What a policy of whole decisions states, as a linear program over units of jobs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.errors import InputError
from apportion.policies.core.canonical import compile_statement
from apportion.policies.core.unsolvable import check_finite, solvable
from apportion.policies.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.base import Policy
    from apportion.policies.core.canonical import Program
    from apportion.policies.instance import Instance
    from apportion.types import Bools, Floats


@dataclass(frozen=True, eq=False)
class WholeProgram:
    """A linear program, some columns of which take whole numbers only.

    The columns `cells` are the units ``z = count * X``, option by option. The first rows are the
    capacities of hard resources, then come the units of each job, then the policy's own rows.

    Attributes
    ----------
    policy, p
        The policy, and the problem that it saw.
    objective, constraints
        What it stated.
    program
        The program in its canonical form.
    whole
        Which columns are whole numbers.
    """

    policy: Policy
    p: Problem
    objective: cp.Maximize | cp.Minimize
    constraints: Sequence[cp.Constraint]
    program: Program
    whole: Bools

    @property
    def cells(self) -> slice:
        """Columns that are units of rows under options."""
        start = self.program.columns[self.p.X.id]
        return slice(start, start + self.p.X.size)

    @property
    def priced(self) -> slice:
        """Rows that are the capacities of the hard resources."""
        return slice(0, self.p.instance.hard.size)

    @property
    def own(self) -> slice:
        """Rows of the policy."""
        return slice(self.p.instance.hard.size + self.p.instance.jobs, self.program.b.size)

    @property
    def is_sum(self) -> bool:
        """Whether the objective is a sum of a value for each cell, without other constraints."""
        own = self.own.stop - self.own.start
        return not own and self.program.c.size == self.p.X.size

    @property
    def largest_cost(self) -> float:
        """Largest cost of a unit of any column that can be other than zero."""
        program = self.program
        return float(np.abs(program.c[program.upper > program.lower]).max(initial=0.0))

    @cached_property
    def held(self) -> Floats:
        """Units of hard resources that a unit holds, shape (rows, options, resources)."""
        instance, resources = self.p.instance, self.p.instance.capacity.size
        columns = np.arange(instance.options)[:, None] * resources + instance.hard
        each = instance.usage[:, columns.ravel()].toarray()
        return np.asarray(each.reshape(*self.p.X.shape, instance.hard.size), dtype=float)

    def value(self, x: Floats) -> float:
        """Return the minimised objective at a point."""
        return float(self.program.c @ x) + self.program.offset

    def by_cell(self, columns: Floats) -> Floats:
        """Return what columns have of each row under each option, shape (rows, options)."""
        return columns[self.cells].reshape(self.p.X.shape, order="F")

    def evaluate(self, x: Floats) -> float:
        """Return the declared objective at a point, by cvxpy; the variables take its values."""
        p, places = self.p, self.program.columns
        for variable in cp.Problem(self.objective, list(self.constraints)).variables():
            start = places[variable.id]
            values = x[start : start + variable.size]
            variable.value = values.reshape(variable.shape, order="F")
        p.X.value = self.by_cell(x) / p.instance.row_count[:, None]
        return float(np.asarray(self.objective.args[0].value).item())


def state(policy: Policy, instance: Instance) -> WholeProgram:
    """State a policy's problem on an instance.

    Raises
    ------
    InputError
        If it is not linear once cvxpy has rewritten it, or has several objectives.
    """
    if hasattr(policy, "earlier_objectives"):
        raise InputError(f"{policy!r} decides in whole numbers, by one objective only.")
    p = Problem(instance)
    with solvable(policy):
        objective, constraints = policy.objective(p), policy.constraints(p)
        program = compile_statement(objective, constraints, p)
    check_finite(policy, program)
    if not program.is_linear:
        raise InputError(
            f"{policy!r} decides in whole numbers: its objective and constraints must be "
            f"linear, or of atoms that cvxpy makes linear (abs, max, min, pos, norm1), and "
            f"they are not."
        )
    whole = np.zeros(program.c.size, dtype=bool)
    for own in p.variables.values():
        start = program.columns[own.variable.id]
        whole[start : start + own.variable.size] = own.boolean
    stated = WholeProgram(policy, p, objective, constraints, program, whole)
    whole[stated.cells] = True
    return replace(stated, program=_in_units(stated))


def _in_units(stated: WholeProgram) -> Program:
    """Pose a program over units, and close the cells that pins close or that nobody needs.

    Where the objective is a sum over cells, one that makes it no better is never needed, but for a
    row that is there now.
    """
    instance, cells = stated.p.instance, stated.cells
    now = instance.current.ravel(order="F") > 0
    count = np.tile(instance.row_count, instance.options)
    pinned = np.tile(instance.pinned, instance.options)
    column, row = np.ones(stated.program.c.size), np.ones(stated.program.b.size)
    column[cells], row[stated.priced.stop : stated.own.start] = 1 / count, instance.count
    program = stated.program.scaled_by(column, row)
    lower, upper, cost = program.lower.copy(), program.upper.copy(), program.c[cells]
    open_ = (upper[cells] > 0) & (~pinned | now)
    if stated.is_sum:
        open_ &= (cost < 0) | ((cost == 0) & now) | pinned
    lower[cells], upper[cells] = np.where(pinned & now, count, 0.0), np.where(open_, count, 0.0)
    units = np.ones(column.size), np.ones(row.size)
    return replace(program, lower=lower, upper=upper, column=units[0], row=units[1])
