"""From what a policy states to a linear program over whole numbers, in arrays.

Only what the policy states itself is compiled by cvxpy. The limits that hold for every policy are
written here, in arrays, which takes a tenth of the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from scipy import sparse

from apportion.errors import InputError
from apportion.policies.core.canonical import compile_statement
from apportion.policies.core.unsolvable import check_finite, solvable
from apportion.policies.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.policies.base import Policy
    from apportion.policies.core.canonical import Program
    from apportion.policies.instance import Instance
    from apportion.types import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class WholeProgram:
    """A problem over whole numbers.

    It is ``min c'x + offset`` such that ``least <= A x <= most``, ``lower <= x <= upper``, and x is
    whole where `whole` says so. The first columns are the units ``z = count * X`` of the cells of X
    that can be above 0; variables of the policy and of cvxpy follow. The first rows are the
    policy's own, then capacities, then the units of each job.

    Attributes
    ----------
    policy, p
        The policy, and the problem that it saw.
    objective, constraints
        What it stated.
    c, offset
        Costs, of the minimised objective; shape (columns,).
    A, least, most
        Rows, and their limits.
    lower, upper, whole
        Bounds of the columns, and which of them are whole numbers.
    cells
        Cell of X, counted row by row, of each of the first columns.
    columns
        First column of each other variable, by the id that cvxpy gives it.
    own
        Number of rows of the policy.
    """

    policy: Policy
    p: Problem
    objective: cp.Maximize | cp.Minimize
    constraints: Sequence[cp.Constraint]
    c: Floats
    offset: float
    A: sparse.csc_array
    least: Floats
    most: Floats
    lower: Floats
    upper: Floats
    whole: Bools
    cells: Ints
    columns: Mapping[int, int]
    own: int

    @property
    def priced(self) -> slice:
        """Rows that are the capacities of the hard resources."""
        return slice(self.own, self.own + self.p.instance.hard.size)

    @property
    def row_of_cell(self) -> Ints:
        """Row of X of each of the first columns."""
        return self.cells // self.p.instance.options

    @property
    def stays(self) -> Bools:
        """Which columns are options that rows have now, shape (columns,)."""
        stays = np.zeros(self.c.size, dtype=bool)
        stays[: self.cells.size] = self.p.instance.current.ravel()[self.cells] > 0
        return stays

    @property
    def largest_cost(self) -> float:
        """Largest cost of a unit of any column that can be other than zero."""
        return float(np.abs(self.c[self.upper > self.lower]).max(initial=0.0))

    @property
    def is_sum(self) -> bool:
        """Whether the objective is a sum of a value for each cell, without other constraints."""
        return self.own == 0 and self.c.size == self.cells.size

    def value(self, x: Floats) -> float:
        """Return the minimised objective at a point."""
        return float(self.c @ x) + self.offset

    def units(self, x: Floats) -> Floats:
        """Return units of each row under each option at a point, shape (rows, options)."""
        units = np.zeros(self.p.X.size)
        units[self.cells] = x[: self.cells.size]
        return units.reshape(self.p.X.shape)

    def evaluate(self, x: Floats) -> float:
        """Return the declared objective at a point, by cvxpy; the variables take its values."""
        p = self.p
        p.X.value = self.units(x) / p.instance.row_count[:, None]
        for variable in cp.Problem(self.objective, list(self.constraints)).variables():
            start = self.columns.get(variable.id)
            if start is not None:
                values = x[start : start + variable.size]
                variable.value = values.reshape(variable.shape, order="F")
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
    objective, constraints = _stated(policy, p)
    with solvable(policy):
        declared = cp.Problem(objective, list(constraints))
        if not any(each is p.X for each in declared.variables()):
            goal = type(objective)(objective.args[0] + 0.0 * p.X[0, 0])
            declared = cp.Problem(goal, declared.constraints)
        raw = compile_statement(declared.objective, declared.constraints, None)
    check_finite(policy, raw)
    if not raw.is_linear:
        raise InputError(
            f"{policy!r} decides in whole numbers: its objective and constraints must be "
            f"linear, or of atoms that cvxpy makes linear (abs, max, min, pos, norm1), and "
            f"they are not."
        )
    return _assembled(policy, p, objective, constraints, raw)


def _stated(
    policy: Policy, p: Problem
) -> tuple[cp.Maximize | cp.Minimize, Sequence[cp.Constraint]]:
    try:
        with solvable(policy):
            objective, constraints = policy.objective(p), policy.constraints(p)
            cp.Problem(objective, list(constraints))
    except TypeError as error:
        raise InputError(
            f"{policy!r} must state cp.Maximize or cp.Minimize of a number, and constraints as a "
            f"list, which may be empty: {error}."
        ) from error
    except ValueError as error:  # of shapes
        if p.instance.solo or isinstance(error, InputError):
            raise
        raise InputError(
            f"{policy!r} states values of jobs, shape {p.speed.shape}, where rows are combinations "
            f"of jobs, shape {p.X.shape}; state them by p.throughput, or leave combinations out."
        ) from error
    return objective, constraints


def _assembled(
    policy: Policy,
    p: Problem,
    objective: cp.Maximize | cp.Minimize,
    constraints: Sequence[cp.Constraint],
    raw: Program,
) -> WholeProgram:
    """Put what cvxpy compiled and what holds for every policy together."""
    instance = p.instance
    start = raw.columns[p.X.id]
    place = np.arange(p.X.size).reshape(instance.options, instance.rows).T.ravel() + start
    others = np.setdiff1d(np.arange(raw.c.size), place)
    cells = _cells(instance, raw.c[place], alone=not (others.size or raw.b.size))
    row, k = cells // instance.options, cells.size
    count = instance.row_count[row]
    scale = np.append(count, np.ones(others.size))
    order = np.append(place[cells], others).astype(np.intp)
    own = sparse.csc_array(raw.A[:, order]) if raw.b.size else sparse.csc_array((0, order.size))
    own.data = own.data / np.repeat(scale, np.diff(own.indptr))
    held, units = _held(instance, cells), _units(instance, row)
    none = sparse.csr_array((units.shape[0] + held.shape[0], others.size))
    shared = sparse.hstack([sparse.vstack([held, units]), none])
    lower, upper = np.zeros(order.size), scale.copy()
    lower[k:], upper[k:] = -np.inf, np.inf
    lower[:k][instance.pinned[row]] = count[instance.pinned[row]]
    whole = np.arange(order.size) < k
    columns = {each: k + int(np.searchsorted(others, at)) for each, at in raw.columns.items()}
    del columns[p.X.id]
    for variable in p.variables.values():
        first = columns.get(variable.variable.id)
        if first is not None and (variable.boolean or variable.nonneg):
            mine = slice(first, first + variable.variable.size)
            lower[mine], whole[mine] = 0.0, variable.boolean
            upper[mine] = 1.0 if variable.boolean else np.inf
    most = np.concatenate([raw.b, instance.capacity[instance.hard], instance.count])
    least = np.full(most.size, -np.inf)
    least[: raw.b.size][raw.equality] = raw.b[raw.equality]
    return WholeProgram(
        *(policy, p, objective, constraints),
        c=raw.c[order] / scale,
        offset=raw.offset,
        A=sparse.csc_array(sparse.vstack([own, shared])),
        least=least,
        most=most,
        lower=lower,
        upper=upper,
        whole=whole,
        cells=cells,
        columns=columns,
        own=raw.b.size,
    )


def _cells(instance: Instance, cost: Floats, *, alone: bool) -> Ints:
    """Return the cells that can be above zero: where rows can run, or are pinned.

    Where the objective is a sum over cells, `alone`, one that makes it no better is never needed,
    but for a row that is there now.
    """
    stays, pinned = instance.current > 0, instance.pinned[:, None]
    open_ = instance.can_run & (~pinned | stays)
    if alone:
        cost = cost.reshape(open_.shape)
        open_ &= (cost < 0) | ((cost == 0) & stays) | pinned
    return np.flatnonzero(open_)


def _held(instance: Instance, cells: Ints) -> sparse.csr_array:
    """Return what a unit of each cell holds of each hard resource."""
    resources = instance.capacity.size
    usage = instance.usage.tocoo()
    option, resource = np.divmod(usage.coords[1], resources)
    cell = usage.coords[0].astype(np.intp) * instance.options + option
    shape = (resources, instance.rows * instance.options)
    held = sparse.csc_array((usage.data, (resource, cell)), shape=shape)[:, cells]
    held.eliminate_zeros()
    return sparse.csr_array(held)[instance.hard]


def _units(instance: Instance, row: Ints) -> sparse.csr_array:
    """Return the units of each job that a unit of each cell takes."""
    in_row = sparse.csr_array(
        (np.ones(row.size), (row, np.arange(row.size))), shape=(instance.rows, row.size)
    )
    if instance.solo:
        return in_row
    shape = (instance.jobs, instance.rows)
    places = (instance.member_job, instance.member_row)
    return sparse.csr_array((instance.member_share, places), shape=shape) @ in_row
