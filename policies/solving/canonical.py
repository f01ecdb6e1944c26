"""From a cvxpy problem to a cone program in arrays: the short way, and by all reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from cvxpy.constraints import Equality, Inequality
from cvxpy.cvxcore.python import canonInterface
from cvxpy.lin_ops.lin_op import CONSTANT_ID
from scipy import sparse

from apportion.policies.solving.cone import Cone, ConeProgram, among_limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cvxpy.lin_ops.lin_op import LinOp

    from apportion.policies.problem import Problem
    from apportion.types import Floats


def canonicalise(problem: cp.Problem) -> ConeProgram:
    """Compile a cvxpy problem; a maximisation becomes the minimisation of its negative."""
    program = straight(problem.objective, problem.constraints)
    return canonicalise_by_reductions(problem) if program is None else program


def canonicalise_by_reductions(problem: cp.Problem) -> ConeProgram:
    """Compile any problem that cvxpy can, by all of its reductions.

    Raises
    ------
    cvxpy.error.DCPError, cvxpy.error.SolverError
        If the problem is not convex by cvxpy's rules, Clarabel has no such cones, or cvxpy fails.
    """
    try:
        data, _, inverse = problem.get_problem_data(cp.CLARABEL, solver_opts={})
    except (cp.error.DCPError, cp.error.SolverError):
        raise
    except Exception as error:  # NotImplementedError without a word, for instance
        raise cp.error.SolverError(f"{type(error).__name__} {error}") from error
    return cone_program(data, float(inverse[-1]["offset"]))


def straight(
    objective: cp.Maximize | cp.Minimize,
    constraints: Sequence[cp.Constraint],
    p: Problem | None = None,
) -> ConeProgram | None:
    """Compile a linear program with at most one minimum or maximum; None for any other problem.

    cvxpy goes from a problem to its matrices in eight reductions, each of which copies it, since
    any of its parts may be curved, a parameter or of several dimensions. Most policies are linear
    but for one ``min`` or ``max`` over the jobs, the goal itself. That is taken off here as cvxpy
    does, ``t`` with ``e <= t`` for ``max(e)``, and its core makes one matrix of all that is left:
    the same numbers in the same order.

    Parameters
    ----------
    objective, constraints
        What is stated.
    p
        A problem whose `limits` come before the constraints; their rows go by their labels.
    """
    minimised, goal = isinstance(objective, cp.Minimize), objective.args[0]
    peeled = isinstance(goal, cp.max if minimised else cp.min) and goal.axis is None
    goal = goal.args[0] if peeled else goal
    by_type: dict[type, list[Any]] = {Equality: [], Inequality: []}
    variables, parameters = objective.variables(), objective.parameters()
    if p is not None:
        variables += [p.X, p.scale] if isinstance(p.scale, cp.Variable) else [p.X]
    for constraint in constraints:
        by_type.setdefault(type(constraint), []).append(constraint)
        variables += constraint.variables()
        parameters += constraint.parameters()
    equal, below, *others = by_type.values()
    if others or parameters or not variables:
        return None
    trees, place, rows = [], 0, dict[int | str, slice]()
    for stated in (*equal, None, *below):
        expression = goal if stated is None else stated.expr
        if not _affine(expression):
            return None
        try:
            trees.append(expression.canonical_form[0])
        except NotImplementedError:  # of cumsum, for instance, which has variables of its own
            return None
        first, place = place, place + expression.size
        if stated is None:
            goals = slice(first, place)
            place = place if peeled else first
        else:
            rows[stated.id] = slice(first, place)
    columns, width = dict[int, int](), int(peeled)
    for variable in variables:
        if not variable.size or variable.attributes != _FREE:
            return None
        if variable.id not in columns:
            columns[variable.id] = width
            width += variable.size
    A, b = _coefficients(trees, place + (not peeled), columns, width)
    A, b, c, offset = (_beside_a_level if peeled else _apart)(A, b, goals, 1 if minimised else -1)
    equality, P = np.arange(b.size) < goals.start, sparse.csc_array((width, width))
    program = ConeProgram(P, c, A, b, equality, offset, 1.0, columns, rows)
    below_goal = goals.stop if peeled else goals.start
    return program if p is None else among_limits(program, p, below_goal)


_FREE = cp.Variable().attributes
"""What is asked of a variable of which nothing is asked."""


def _affine(expression: cp.Expression) -> bool:
    """Whether an expression is affine, and one for the core of cvxpy."""
    return (
        expression.size > 0
        and expression.is_affine()
        and not expression.is_complex()
        and expression._max_ndim() <= _DIMENSIONS
        and expression._all_support_cpp()
    )


_DIMENSIONS = 2
"""The most that the core of cvxpy knows."""


def _coefficients(
    trees: Sequence[LinOp], height: int, columns: dict[int, int], width: int
) -> tuple[sparse.csc_array, Floats]:
    """Return A and b of the expressions ``A x - b``, one below the other, by the core of cvxpy."""
    alone: dict[int, int] = {CONSTANT_ID: 1}
    flat = canonInterface.get_problem_matrix(trees, width, columns, alone, {CONSTANT_ID: 0}, height)
    column, row = np.divmod(flat.indices, height)
    last = int(np.searchsorted(column, width))  # entries come by columns, and by rows in each
    b = np.zeros(height)
    b[row[last:]] = 0.0 - flat.data[last:]
    starts = np.searchsorted(column[:last], np.arange(width + 1)).astype(np.int32)
    entries = flat.data[:last], row[:last].astype(np.int32), starts
    return sparse.csc_array(entries, shape=(height, width)), b


def _beside_a_level(
    A: sparse.csc_array, b: Floats, goal: slice, sign: float
) -> tuple[sparse.csc_array, Floats, Floats, float]:
    """Make rows of a minimum or maximum those of ``sign * e <= t``, t the first column and goal."""
    turned = np.ones(b.size)
    turned[goal] = sign
    rows = np.arange(goal.start, goal.stop, dtype=np.int32)
    data = np.append(np.full(rows.size, -1.0), A.data * turned[A.indices])
    starts = A.indptr + np.int32(rows.size)
    starts[0] = 0
    entries = data, np.append(rows, A.indices), starts
    c = np.zeros(A.shape[1])
    c[0] = 1.0
    return sparse.csc_array(entries, shape=A.shape), turned * b + 0.0, c, 0.0


def _apart(
    A: sparse.csc_array, b: Floats, goal: slice, sign: float
) -> tuple[sparse.csc_array, Floats, Floats, float]:
    """Take the row of an affine goal out, which is to be minimised times a sign."""
    mine = A.indices == goal.start
    c = np.zeros(A.shape[1])
    column = np.repeat(np.arange(c.size), np.diff(A.indptr))
    c[column[mine]] = sign * A.data[mine]
    left = A.indices[~mine]
    starts = np.append(0, np.cumsum(np.bincount(column[~mine], minlength=c.size)))
    entries = A.data[~mine], left - (left > goal.start), starts.astype(np.int32)
    A = sparse.csc_array(entries, shape=(b.size - 1, c.size))
    return A, np.delete(b, goal.start), c, -sign * float(b[goal.start])


def cone_program(data: Mapping[str, Any], offset: float) -> ConeProgram:
    """Take a cone program from cvxpy's problem data for Clarabel, which count the signs as here."""
    dims, compiled = data["dims"], data["param_prob"]
    size = data["c"].size
    quadratic = data.get("P")
    equality = np.zeros(dims.zero + dims.nonneg, dtype=bool)
    equality[: dims.zero] = True
    rows, start = dict[int | str, slice](), 0
    for constraint in compiled.constraints:
        if start < equality.size:
            rows[constraint.id] = slice(start, start + constraint.size)
        start += constraint.size
    return ConeProgram(
        P=sparse.csc_array((size, size)) if quadratic is None else sparse.csc_array(quadratic),
        c=np.asarray(data["c"], dtype=float),
        A=sparse.csc_array(data["A"]),
        b=np.asarray(data["b"], dtype=float),
        equality=equality,
        offset=offset,
        cost_scale=1.0,
        columns=dict(compiled.var_id_to_col),
        rows=rows,
        cones=_cones(dims) if data["A"].shape[0] > equality.size else (),
    )


def _cones(dims: Any) -> tuple[Cone, ...]:
    """Return the cones that cvxpy counts, in the order of its rows."""
    return (
        *(Cone("second order", int(size)) for size in dims.soc),
        *(Cone("semidefinite", n * (n + 1) // 2, order=int(n)) for n in dims.psd),
        *[Cone("exponential", 3)] * int(dims.exp),
        *(Cone("power", 3, powers=(float(power), 1 - float(power))) for power in dims.p3d),
        *(Cone("power", len(powers) + 1, powers=tuple(map(float, powers))) for powers in dims.pnd),
    )
