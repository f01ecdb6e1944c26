"""The optima of a program as a program: what is the same in all of them is held.

With one dual vector y every optimum x leaves slacks s with ``y's = 0`` (complementary slackness).
So a column with a reduced cost is at its bound, a row with a price is an equation, and at a curved
optimum ``P x`` is the same. Where y is inside the dual of a cone s is zero; where both are on the
boundary s is a multiple of what it is at any one optimum, or if it is a matrix, zero beside y and
any such matrix on what is left. No objective is held at its value, for which a tolerance is needed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

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
    A, rows = program.A.tocsr(), np.flatnonzero(np.diff(program.P.indptr))
    P = program.P.tocsr()[rows]
    held, kept = list[_Part](), list[_Part]()
    for cone, place in program.cone_rows():
        if np.abs(y[place]).max() <= tie:
            kept.append(_Part(place, np.eye(cone.size), program.b[place], cone=cone))
        elif cone.kind == "semidefinite":
            parts = _beside(cone, place, slack[place], y[place], made, program.b)
            held.append(parts[0])
            kept += parts[1:]
        else:
            held.append(_ray(place, program.b[place], slack[place]))
    parts = [*held, *kept]
    stacked = [A[:linear], P]
    if parts:
        places = np.concatenate([np.arange(each.place.start, each.place.stop) for each in parts])
        stacked.append(sparse.block_diag([each.by for each in parts], format="csr") @ A[places])
    equal = [np.full(each.b.size, True) if each.equal is None else each.equal for each in held]
    b = np.concatenate([limits, P @ x, *(each.b for each in parts)])
    return replace(
        program,
        P=sparse.csc_array(program.P.shape),
        A=sparse.csc_array(sparse.vstack(stacked)),
        b=b,
        equality=np.concatenate([tight, np.full(rows.size, True), *equal]),
        lower=lower,
        upper=upper,
        cones=tuple(each.cone for each in kept if each.cone is not None),
        row=np.append(program.row[:linear], np.ones(b.size - linear)),
    )


class _Part(NamedTuple):
    """What of a cone is held: ``by @ (A x) <= b`` of its rows, equal where `equal` or ``None``.

    Or, with `cone`, what is left of it.
    """

    place: slice
    by: Floats
    b: Floats
    equal: Bools | None = None
    cone: Cone | None = None


def _ray(place: slice, b: Floats, slack: Floats) -> _Part:
    """Let ``b - A x`` be a multiple of a slack, at least 0 times it; or zero, if the slack is."""
    pivot, by = int(np.abs(slack).argmax()), np.eye(b.size)
    if abs(slack[pivot]) <= _NONE:
        return _Part(place, by, b - slack)
    by[:, pivot] -= slack / slack[pivot]
    by[pivot, pivot] = np.sign(slack[pivot])
    return _Part(place, by, by @ b, np.arange(b.size) != pivot)


def _beside(
    cone: Cone, place: slice, slack: Floats, y: Floats, made: Floats, b: Floats
) -> list[_Part]:
    """Return what of a matrix is zero in every optimum, and what is left of its cone."""
    of_dual, others, _ = ranges(cone, slack, y)
    zero = np.concatenate([triangle(block(cone, of_dual, of_dual)), *block(cone, of_dual, others)])
    order = others.shape[1]
    found, size = [_Part(place, zero, zero @ made[place])], order * (order + 1) // 2
    if order:
        left = triangle(block(cone, others, others))
        smaller = cone._replace(size=size, order=order)
        found.append(_Part(place, left, left @ b[place], cone=smaller))
    return found
