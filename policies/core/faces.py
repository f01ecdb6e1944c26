"""All optima of a program, as a program; and the dual vector with the least prices.

With one dual vector y every optimum x leaves slacks s with ``y's = 0`` (complementary slackness).
So a column with a reduced cost is at its bound, a row with a price is an equation, and at a curved
optimum ``P x`` is the same. Where y is inside the dual of a cone s is zero; where both are on the
boundary s is a multiple of what it is at any one optimum; a semidefinite s stays in its cone. No
objective is held at its value, for which a tolerance is needed.

All dual vectors go with any one optimum x: a dual value may differ from zero only on constraints
that are tight at x.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.policies.core.canonical import unscaled
from apportion.policies.core.conic import interior_point
from apportion.policies.core.highs import TIE

if TYPE_CHECKING:
    from apportion.policies.core.canonical import Point, Program
    from apportion.types import Bools, Floats, Ints

_UNSURE = 1e-6
"""Dual value of a point that is not exact up to which it is taken for zero."""
_NONE = 1e-9
"""Slack that is a solver's zero."""
_PROVES = 1e-8
"""Largest part of its bound that a dual vector may have on constraints that are not quite tight."""
_TIGHT = 1e-10
"""Slack, in scaled numbers, up to which a constraint is tight at an exact optimum."""


def optimal_face(program: Program, point: Point) -> Program:
    """Restrict a program to its optima, of which `point` is one, without its quadratic term.

    It is linear wherever every cone has a dual value. The point itself meets all constraints to the
    last digit, whatever an interior point left open.
    """
    x, y, tie = point.x, point.y, TIE if point.exact else _UNSURE
    reduced, made = program.reduced(x, y), program.A @ x
    slack, linear = program.b - made, program.equality.size
    low = reduced > np.maximum(np.abs(x - program.lower), tie)
    up = -reduced > np.maximum(np.abs(program.upper - x), tie)
    lower = np.where(low, program.lower, np.minimum(program.lower, x))
    upper = np.where(up, program.upper, np.maximum(program.upper, x))
    lower, upper = np.where(up, program.upper, lower), np.where(low, program.lower, upper)
    tight = program.equality | (y[:linear] > np.maximum(np.abs(slack[:linear]), tie))
    limits = np.where(tight, made[:linear], np.maximum(program.b[:linear], made[:linear]))
    rows, curved = np.arange(program.b.size), np.flatnonzero(np.diff(program.P.indptr))
    cones = program.cone_rows()
    held = [(cone, at) for cone, at in cones if np.abs(y[at]).max() > tie]
    kept = [
        (cone, at)
        for cone, at in cones
        if np.abs(y[at]).max() <= tie or cone.kind == "semidefinite"
    ]
    of_held = np.concatenate([rows[:0], *(rows[at] for _, at in held)])
    of_kept = np.concatenate([rows[:0], *(rows[at] for _, at in kept)])
    rays = [
        (y[at][None], np.array([True])) if cone.kind == "semidefinite" else _ray(slack[at])
        for cone, at in held
    ]
    by = sparse.block_diag([sparse.csr_array((0, 0)), *(ray for ray, _ in rays)], format="csr")
    equal = np.concatenate([tight[:0], *(equal for _, equal in rays)])
    of_rays = np.where(equal, by @ made[of_held], by @ program.b[of_held])
    A, P = program.A.tocsr(), program.P.tocsr()[curved]
    stacked = sparse.vstack([A[:linear], P, by @ A[of_held], A[of_kept]])
    return replace(
        program,
        P=sparse.csc_array(program.P.shape),
        A=sparse.csc_array(stacked),
        b=np.concatenate([limits, P @ x, of_rays, program.b[of_kept]]),
        equality=np.concatenate([tight, np.full(curved.size, True), equal]),
        lower=lower,
        upper=upper,
        cones=tuple(cone for cone, _ in kept),
        row=np.append(program.row[:linear], np.ones(stacked.shape[0] - linear)),
    )


def _ray(slack: Floats) -> tuple[Floats, Bools]:
    """Return rows, and which of them are equations, by which a slack stays a multiple of itself.

    At least 0 times it; where it is zero it stays zero.
    """
    pivot, by = int(np.abs(slack).argmax()), np.eye(slack.size)
    if abs(slack[pivot]) <= _NONE:
        return by, np.full(slack.size, True)
    by[:, pivot] -= slack / slack[pivot]
    by[pivot, pivot] = np.sign(slack[pivot])
    return by, np.arange(slack.size) != pivot


def least_duals(program: Program, point: Point, priced: Ints, capacity: Floats) -> Floats:
    """Return the dual vector with the least prices; that of the point where it is the only one.

    It does not depend on the solver or the order of jobs and types, and stays the same if a type is
    split into two of equal speeds::

        min  sum over resources of units * price**2
        s.t. c + P x + A'y = 0 where x is inside its bounds, >= 0 at the lower ones,
             <= 0 at the upper ones

    Cones beside the half lines keep their dual values, which are gradients.

    Parameters
    ----------
    program, point
        A scaled program and its optimum.
    priced, capacity
        Rows of the resources, and units of each; one of which there is none counts as one.
    """
    y, linear = point.y, program.equality.size
    if point.one_dual or not point.exact or not (y[priced] > TIE).any():
        return y
    x, slack = point.x, program.b - program.A @ point.x
    held = np.append(slack[:linear] <= _TIGHT, np.zeros(y.size - linear, dtype=bool))
    held[:linear] |= program.equality
    rows = np.flatnonzero(held)
    others = np.where(held, 0.0, y)
    others[:linear] = 0.0
    gradient = program.reduced(x, others)
    movable = program.lower < program.upper
    low = movable & (x - program.lower <= _TIGHT)
    up = movable & (program.upper - x <= _TIGHT)
    inside, A = movable & ~low & ~up, program.A.tocsr()[rows].T.tocsr()
    weight = np.zeros(y.size)
    weight[priced] = np.where(capacity > 0, capacity, 1.0) * program.row[priced] ** 2
    size = weight.max() or 1.0
    stacked = sparse.csc_array(sparse.vstack([A[inside], -A[low], A[up]]))
    signed = ~program.equality[rows]
    dual = unscaled(
        sparse.csc_array(sparse.diags_array(weight[rows] / size)),
        stacked,
        np.concatenate([-gradient[inside], gradient[low], -gradient[up]]),
        np.arange(stacked.shape[0]) < np.count_nonzero(inside),
        np.where(signed, 0.0, -np.inf),
    )
    found = interior_point(dual)
    least = others
    least[rows] = np.where(signed, np.maximum(found.x, 0.0), found.x)
    proves = abs(float(least[:linear] @ slack[:linear])) <= _PROVES * float(
        np.abs(least[:linear] * program.b[:linear]).sum()
    )
    return least if found.exact and proves else y
