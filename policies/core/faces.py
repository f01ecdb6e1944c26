"""The optima of a program as a program: what is the same in all of them is held.

With one dual vector y every optimum x leaves slacks s with ``y's = 0`` (complementary slackness).
So a column with a reduced cost is at its bound, a row with a price is an equation, and at a curved
optimum ``P x`` is the same. Where y is inside the dual of a cone s is zero; where both are on the
boundary s is a multiple of what it is at any one optimum, or if it is a matrix, zero beside y and
any such matrix on what is left. No objective is held at its value, for which a tolerance is needed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.policies.core.cones import block, ranges, triangle
from apportion.policies.core.highs import TIE

if TYPE_CHECKING:
    from apportion.policies.core.canonical import Cone, Point, Program
    from apportion.types import Bools, Floats

_UNSURE = 1e-6
"""Dual value of a point that is not exact up to which it is taken for zero."""
_NONE = 1e-9
"""Slack that is a solver's zero."""


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
    lower = np.where(up, program.upper, np.minimum(program.lower, x))
    upper = np.where(low, program.lower, np.maximum(program.upper, x))
    lower, upper = np.where(low, program.lower, lower), np.where(up, program.upper, upper)
    tight = program.equality | (y[:linear] > np.maximum(np.abs(slack[:linear]), tie))
    limits = np.where(tight, made[:linear], np.maximum(program.b[:linear], made[:linear]))
    A = program.A.tocsr()
    held = [_Rows(A[:linear], limits, tight)]
    if program.P.nnz:
        P = program.P.tocsr()
        P = P[np.flatnonzero(np.diff(P.indptr))]
        held.append(_Rows(P, P @ x, np.ones(P.shape[0], dtype=bool)))
    cones: list[Cone] = []
    kept: list[_Rows] = []
    for cone, place in program.cone_rows():
        rows = _Rows(A[place], program.b[place], np.zeros(0, dtype=bool))
        if np.abs(y[place]).max() <= tie:
            cones.append(cone)
            kept.append(rows)
        elif cone.kind == "semidefinite":
            zero, left, smaller = _beside(cone, slack[place], y[place])
            at = zero @ made[place]
            held.append(_Rows(sparse.csr_array(zero @ rows.A), at, np.ones(at.size, dtype=bool)))
            if smaller.size:
                cones.append(smaller)
                kept.append(_Rows(sparse.csr_array(left @ rows.A), left @ rows.b, rows.equality))
        else:
            held.append(_ray(rows, slack[place]))
    every = [*held, *kept]
    b = np.concatenate([each.b for each in every])
    return replace(
        program,
        P=sparse.csc_array(program.P.shape),
        A=sparse.csc_array(sparse.vstack([each.A for each in every])),
        b=b,
        equality=np.concatenate([each.equality for each in held]),
        lower=lower,
        upper=upper,
        cones=tuple(cones),
        row=np.append(program.row[:linear], np.ones(b.size - linear)),
    )


class _Rows:
    """Rows of a program: ``A x <= b``, or ``== b`` where `equality` says so."""

    def __init__(self, A: sparse.csr_array, b: Floats, equality: Bools) -> None:
        self.A, self.b, self.equality = A, b, equality


def _ray(rows: _Rows, slack: Floats) -> _Rows:
    """Let ``b - A x`` be a multiple of a slack, at least 0 times it; or zero, if the slack is."""
    A, b = rows.A, rows.b
    pivot = int(np.abs(slack).argmax())
    if abs(slack[pivot]) <= _NONE:
        return _Rows(A, b - slack, np.ones(b.size, dtype=bool))
    part, sign = slack / slack[pivot], np.sign(slack[pivot])
    others = np.flatnonzero(np.arange(b.size) != pivot)
    beside = sparse.csr_array(A - sparse.csr_array(part[:, None]) @ A[[pivot]])
    return _Rows(
        sparse.vstack([beside[others], sign * A[[pivot]]], format="csr"),
        np.append((b - part * b[pivot])[others], sign * b[pivot]),
        np.append(np.ones(others.size, dtype=bool), False),
    )


def _beside(cone: Cone, slack: Floats, y: Floats) -> tuple[Floats, Floats, Cone]:
    """Return what of a matrix is zero in every optimum, what is not, and the cone of the latter."""
    of_dual, others, _ = ranges(cone, slack, y)
    zero = np.concatenate([triangle(block(cone, of_dual, of_dual)), *block(cone, of_dual, others)])
    order = others.shape[1]
    smaller = cone._replace(size=order * (order + 1) // 2, order=order)
    return zero, triangle(block(cone, others, others)), smaller
