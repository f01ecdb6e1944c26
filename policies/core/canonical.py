"""One canonical form for what policies state in cvxpy, compiled once.

    minimise    x'P x / 2 + c'x
    subject to  A x = b or A x <= b (linear rows),  b - A x in cones (the rows behind them),
                lower <= x <= upper

The limits that all policies share come from the instance in arrays; cvxpy compiles the objective
and the policy's own constraints. Statements that are affine take the short way, the core of cvxpy;
all others go through its reductions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.constraints import Equality, Inequality
from cvxpy.cvxcore.python import canonInterface
from cvxpy.lin_ops.lin_op import CONSTANT_ID
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.policies.problem import Problem
    from apportion.types import Bools, Floats

Kind = Literal["second order", "semidefinite", "exponential", "power"]
_DIMENSIONS = 2
"""The most that the core of cvxpy knows."""
_FREE = cp.Variable().attributes
"""What is asked of a variable of which nothing is asked."""
_PASSES = 10


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
class Point:
    """Primal and dual vectors, status, and the name of the solver.

    Attributes
    ----------
    status
        "optimal", "infeasible", "unbounded", or the solver's own word.
    exact
        Whether all conditions of optimality are met to rounding errors.
    unique, one_dual
        Whether there is certainly no other optimum, or dual vector.
    basis
        That of HiGHS, of a vertex.
    """

    x: Floats
    y: Floats
    status: str
    solver: str
    exact: bool = False
    unique: bool = False
    one_dual: bool = False
    basis: Any = None


@dataclass(frozen=True, eq=False)
class Program:
    """A program in canonical form, scaled or not.

    Attributes
    ----------
    equality
        Which of the first ``equality.size`` rows are equations.
    cones
        The cones of the rows behind those, in their order.
    columns
        First column of each variable, by the id that cvxpy gives it.
    column, row, cost
        What it was scaled by: ``x = column * x_scaled``, ``y = cost * row * y_scaled``.
    offset
        What the unscaled objective has beside its terms.
    """

    P: sparse.csc_array
    c: Floats
    A: sparse.csc_array
    b: Floats
    equality: Bools
    lower: Floats
    upper: Floats
    column: Floats
    row: Floats
    cones: tuple[Cone, ...] = ()
    columns: Mapping[int, int] = field(default_factory=dict)
    offset: float = 0.0
    cost: float = 1.0

    @property
    def is_linear(self) -> bool:
        """Whether there is neither a quadratic term nor any cone."""
        return not (self.P.nnz or self.cones)

    def reduced(self, x: Floats, y: Floats) -> Floats:
        """Return the reduced costs ``P x + c + A'y``, shape (columns,)."""
        return np.asarray(self.P @ x + self.c + self.A.T @ y, dtype=float)

    def cone_rows(self) -> list[tuple[Cone, slice]]:
        """Return each cone with its rows."""
        ends = np.cumsum([self.equality.size, *(cone.size for cone in self.cones)])
        return [
            (cone, slice(int(end) - cone.size, int(end)))
            for cone, end in zip(self.cones, ends[1:], strict=True)
        ]

    def scaled_by(self, column: Floats, row: Floats, cost: float = 1.0) -> Program:
        """Scale further; rows of one cone need one scale."""
        A = self.A
        data = A.data * row[A.indices] * np.repeat(column, np.diff(A.indptr))
        return replace(
            self,
            P=_scaled_square(self.P, column, 1 / cost),
            c=column * self.c / cost,
            A=sparse.csc_array((data, A.indices, A.indptr), shape=A.shape),
            b=row * self.b,
            lower=self.lower / column,
            upper=self.upper / column,
            column=self.column * column,
            row=self.row * row,
            cost=self.cost * cost,
        )

    def scaled(self, *, entries_only: bool = False) -> Program:
        """Bring entries, limits and costs to around 1 by powers of two, which round nothing.

        A solver's tolerance is a part of 1: a limit of 1e-10 would be met by nothing at all. Limits
        count as one more column and costs as one more row; each is multiplied by the root of the
        least and the largest entry beside it, several times. With `entries_only` they do not, and
        the rows of cones stay: where a program is curved the one or the other may be better.
        """
        A, linear, last_column = self.A, self.equality.size, self.c.size
        of_cone = np.repeat(np.arange(len(self.cones)), [cone.size for cone in self.cones])
        group = np.append(np.arange(linear), linear + of_cone).astype(np.intp)
        limits, costs = np.flatnonzero(self.b), np.flatnonzero(self.c)
        limits, costs = (limits[:0], costs[:0]) if entries_only else (limits, costs)
        last_row = int(group.max(initial=-1)) + 1
        row = np.concatenate([group[A.indices], group[limits], np.full(costs.size, last_row)])
        of_A = np.repeat(np.arange(last_column), np.diff(A.indptr))
        column = np.concatenate([of_A, np.full(limits.size, last_column), costs])
        size = np.abs(np.concatenate([A.data, self.b[limits], self.c[costs]]))
        filled = size > 0
        row, column, logs = row[filled], column[filled], np.log2(size[filled])
        scalable = np.arange(last_row + 1) < (linear if entries_only else last_row + 1)
        by_row, by_column = np.zeros(last_row + 1), np.zeros(last_column + 1)
        for _ in range(_PASSES):
            by_row = scalable * _middles(row, logs + by_column[column], by_row.size)
            by_column = _middles(column, logs + by_row[row], by_column.size)
        by_row, by_column = (np.clip(np.round(each), -400, 400) for each in (by_row, by_column))
        x = 2.0 ** (by_column[:-1] - by_column[-1])
        quadratic = np.abs(_scaled_square(self.P, x, 1.0).data).max(initial=0.0)
        largest = max(np.abs(x * self.c).max(initial=0.0), quadratic) or 1.0
        return self.scaled_by(x, 2.0 ** (by_row[group] + by_column[-1]), float(largest))


def _middles(place: Any, logs: Floats, size: int) -> Floats:
    """Return what brings the least and the largest of the logarithms at each place around 0."""
    most, least = np.full(size, -np.inf), np.full(size, np.inf)
    np.maximum.at(most, place, logs)
    np.minimum.at(least, place, logs)
    filled = np.isfinite(most)
    return np.where(filled, -0.5 * (np.where(filled, most, 0) + np.where(filled, least, 0)), 0.0)


def _scaled_square(P: sparse.csc_array, column: Floats, by: float) -> sparse.csc_array:
    """Multiply a square matrix by scales from both sides, and by a number."""
    if not P.nnz:
        return P
    data = P.data * column[P.indices] * np.repeat(column, np.diff(P.indptr)) * by
    return sparse.csc_array((data, P.indices, P.indptr), shape=P.shape)


def compile_statement(
    objective: cp.Maximize | cp.Minimize, constraints: Sequence[cp.Constraint], p: Problem | None
) -> Program:
    """Compile an objective and constraints; a maximisation becomes that of the negative, minimised.

    Parameters
    ----------
    objective, constraints
        What is stated.
    p
        The problem whose shared limits hold as well: capacities are the first rows, time limits the
        next. ``None`` for none.

    Raises
    ------
    cvxpy.error.DCPError, cvxpy.error.SolverError
        If the problem is not convex by cvxpy's rules, Clarabel has no such cones, or cvxpy fails.
    """
    own = [*p.own_limits, *constraints] if p is not None else [*constraints]
    shared = [] if p is None else [p.X]
    program = _affine_statement(objective, own, shared)
    program = program or _by_reductions(cp.Problem(objective, own))
    return program if p is None else _with_shared_limits(_bounds_apart(program), p)


def _affine_statement(
    objective: cp.Maximize | cp.Minimize,
    constraints: Sequence[cp.Constraint],
    shared: Sequence[cp.Variable],
) -> Program | None:
    """Compile a linear program by the core of cvxpy alone; ``None`` for any other problem.

    cvxpy goes from a problem to its matrices in eight reductions, each of which copies it.
    """
    equations = [each for each in constraints if type(each) is Equality]
    others = [each for each in constraints if type(each) is not Equality]
    stated = [*equations, *others]
    if any(type(each) is not Inequality for each in others):
        return None  # cones, which have several arguments
    expressions = [*(each.expr for each in stated), objective.args[0]]
    if not all(map(_affine, expressions)):
        return None
    columns, width = dict[int, int](), 0
    for each in (*shared, *stated, objective):
        for variable in each.variables():
            if variable.attributes != _FREE:
                return None
            if variable.id not in columns:
                columns[variable.id], width = width, width + variable.size
    if not columns:
        return None
    try:
        trees = [each.canonical_form[0] for each in expressions]
    except NotImplementedError:  # of cumsum, for instance, which has variables of its own
        return None
    height = sum(each.size for each in expressions)
    places: dict[int, int] = {CONSTANT_ID: 0}
    sizes: dict[int, int] = {CONSTANT_ID: 1}
    flat = canonInterface.get_problem_matrix(trees, width, columns, sizes, places, height)
    column, row = np.divmod(flat.indices, height)
    A = sparse.csc_array((flat.data, (row, column)), shape=(height, width + 1)).tocsr()
    sign = 1.0 if isinstance(objective, cp.Minimize) else -1.0
    goal, rows = sign * A[[-1]].toarray()[0], A[:-1].tocsc()
    equal = sum(each.size for each in equations)
    return _plain(
        c=goal[:-1],
        A=sparse.csc_array(rows[:, :-1]),
        b=-rows[:, [width]].toarray()[:, 0] + 0.0,
        equality=np.arange(height - 1) < equal,
        columns=columns,
        offset=float(goal[-1]),
    )


def _affine(expression: cp.Expression | None) -> bool:
    """Whether an expression is affine, without parameters, and one for the core of cvxpy."""
    return (
        expression is not None
        and expression.size > 0
        and expression.is_affine()
        and not expression.is_complex()
        and not expression.parameters()
        and expression._max_ndim() <= _DIMENSIONS
        and expression._all_support_cpp()
    )


def _by_reductions(problem: cp.Problem) -> Program:
    """Compile any problem that cvxpy can, by all of its reductions."""
    try:
        data, _, inverse = problem.get_problem_data(cp.CLARABEL, solver_opts={})
    except (cp.error.DCPError, cp.error.SolverError):
        raise
    except Exception as error:  # NotImplementedError without a word, for instance
        raise cp.error.SolverError(f"{type(error).__name__} {error}") from error
    dims, A = data["dims"], sparse.csc_array(data["A"])
    quadratic = data.get("P")
    program = _plain(
        c=np.asarray(data["c"], dtype=float),
        A=A,
        b=np.asarray(data["b"], dtype=float),
        equality=np.arange(dims.zero + dims.nonneg) < dims.zero,
        columns=dict(data["param_prob"].var_id_to_col),
        offset=float(inverse[-1]["offset"]),
    )
    cones = (
        *(Cone("second order", int(size)) for size in dims.soc),
        *(Cone("semidefinite", n * (n + 1) // 2, order=int(n)) for n in dims.psd),
        *[Cone("exponential", 3)] * int(dims.exp),
        *(Cone("power", 3, powers=(float(power), 1 - float(power))) for power in dims.p3d),
        *(Cone("power", len(powers) + 1, powers=tuple(map(float, powers))) for powers in dims.pnd),
    )
    P = program.P if quadratic is None else sparse.csc_array(quadratic)
    return replace(program, P=P, cones=cones)


def _plain(c: Floats, A: sparse.csc_array, b: Floats, **more: Any) -> Program:
    """Return a program without bounds and scales."""
    none, column, row = np.full(c.size, np.inf), np.ones(c.size), np.ones(b.size)
    P = sparse.csc_array((c.size, c.size))
    return Program(P, c, A, b, lower=-none, upper=none, column=column, row=row, **more)


def _with_shared_limits(program: Program, p: Problem) -> Program:
    """Put the limits that all policies share in front; where a job cannot run its share is zero.

    Capacities of hard resources are the first rows, the time of each job the next.
    """
    instance, size = p.instance, p.X.size
    rows, options, hard = instance.rows, instance.options, instance.hard.size
    columns, width = dict(program.columns), program.c.size
    start = columns.setdefault(p.X.id, width)
    new = size if start == width else 0
    usage = instance.usage.tocoo()
    option, resource = np.divmod(usage.coords[1], instance.capacity.size)
    place = np.full(instance.capacity.size, -1)
    place[instance.hard] = np.arange(hard)
    used, row = place[resource] >= 0, usage.coords[0]
    held = (usage.data * instance.row_count[row])[used], place[resource[used]]
    member = (np.arange(options)[:, None] * rows + instance.member_row).ravel()
    time = np.tile(instance.member_share, options), hard + np.tile(instance.member_job, options)
    own, first = program.A, hard + instance.jobs
    entries = [
        (*held, start + (option * rows + row)[used]),
        (*time, start + member),
        (own.data, first + own.indices, np.repeat(np.arange(width), np.diff(own.indptr))),
    ]
    data, at_row, at_column = map(np.concatenate, zip(*entries, strict=True))
    shape = (first + program.b.size, width + new)
    none, cells = np.full(new, np.inf), slice(start, start + size)
    lower, upper = np.append(program.lower, -none), np.append(program.upper, none)
    lower[cells] = np.maximum(lower[cells], 0.0)
    upper[cells] = np.where(instance.can_run.ravel(order="F"), upper[cells], 0.0)
    wider = sparse.csc_array((new, new))
    return replace(
        program,
        P=sparse.csc_array(sparse.block_diag([program.P, wider])) if new else program.P,
        c=np.append(program.c, np.zeros(new)),
        A=sparse.csc_array((data, (at_row, at_column)), shape=shape),
        b=np.concatenate([instance.capacity[instance.hard], np.ones(instance.jobs), program.b]),
        equality=np.append(np.zeros(first, dtype=bool), program.equality),
        lower=lower,
        upper=upper,
        column=np.ones(shape[1]),
        row=np.ones(shape[0]),
        columns=columns,
    )


def _bounds_apart(program: Program) -> Program:
    """Turn linear rows that only say of one column ``a x <= 0`` or ``a x = 0`` into bounds."""
    A, linear = program.A.copy(), program.equality.size
    A.eliminate_zeros()
    alone = np.bincount(A.indices, minlength=program.b.size) == 1
    alone &= (program.b == 0) & (np.arange(program.b.size) < linear)
    entry = np.flatnonzero(alone[A.indices])
    if not entry.size:
        return replace(program, A=A)
    row, column = A.indices[entry], np.searchsorted(A.indptr, entry, side="right") - 1
    equal, above = program.equality[row], A.data[entry] > 0
    lower, upper = program.lower.copy(), program.upper.copy()
    lower[column[equal | ~above]] = np.maximum(lower[column[equal | ~above]], 0.0)
    upper[column[equal | above]] = np.minimum(upper[column[equal | above]], 0.0)
    kept = np.flatnonzero(~alone)
    return replace(
        program,
        A=sparse.csc_array(A.tocsr()[kept]),
        b=program.b[kept],
        equality=program.equality[kept[kept < linear]],
        lower=lower,
        upper=upper,
        row=program.row[kept],
    )
