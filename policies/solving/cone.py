"""Cone programs in arrays: what they are, their scales, and those of throughputs alone.

A cone program is: minimise ``x'Px/2 + c'x`` subject to ``b - Ax`` in a product of
cones, equalities first, then inequalities, then the others. Its dual vector y satisfies
``Px + c + A'y = 0`` at the optimum, with ``y >= 0`` on the inequalities. The objective of the
cvxpy problem is ``cost_scale * (x'Px/2 + c'x) + offset``, negative if it is maximised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.unary_operators import NegExpression
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from apportion.policies.problem import Problem
    from apportion.policies.solving.highs import LoadedHighs
    from apportion.types import Floats

    Ints = NDArray[np.integer[Any]]

Kind = Literal["quadratic", "second order", "semidefinite", "exponential", "power"]
"""What a program may have beside linear terms and half lines."""


class Cone(NamedTuple):
    """A cone other than a half line, and how many rows it has.

    `order` is that of the matrix of a semidefinite one, whose rows are its upper triangle by
    columns with what is off the diagonal times the root of 2; `powers` are the exponents of a
    power cone.
    """

    kind: Kind
    size: int
    order: int = 0
    powers: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class ConeProgram:
    """A cone program, with the places of variables and constraints of the cvxpy problem.

    Attributes
    ----------
    equality
        Which of the first ``linear`` rows are equalities, shape (linear,).
    columns, rows
        Start of each variable and slice of each linear constraint, by cvxpy id, or by its label
        where it is one that all policies share.
    cones
        The cones of the rows behind the linear ones, in their order.
    """

    P: sparse.csc_array
    c: Floats
    A: sparse.csc_array
    b: Floats
    equality: NDArray[np.bool_]
    offset: float
    cost_scale: float
    columns: Mapping[int, int]
    rows: Mapping[int | str, slice]
    cones: tuple[Cone, ...] = ()

    @cached_property
    def linear(self) -> int:
        """Number of equalities and inequalities."""
        return self.equality.size

    @property
    def is_linear_program(self) -> bool:
        """Whether there is neither a quadratic term nor any cone beside the half lines."""
        return not self.kinds

    @cached_property
    def kinds(self) -> frozenset[Kind]:
        """What there is beside linear terms and half lines."""
        found: set[Kind] = {"quadratic"} if self.P.nnz else set()
        for cone in self.cones:
            found.add(cone.kind)
        return frozenset(found)

    def value(self, x: Floats) -> float:
        """Objective at x."""
        quadratic = x @ (self.P @ x) / 2 if self.P.nnz else 0.0
        return float(quadratic + self.c @ x) * self.cost_scale + self.offset


@dataclass(frozen=True, eq=False)
class Point:
    """Primal and dual vectors, status, and the name of the solver.

    `status` is "optimal", "infeasible", "unbounded", or the solver's own word; where it is
    "infeasible", `y` is a certificate: its nonzero rows cannot hold together. `unique` says that
    there is no other optimum, as far as the solver can tell; an interior point cannot. `left_in` is
    the simplex method as it ended there, which can go on among the optima.
    """

    x: Floats
    y: Floats
    status: str
    solver: str
    unique: bool = False
    left_in: LoadedHighs | None = None

    def at(self, x: Floats, y: Floats) -> Point:
        """Return the same of other vectors."""
        return Point(x, y, self.status, self.solver, self.unique, self.left_in)


def rows_that_are_bounds(
    program: ConeProgram,
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Find the rows that only say ``-a x <= 0`` with a > 0, one a column: rows, columns, a."""
    A = program.A
    single = np.bincount(A.indices, minlength=program.b.size) == 1
    single &= (program.b == 0) & ~program.equality
    entry = np.flatnonzero(single[A.indices] & (A.data < 0))
    column = np.searchsorted(A.indptr, entry, side="right") - 1
    row: Ints = A.indices[entry]
    if (column[1:] == column[:-1]).any():  # the first row of a column that has several
        order = np.lexsort((row, column))
        kept = order[np.unique(column[order], return_index=True)[1]]
        entry, column, row = entry[kept], column[kept], row[kept]
    return row.astype(np.intp), column.astype(np.intp), -A.data[entry].astype(float)


def among_limits(program: ConeProgram, p: Problem, first: int) -> ConeProgram:
    """Put the limits that all policies share into a program: equalities first, others at a row."""
    X = program.columns[p.X.id]
    scale = program.columns[p.scale.id] if isinstance(p.scale, cp.Variable) else None
    own, b, equality = program.A, program.b, program.equality
    limits, ahead, between = limits_of(p), 0, 0
    for each in limits:
        ahead += each.most.size * each.equality
        between += each.most.size * (not each.equality)
    row = own.indices + ahead + between * (own.indices >= first)
    column = np.repeat(np.arange(program.c.size), np.diff(own.indptr))
    most, entries = np.zeros(b.size + ahead + between), list[Any]([(own.data, row, column)])
    most[np.arange(b.size) + ahead + between * (np.arange(b.size) >= first)] = b
    rows = dict[int | str, slice]()
    for name, place in program.rows.items():
        move = ahead + between * (place.start >= first)
        rows[name] = slice(place.start + move, place.stop + move)
    starts = {True: 0, False: ahead + first}
    for each in limits:
        start = starts[each.equality]
        stop = starts[each.equality] = start + each.most.size
        rows[each.label], most[start:stop] = slice(start, stop), each.most
        entries.append((each.amount, start + each.row, X + each.cell))
        if scale is not None:
            entries.append((each.scale, np.arange(start, stop), np.full(stop - start, scale)))
    data, row, column = map(np.concatenate, zip(*entries, strict=True))
    places = row.astype(np.int32), column.astype(np.int32)
    A = sparse.csc_array((data, places), shape=(most.size, program.c.size))
    equality = np.arange(most.size) < ahead + np.count_nonzero(equality)
    return replace(program, A=A, b=most, equality=equality, rows=rows)


@dataclass(frozen=True, eq=False)
class Scales:
    """What a program is scaled by: ``x = column * x_scaled``, ``y = cost * row * y_scaled``.

    Scales that were found for one program fit others of its shape; kept as they are, a number of
    the program that does not change stays the same when it is scaled.
    """

    column: Floats
    row: Floats
    cost: float

    @classmethod
    def of(cls, program: ConeProgram, passes: int = 4) -> Scales:
        """Find scales that bring the entries of rows and columns to around 1, the cost to 1."""
        row, column = _geometric_means(program, passes)
        return cls(column, row, largest_cost(program, column))

    def scale(self, program: ConeProgram) -> ConeProgram:
        """Scale a program; the places of its entries stay."""
        A = program.A
        by = self.row[A.indices] * np.repeat(self.column, np.diff(A.indptr))
        P = program.P
        if P.nnz:
            diagonal = sparse.diags_array(self.column)
            P = sparse.csc_array(diagonal @ P @ diagonal / self.cost)
        return replace(
            program,
            P=P,
            c=self.column * program.c / self.cost,
            A=sparse.csc_array((A.data * by, A.indices, A.indptr), shape=A.shape),
            b=self.row * program.b,
            cost_scale=program.cost_scale * self.cost,
        )


def largest_cost(program: ConeProgram, column: Floats) -> float:
    """Return the largest cost of scaled columns; 1 if there is none."""
    P, largest = program.P, float(np.abs(column * program.c).max(initial=0.0))
    if P.nnz:
        diagonal = sparse.diags_array(column)
        largest = max(largest, float(np.abs((diagonal @ P @ diagonal).data).max()))
    return largest or 1.0


def alone_in_cost(costs: Floats) -> NDArray[np.intp]:
    """Return the column that alone has a cost, as a level has: it is the same in all optima."""
    found = np.flatnonzero(costs)
    return found if found.size == 1 else found[:0]


def equilibrate(program: ConeProgram, passes: int = 4) -> tuple[ConeProgram, Floats, Floats]:
    """Scale rows and columns until their entries lie around 1, by geometric means.

    A makespan posed as 1/T is some 1e-5 1/s, below what a solver takes for zero; scaled it is not.

    Returns
    -------
    scaled
        The scaled program without stored zeros, its cost vector scaled to a largest entry of 1.
    column, row
        ``x = column * x_scaled`` and ``y = cost_scale * row * y_scaled``.
    """
    if not program.A.data.all():
        A = program.A.copy()
        A.eliminate_zeros()
        program = replace(program, A=A)
    scales = Scales.of(program, passes)
    return scales.scale(program), scales.column, scales.row


def _geometric_means(program: ConeProgram, passes: int) -> tuple[Floats, Floats]:
    """Scales of rows and columns: each entry over the root of the least and largest beside it."""
    A = program.A
    if not A.data.all():
        A = A.copy()
        A.eliminate_zeros()
    by_column = np.arange(A.nnz)
    by_row = np.argsort(A.indices, kind="stable")
    rows_filled, row_starts = np.unique(A.indices[by_row], return_index=True)
    columns_filled = np.flatnonzero(np.diff(A.indptr))
    scalable = rows_filled < program.linear  # a second-order cone keeps its rows' proportions
    every = np.ones(columns_filled.size, dtype=bool)
    sides: list[tuple[Floats, Ints, Ints, Ints, NDArray[np.bool_]]] = [
        (np.ones(A.shape[0]), by_row, rows_filled, row_starts, scalable),
        (np.ones(A.shape[1]), by_column, columns_filled, A.indptr[columns_filled], every),
    ]
    entry_places: list[Ints] = [A.indices, np.repeat(np.arange(A.shape[1]), np.diff(A.indptr))]
    logs = np.log(np.abs(A.data))
    for _ in range(passes):
        for (scale, order, filled, starts, chosen), place in zip(sides, entry_places, strict=True):
            sorted_logs = logs[order]
            middle = np.maximum.reduceat(sorted_logs, starts)
            middle = -0.5 * (middle + np.minimum.reduceat(sorted_logs, starts)) * chosen
            scale[filled] *= np.exp(middle)
            shift = np.zeros(scale.size)
            shift[filled] = middle
            logs += shift[place]
    return sides[0][0], sides[1][0]


def program_of_throughputs(objective: cp.Maximize | cp.Minimize, p: Problem) -> ConeProgram | None:
    """Compile an objective about throughputs alone under the limits that all policies share.

    Most policies are an affine expression of the throughputs, or the least or largest entry of
    one. What each cell of X adds to it is its speed times what stands above it, read off from the
    inside out, as the core of cvxpy multiplies: the numbers are the same.

    ``None`` for any other one, and where jobs share devices or a ratio is maximised: see
    `apportion.policies.solving.canonical.straight`.
    """
    minimised, goal = isinstance(objective, cp.Minimize), objective.args[0]
    if not p.instance.solo or isinstance(p.scale, cp.Variable) or p.variables:
        return None
    worst = isinstance(goal, cp.max if minimised else cp.min) and goal.axis is None
    found = _rows(goal.args[0] if worst else goal, p)
    if found is None or found.each is not worst:
        return None
    sign, size = 1 if minimised else -1, p.X.size
    jobs, width = (p.instance.jobs if worst else 0), size + worst
    c, offset, cells = np.zeros(width), 0.0, sign * found.cells.ravel(order="F")
    b = sign * (0.0 - found.constant) + 0.0
    if worst:  # rows ``sign * e <= t``, t the first column
        c[0] = 1.0
        row = np.tile(np.arange(jobs, dtype=np.int32), 1 + p.instance.options)
        starts = np.append(0, jobs + np.arange(size + 1)).astype(np.int32)
        entries = np.append(np.full(jobs, -1.0), cells), row, starts
        A = sparse.csc_array(entries, shape=(jobs, width))
    else:
        c, offset, b = cells, -float(b[0]), b[:0]
        A = sparse.csc_array((0, width))
    equality, P = np.zeros(jobs, dtype=bool), sparse.csc_array((width, width))
    columns = {p.X.id: int(worst)}
    return among_limits(ConeProgram(P, c, A, b, equality, offset, 1.0, columns, {}), p, jobs)


class _Rows(NamedTuple):
    """An affine expression of the throughputs.

    Attributes
    ----------
    cells
        What each cell of X adds to it, shape (jobs, options).
    constant
        What is added, shape (jobs,), or (1,) for one number.
    each
        Whether it is a number for each job, of its cells alone, or one, of all cells.
    """

    cells: Floats
    constant: Floats
    each: bool


def _rows(expression: cp.Expression, p: Problem) -> _Rows | None:
    """Read an expression from the inside out; ``None`` in atoms of which nothing is known here."""
    if expression is p.throughput:
        return _Rows(p.instance.throughput, np.zeros(p.instance.jobs), each=True)
    if not isinstance(expression, AddExpression | MulExpression | NegExpression | Sum):
        return None  # products entry by entry, and quotients, are cases of MulExpression
    inner = [each for each in expression.args if not each.is_constant()]
    others = [each for each in expression.args if each.is_constant()]
    if len(inner) != 1 or any(each.parameters() for each in others):
        return None
    found = _rows(inner[0], p)
    if found is None:
        return None
    if isinstance(expression, Sum):
        return found._replace(constant=found.constant.sum(keepdims=True), each=False)
    if isinstance(expression, NegExpression):
        return found._replace(cells=-found.cells, constant=-found.constant)
    if any(sparse.issparse(each.value) or each.is_complex() for each in others):
        return None
    values = [np.ravel(np.asarray(each.value, dtype=float)) for each in others]
    if any(value.size != found.constant.size or not np.isfinite(value).all() for value in values):
        return None  # what is not finite is refused in words further on
    if isinstance(expression, AddExpression):
        return found._replace(constant=sum(values, start=found.constant))
    (by,) = values
    if isinstance(expression, DivExpression):
        if expression.args[0] is not inner[0]:
            return None
        if not by.all():
            return None
        by = 1.0 / by
    cells, constant = by[:, None] * found.cells, by * found.constant
    if found.each and not isinstance(expression, multiply):  # a row by a column
        if expression.args[0] is not others[0] or expression.size != 1:
            return None
        return _Rows(cells, constant.sum(keepdims=True), each=False)
    return _Rows(cells, constant, found.each)


class Limits(NamedTuple):
    """Constraints that every policy shares, of one kind, in arrays.

    Attributes
    ----------
    label
        That of the constraint.
    equality
        Whether the two sides are equal, or the first no larger than the second.
    row, cell, amount
        Coefficients of the cells of X, which are counted option by option, shape (entries,) each.
    scale
        Coefficients of the scale of a policy that maximises a ratio, shape (rows,).
    most
        The second side, shape (rows,).
    """

    label: str
    equality: bool
    row: Ints
    cell: Ints
    amount: Floats
    scale: Floats
    most: Floats


def limits_of(p: Problem) -> list[Limits]:
    """Return the constraints that every policy shares as arrays, in their order."""
    instance, size = p.instance, p.X.size
    rows, hard, usage = instance.rows, instance.hard, instance.usage.tocoo()
    option, resource = np.divmod(usage.coords[1], instance.capacity.size)
    place = np.full(instance.capacity.size, -1)
    place[hard] = np.arange(hard.size)
    used = (place >= 0)[resource]
    row, option, resource = usage.coords[0][used], option[used], place[resource[used]]
    held, cell = (
        usage.data[used] * instance.row_count[row],
        (option * rows + row).astype(np.intp),
    )
    every, one, none = np.arange(size), np.ones(size), np.zeros(0, dtype=np.intp)
    job: Ints = every % rows
    running, share = every, one
    if not instance.solo:
        members = np.arange(instance.options)[:, None] * rows + instance.member_row
        job = np.broadcast_to(instance.member_job, members.shape).ravel()
        share = np.broadcast_to(instance.member_share, members.shape).ravel()
        running = members.ravel()
    most, time = instance.capacity[hard], np.ones(instance.jobs)
    nothing = np.zeros(size)
    limits = [
        Limits("X >= 0", False, every, every, -one, nothing, nothing),
        Limits("capacity", False, resource, cell, held, -most, most),
        Limits("time of a job <= 1", False, job, running, share, -time, time),
    ]
    if isinstance(p.scale, cp.Variable):
        limits = [each._replace(most=0 * each.most) for each in limits]
        zero = np.zeros(1)
        limits.append(Limits("scale >= 0", False, none, none, zero[:0], zero - 1, zero))
    cannot = np.nonzero(~instance.can_run)
    if cannot[0].size:
        zero, places = np.zeros(cannot[0].size), np.arange(cannot[0].size)
        cells = cannot[1] * rows + cannot[0]
        limits.append(Limits("cannot run", True, places, cells, zero + 1, zero, zero))
    return limits
