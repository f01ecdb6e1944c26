"""The choice among equal optima: spend what the objective leaves, then share it most evenly.

Optima are often not unique. At the least makespan, say, most GPUs may be left unassigned. So
`solve` goes on after a policy's own objective:

1. among the optimal allocations take one that maximises the total throughput, each job's relative
   to its equal share (a policy that maximises a ratio: the largest scale), so that no job could
   have more without another having less;
2. among those take the one with the least sum of ``GPUs * X**2 / capacity``, so that what is left
   to choose is spread over jobs alike and over types in proportion to their GPUs.

The last is strictly convex: the allocation is unique, whichever solver found it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.errors import SolveError
from apportion.policies.solving.solvers.active_set_least_squares import least_squares
from apportion.policies.solving.solvers.optimise import Point, SolverName, optimise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.instance import Instance
    from apportion.policies.solving.solvers.cone_program import ConeProgram

    Floats = NDArray[np.float64]

__all__ = [
    "choose_among_optima",
    "evenness",
    "least_squares_on",
    "most_even",
    "optimal_face",
    "relative_throughput",
]

_LOG = logging.getLogger(__name__)

_SLACK = 1e-9
"""How far, relatively, an objective may give way; and the least dual value that counts."""


def relative_throughput(instance: Instance) -> Floats:
    """Return what each cell of X adds to the total of throughput / equal share, (rows, options)."""
    reference = np.where(
        instance.equal_share_throughput > 0,
        instance.equal_share_throughput,
        np.inf,  # a job that runs in combinations only has no share of its own to compare with
    )
    gain = np.zeros((instance.rows, instance.options))
    job = instance.member_job
    each = (
        instance.throughput
        * (instance.member_share * instance.count[job] / reference[job])[:, None]
    )
    np.add.at(gain, instance.member_row, each)
    return gain


def evenness(instance: Instance) -> Floats:
    """Weight of each squared cell of X in the last choice, shape (rows, options).

    The part of its type's GPUs that a row holds. A type without GPUs, of which every share is zero,
    weighs like the largest type: its weights must not dwarf those of the others.
    """
    there = np.where(instance.capacity > 0, instance.capacity, np.inf)
    largest = instance.capacity[instance.hard].max(initial=0.0) or 1.0
    capacity = np.where(np.isfinite(there), there, largest)[instance.option_accelerator]
    return instance.row_count[:, None] * np.maximum(instance.gpus, 1e-9) / capacity


def choose_among_optima(
    program: ConeProgram, first: Point, gain: Floats, squares: Floats, solver: SolverName
) -> Point:
    """Return the optimum with the largest gain and, among those, the least weighted squares.

    Parameters
    ----------
    program
        The cone program of the policy's own objective.
    first
        Its optimum.
    gain, squares
        Cost vectors over the columns of the program.
    """
    if first.unique:
        return first
    spending = replace(
        optimal_face(program, first), c=-gain / (np.abs(gain).max(initial=0.0) or 1.0)
    )
    try:
        second = optimise(spending, solver)
    except SolveError as error:
        _LOG.info("kept the first optimum: %s", error)
        return first
    return most_even(spending, second, squares, second.x) if second.status == "optimal" else first


def most_even(
    program: ConeProgram, optimum: Point, squares: Floats, near: Floats | None = None
) -> Point:
    """Return the optimum of a program with the least weighted squares.

    With `near`, a point that may be close to it, it is looked for by active sets first. Not where
    constraints leave a little slack to many jobs, which an exact solution would give to one.
    Rounding errors in the optimum can leave the equalities of the optimal face without a common
    point; the face with a little slack is then tried instead.
    """
    if optimum.unique:
        return optimum
    size = float(squares.max(initial=0.0)) or 1.0
    if near is not None:
        x = least_squares(optimal_face(program, optimum), squares / size, near)
        if x is not None:
            return optimum.at(x, optimum.y)
    P = sparse.csc_array(sparse.diags_array(squares / size))
    for restrict in (optimal_face, _near_optimal):
        face = restrict(program, optimum)
        try:
            point = optimise(replace(face, c=np.zeros_like(face.c), P=P), "clarabel")
        except SolveError as error:
            _LOG.info("no most even optimum on this face: %s", error)
            continue
        if point.status == "optimal":
            return point
    return optimum


def least_squares_on(program: ConeProgram, squares: Floats) -> Point | None:
    """Return the point with the least weighted squares among all that meet linear constraints.

    An interior point finds which constraints hold it, which then determine it to rounding errors.
    ``None`` if it finds nothing.
    """
    weight = squares / (float(squares.max(initial=0.0)) or 1.0)
    P = sparse.csc_array(sparse.diags_array(weight))
    try:
        point = optimise(replace(program, c=np.zeros_like(program.c), P=P), "clarabel")
    except SolveError as error:
        _LOG.info("no most even point: %s", error)
        return None
    if point.status != "optimal":
        return None
    x = least_squares(program, weight, point.x)
    return point if x is None else replace(point, x=x)


def optimal_face(program: ConeProgram, point: Point, costs: Floats | None = None) -> ConeProgram:
    """Restrict a program to its optima, of which `point` is one; with other `costs`, if given.

    For a linear program these are the feasible points at which every row with a positive dual
    value is tight (complementary slackness), so no tolerance on the objective is needed.
    """
    if not program.is_linear_program:
        near = _near_optimal(program, point)
        return near if costs is None else replace(near, c=costs)
    y = point.y[: program.linear]
    slack = (program.b - program.A @ point.x)[: program.linear]
    least = _SLACK if point.solver == "highs" else np.maximum(np.abs(slack), _SLACK)
    costs = program.c if costs is None else costs
    return replace(program, c=costs, equality=program.equality | (y > least))


def _near_optimal(program: ConeProgram, point: Point) -> ConeProgram:
    """Restrict a program to points whose objective is that of a point, but for a hair."""
    cost = float(program.c @ point.x)
    linear = program.linear
    A = program.A.tocsr()
    return replace(
        program,
        A=sparse.vstack(
            [A[:linear], sparse.csr_array(program.c[None, :]), A[linear:]], format="csc"
        ),
        b=np.concatenate(
            [program.b[:linear], [cost + _SLACK * max(1.0, abs(cost))], program.b[linear:]]
        ),
        equality=np.append(program.equality, False),
    )
