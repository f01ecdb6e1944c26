"""Prices where the objective has a kink: one choice, whichever solver found the optimum.

All dual vectors go with any one optimum x (complementary slackness): a dual value may differ from
zero only on constraints that are tight at x. Of the prices among them those are taken that have the
least sum of squares, each unit of a resource counted by itself:

    min  sum over resources of units * price**2
    s.t. c + P x + A'y = 0 where x is inside its bounds, >= 0 at the lower one, <= 0 at the upper

The choice depends neither on the solver nor on the order of jobs and types, and stays the same if a
type is split into two of equal speeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.policies.core.canonical import Program
from apportion.policies.core.conic import interior_point
from apportion.policies.core.highs import TIE

if TYPE_CHECKING:
    from apportion.policies.core.canonical import Point
    from apportion.types import Floats, Ints

_PROVES = 1e-8
"""Largest part of its bound that a dual vector may have on constraints that are not quite tight."""
_TIGHT = 1e-10
"""Slack, in scaled numbers, up to which a constraint is tight at an exact optimum."""


def least_duals(program: Program, point: Point, priced: Ints, capacity: Floats) -> Floats:
    """Return the dual vector with the least prices; that of the point where it is the only one.

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
    none = np.full(rows.size, np.inf)
    dual = Program(
        P=sparse.csc_array(sparse.diags_array(weight[rows] / size)),
        c=np.zeros(rows.size),
        A=stacked,
        b=np.concatenate([-gradient[inside], gradient[low], -gradient[up]]),
        equality=np.arange(stacked.shape[0]) < np.count_nonzero(inside),
        lower=np.where(signed, 0.0, -none),
        upper=none,
        column=np.ones(rows.size),
        row=np.ones(stacked.shape[0]),
    )
    found = interior_point(dual)
    least = others
    least[rows] = np.where(signed, np.maximum(found.x, 0.0), found.x)
    proves = abs(float(least[:linear] @ slack[:linear])) <= _PROVES * float(
        np.abs(least[:linear] * program.b[:linear]).sum()
    )
    return least if found.exact and proves else y
