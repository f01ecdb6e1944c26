"""The optima of a curved program as linear constraints: what is the same in all of them.

At every optimum of a convex quadratic program ``P x`` and ``c'x`` are the same. And with one dual
vector y every optimum leaves slacks s with ``y's = 0``: where y is inside the dual of a cone s is
zero, where both are on the boundary s is a multiple of what it is at any one optimum, or if it is a
matrix, zero beside y and any such matrix on what is left, and only where y is zero s is free within
the cone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.policies.solving.solvers.newton import block, ranges, triangle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.cone import Cone, ConeProgram, Point
    from apportion.types import Floats


_NONE = 1e-9
"""Value, in scaled numbers, that is a solver's zero."""


def curved_face(program: ConeProgram, point: Point) -> ConeProgram:
    """Restrict a program to its optima, of which `point` is one; without its quadratic term.

    Linear wherever every cone has a dual value, so that a simplex method finds corners of it. The
    point itself meets the constraints to the last digit, whatever an interior point left open.
    """
    x, linear = point.x, program.linear
    A, y = program.A.tocsr(), point.y
    made = A @ x
    slack = program.b - made
    tight = program.equality | (y[:linear] > np.maximum(np.abs(slack[:linear]), _NONE))
    b = np.where(tight, made[:linear], np.maximum(program.b[:linear], made[:linear]))
    rows, limits, equal = [A[:linear]], [b], [tight]
    if program.P.nnz:
        P = program.P.tocsr()
        P = P[np.flatnonzero(np.diff(P.indptr))]
        rows, limits = [*rows, P], [*limits, P @ x]
        equal = [*equal, np.ones(P.shape[0], dtype=bool)]
    kept: list[Cone] = []
    open_rows, open_limits = [], []
    start = linear
    for cone in program.cones:
        place = slice(start, start := start + cone.size)
        if np.abs(y[place]).max() <= _NONE:
            kept.append(cone)
            open_rows.append(A[place])
            open_limits.append(program.b[place])
            continue
        if cone.kind == "semidefinite":
            zero, left, smaller = _beside(cone, slack[place], y[place])
            rows, limits = [*rows, sparse.csr_array(zero @ A[place])], [*limits, zero @ made[place]]
            equal = [*equal, np.ones(len(zero), dtype=bool)]
            if smaller.size:
                kept.append(smaller)
                open_rows.append(sparse.csr_array(left @ A[place]))
                open_limits.append(left @ program.b[place])
            continue
        on_ray, at, equalities = _ray(A[place], program.b[place], slack[place])
        rows, limits, equal = [*rows, on_ray], [*limits, at], [*equal, equalities]
    return replace(
        program,
        P=sparse.csc_array(program.P.shape),
        A=sparse.csc_array(sparse.vstack([*rows, *open_rows])),
        b=np.concatenate([*limits, *open_limits]),
        equality=np.concatenate(equal),
        cones=tuple(kept),
    )


def _ray(
    A: sparse.csr_array, b: Floats, slack: Floats
) -> tuple[sparse.csr_array, Floats, NDArray[np.bool_]]:
    """Let ``b - A x`` be a multiple of a slack, at least 0 times it; or zero, if the slack is."""
    pivot = int(np.abs(slack).argmax())
    if abs(slack[pivot]) <= _NONE:
        return A, b - slack, np.ones(b.size, dtype=bool)
    part = slack / slack[pivot]
    sign = np.sign(slack[pivot])
    others = sparse.csr_array(A - sparse.csr_array(part[:, None]) @ A[[pivot]])
    limits = b - part * b[pivot]
    equal = np.arange(b.size) != pivot
    others = sparse.vstack([others[np.flatnonzero(equal)], sign * A[[pivot]]], format="csr")
    return (
        others,
        np.append(limits[equal], sign * b[pivot]),
        np.append(np.ones(b.size - 1, bool), False),
    )


def _beside(cone: Cone, slack: Floats, y: Floats) -> tuple[Floats, Floats, Cone]:
    """Return what of a matrix is zero in every optimum, what is not, and the cone of the latter."""
    of_dual, others, _ = ranges(cone, slack, y)
    zero = np.concatenate([triangle(block(cone, of_dual, of_dual)), *block(cone, of_dual, others)])
    order = others.shape[1]
    smaller = cone._replace(size=order * (order + 1) // 2, order=order)
    return zero, triangle(block(cone, others, others)), smaller
