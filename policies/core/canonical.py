"""One canonical form for what policies state in cvxpy, compiled once.

    minimise    x'P x / 2 + c'x
    subject to  A x = b or A x <= b (linear rows),  b - A x in cones (the rows behind them),
                lower <= x <= upper

The limits that all policies share come from the instance in arrays; cvxpy compiles the objective
and the policy's own constraints.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.constraints import Equality, Inequality
from cvxpy.reductions.inverse_data import InverseData
from cvxpy.utilities.coeff_extractor import CoeffExtractor
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
            P=sparse.csc_array(self._quadratic(column) / cost),
            c=column * self.c / cost,
            A=sparse.csc_array((data, A.indices, A.indptr), shape=A.shape),
            b=row * self.b,
            lower=self.lower / column,
            upper=self.upper / column,
            column=self.column * column,
            row=self.row * row,
            cost=self.cost * cost,
        )

    def _quadratic(self, column: Floats) -> sparse.csc_array:
        """Return P in other units of the columns."""
        by_column = sparse.diags_array(column)
        return sparse.csc_array(by_column @ self.P @ by_column) if self.P.nnz else self.P

    def scaled(self) -> Program:
        """Bring entries, limits and costs to around 1 by powers of two, which round nothing.

        A solver's tolerance is a part of 1: a limit of 1e-10 would be met by nothing at all. Limits
        count as one more column and costs as one more row; each is multiplied by the root of the
        least and the largest entry beside it, several times.
        """
        linear, last_column = self.equality.size, self.c.size
        of_cone = np.repeat(np.arange(len(self.cones)), [cone.size for cone in self.cones])
        group = np.append(np.arange(linear), linear + of_cone).astype(np.intp)
        last_row = int(group.max(initial=-1)) + 1
        A, limits, costs = self.A.tocoo(), np.flatnonzero(self.b), np.flatnonzero(self.c)
        row = np.concatenate([group[A.coords[0]], group[limits], np.full(costs.size, last_row)])
        column = np.concatenate([A.coords[1], np.full(limits.size, last_column), costs])
        size = np.abs(np.concatenate([A.data, self.b[limits], self.c[costs]]))
        row, column, logs = row[size > 0], column[size > 0], np.log2(size[size > 0])
        by_row, by_column = np.zeros(last_row + 1), np.zeros(last_column + 1)
        for _ in range(_PASSES):
            by_row = _middles(row, logs + by_column[column], by_row.size)
            by_column = _middles(column, logs + by_row[row], by_column.size)
        by_row, by_column = (np.clip(np.round(each), -400, 400) for each in (by_row, by_column))
        x = 2.0 ** (by_column[:-1] - by_column[-1])
        quadratic = np.abs(self._quadratic(x).data).max(initial=0.0)
        largest = max(np.abs(x * self.c).max(initial=0.0), quadratic) or 1.0
        return self.scaled_by(x, 2.0 ** (by_row[group] + by_column[-1]), float(largest))


def _middles(place: Any, logs: Floats, size: int) -> Floats:
    """Return what brings the least and the largest of the logarithms at each place around 0."""
    most, least = np.full(size, -np.inf), np.full(size, np.inf)
    np.maximum.at(most, place, logs)
    np.minimum.at(least, place, logs)
    filled = np.isfinite(most)
    return np.where(filled, -0.5 * (np.where(filled, most, 0) + np.where(filled, least, 0)), 0.0)


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
    shared = [] if p is None else [p.X >= 0, *p.own_limits]
    stated = cp.Problem(objective, [*shared, *constraints])
    program = _affine_program(stated) or _by_reductions(stated)
    return program if p is None else _with_shared_limits(_bounds_apart(program), p)


def _affine_program(problem: cp.Problem) -> Program | None:
    """Compile a linear program by the core of cvxpy; ``None`` for any other problem.

    The reductions, eight of which copy a problem, take three times as long.
    """
    limits = sorted(problem.constraints, key=lambda limit: type(limit) is not Equality)
    if any(type(limit) not in {Equality, Inequality} for limit in limits):
        return None  # cones, which have several arguments
    expressions = [*(limit.expr for limit in limits), problem.objective.args[0]]
    plain = all(each.attributes == _FREE for each in problem.variables())
    if not plain or problem.parameters() or not all(map(_is_affine, expressions)):
        return None
    places, height = InverseData(problem), sum(each.size for each in expressions)
    try:
        flat = CoeffExtractor(places, None).affine(expressions)
    except NotImplementedError:  # of cumsum, for instance, which has variables of its own
        return None
    column, row = np.divmod(flat.tocsc().indices, height)
    shape = (height, places.x_length + 1)
    A = sparse.csr_array((flat.tocsc().data, (row, column)), shape=shape)
    goal, own = A[[-1]].toarray()[0], sparse.csc_array(A[:-1])
    goal = -goal if isinstance(problem.objective, cp.Maximize) else goal
    equal = sum(limit.size for limit in limits if type(limit) is Equality)
    return unscaled(
        sparse.csc_array((places.x_length, places.x_length)),
        sparse.csc_array(own[:, :-1]),
        -own[:, [-1]].toarray()[:, 0] + 0.0,
        np.arange(height - 1) < equal,
        np.full(places.x_length, -np.inf),
        c=goal[:-1],
        columns=places.var_offsets,
        offset=float(goal[-1]),
    )


def _is_affine(expression: cp.Expression) -> bool:
    """Whether the core of cvxpy knows an expression, and it is affine."""
    known = expression._max_ndim() <= _DIMENSIONS and expression._all_support_cpp()
    return bool(known and expression.size and expression.is_affine() and expression.is_real())


def _by_reductions(problem: cp.Problem) -> Program:
    """Compile any problem that cvxpy can, by all of its reductions."""
    try:
        data, _, inverse = problem.get_problem_data(cp.CLARABEL, solver_opts={})
    except (cp.error.DCPError, cp.error.SolverError):
        raise
    except Exception as error:  # NotImplementedError without a word, for instance
        raise cp.error.SolverError(f"{type(error).__name__} {error}") from error
    dims, c, b = data["dims"], *(np.asarray(data[name], dtype=float) for name in "cb")
    cones = (
        *(Cone("second order", int(size)) for size in dims.soc),
        *(Cone("semidefinite", n * (n + 1) // 2, order=int(n)) for n in dims.psd),
        *[Cone("exponential", 3)] * int(dims.exp),
        *(Cone("power", 3, powers=(float(power), 1 - float(power))) for power in dims.p3d),
        *(Cone("power", len(powers) + 1, powers=tuple(map(float, powers))) for powers in dims.pnd),
    )
    return unscaled(
        sparse.csc_array(data.get("P", (c.size, c.size))),
        sparse.csc_array(data["A"]),
        b,
        np.arange(dims.zero + dims.nonneg) < dims.zero,
        np.full(c.size, -np.inf),
        c=c,
        cones=cones,
        columns=dict(data["param_prob"].var_id_to_col),
        offset=float(inverse[-1]["offset"]),
    )


def unscaled(
    P: sparse.csc_array,
    A: sparse.csc_array,
    b: Floats,
    equality: Bools,
    lower: Floats,
    **more: Any,
) -> Program:
    """Return a program without upper bounds and scales, and unless told without costs."""
    none, column, row = np.zeros(lower.size), np.ones(lower.size), np.ones(b.size)
    scales = {"c": none, "upper": none + np.inf, "column": column, "row": row}
    return Program(P=P, A=A, b=b, equality=equality, lower=lower, **(scales | more))


def _with_shared_limits(program: Program, p: Problem) -> Program:
    """Put the limits that all policies share in front; where a job cannot run its share is zero.

    Capacities of hard resources are the first rows, the time of each job the next.
    """
    instance, width = p.instance, program.c.size
    cells = slice(program.columns[p.X.id], program.columns[p.X.id] + p.X.size)
    usage = instance.usage.tocoo()
    row, (option, resource) = usage.coords[0], np.divmod(usage.coords[1], instance.capacity.size)
    place = resource, cells.start + option * instance.rows + row
    units, shape = usage.data * instance.row_count[row], (instance.capacity.size, width)
    held = sparse.csr_array((units, place), shape=shape)[instance.hard]
    option = np.arange(instance.options)[:, None]
    member = cells.start + option * instance.rows + instance.member_row
    place = np.tile(instance.member_job, instance.options), member.ravel()
    share, shape = np.tile(instance.member_share, instance.options), (instance.jobs, width)
    time = sparse.csr_array((share, place), shape=shape)
    A = sparse.csc_array(sparse.vstack([held, time, program.A]))
    shared, upper = A.shape[0] - program.b.size, program.upper.copy()
    upper[cells] = np.where(instance.can_run.ravel(order="F"), upper[cells], 0.0)
    return replace(
        program,
        A=A,
        b=np.concatenate([instance.capacity[instance.hard], np.ones(instance.jobs), program.b]),
        equality=np.append(np.zeros(shared, dtype=bool), program.equality),
        upper=upper,
        row=np.ones(A.shape[0]),
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
