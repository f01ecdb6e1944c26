"""Sums of logarithms to rounding errors: an interior point that starts where a cone solver ended.

A cone solver measures its errors against the largest weight, so where weights lie decades apart
light terms are known badly. Here the conditions of optimality are solved in the linear expressions
themselves, each condition in its own unit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from apportion.policies.solving.certificate import make_feasible
from apportion.policies.solving.solvers.sums_of_logarithms import SumOfLogarithms
from apportion.policies.solving.stages import made_for

if TYPE_CHECKING:
    from apportion.policies.solving.compiled import Compiled
    from apportion.policies.solving.cone import ConeProgram, Point
    from apportion.types import Floats


_STEPS = 60
_ENOUGH = 1e-14
"""Distance from the bound, relative to the least weight, that is taken for none."""
_INSIDE = 0.995
"""Part of the way to the nearest limit that a step goes."""
_NUDGE = 1e-8
"""Least share, slack and price at the start, relative to the largest that it could be."""
_REGULAR = 1e-13
"""Keeps the system regular where several shares make the same; refinement takes it out again."""
_FULL = 1e-9
"""Slack, relative to a limit, that is taken for none."""
_LOST = 1e-6
"""Reduced cost of a share, relative to what it adds, above which it is zero in every optimum."""


@dataclass(eq=False)
class _InteriorIterate:
    """Shares x, prices y of the limits, and what is left of both: all above zero."""

    x: Floats
    y: Floats
    z: Floats
    s: Floats

    @property
    def gap(self) -> float:
        """How far the objective is from its bound, where all conditions but this one hold."""
        return float(self.x @ self.z + self.s @ self.y)


@made_for("exponential")
def sharpen(program: ConeProgram, point: Point) -> Point | None:
    """Solve a sum of logarithms again, from a point near its optimum, to rounding errors.

    Maximise ``sum of weight * log(d + D x)`` subject to ``G x <= h``, ``x >= 0``. With v = d + D x,
    prices y of the limits and z of the signs, the optimum meets ``G'y - z = D'(weight / v)`` and
    nothing that has slack has a price. A primal-dual interior point method (Mehrotra, 1992) goes
    there by Newton steps, in the expressions themselves rather than in exponential cones.

    Returns
    -------
    point
        With a dual vector of the whole cone program made from the prices, so that it can be judged
        as any other. ``None`` where the program is no such sum, or the steps lead nowhere.
    """
    problem = SumOfLogarithms.of(program)
    if problem is None:
        return None
    iterate = _start(problem, point)
    system = _System(problem)
    least = np.inf
    for _ in range(_STEPS):
        if not _step(problem, system, iterate):
            return None
        if iterate.gap <= _ENOUGH * float(problem.weight.min()):
            break
        if iterate.gap > 0.9 * least and iterate.gap <= 1e-12 * float(problem.weight.sum()):
            break
        least = min(least, iterate.gap)
    vectors = problem.point(program, iterate.x, iterate.y)
    return None if vectors is None else replace(point, x=vectors[0], y=vectors[1])


def restored(compiled: Compiled, first: Point, X: Floats) -> Floats:
    """Give the logarithms of an optimum back to X, chosen beside it; the variables take it."""
    p, column = compiled.p, compiled.column
    cells = slice(start := compiled.program.columns[p.X.id], start + X.size)
    near = np.zeros(column.size)
    near[cells] = X.ravel(order="F") / column[cells]
    x = restore(compiled.program, first, near)
    reached = compiled.objective()
    if x is None:
        return X
    exact = (x[cells] * column[cells]).reshape(X.shape, order="F")
    p.X.value = exact = make_feasible(exact, p.instance)
    if compiled.worse_by(reached) > 0:
        p.X.value = exact = X
    return exact


@made_for("exponential")
def restore(program: ConeProgram, optimum: Point, near: Floats) -> Floats | None:
    """Move a point that has nearly the logarithms of an optimum to where it has them.

    By the least relative change of what is not zero, so that limits that have a price stay used up
    and others are kept.

    Parameters
    ----------
    near
        Shares in the columns of the program, shape (columns,); only those count.

    Returns
    -------
    x
        The same with the changed shares; ``None`` where the program is no sum of logarithms.
    """
    problem = SumOfLogarithms.of(program)
    if problem is None:
        return None
    D, G, best = problem.D, problem.G, optimum.x[problem.cells]
    worth, lost = (
        D.T @ (problem.weight / problem.inside(best)),
        (problem.sign * optimum.y[problem.bounds])[: best.size],
    )
    x = np.where(lost > _LOST * worth, 0.0, near[problem.cells])  # these are zero in every optimum
    slack, price = problem.h - G @ x, optimum.y[problem.limits]
    full = slack <= _FULL * problem.h
    priced = price[full] * problem.h[full] > _FULL * float(problem.weight.min())
    rows = sparse.vstack([D, G[full]]) @ sparse.diags_array(x)
    missing = np.concatenate(
        [
            D @ (best - x),
            np.where(priced, slack[full], np.minimum(slack[full], 0.0)),
        ]
    )
    size = 1 / np.maximum(np.sqrt(rows.multiply(rows).sum(axis=1)), 1e-300)
    rows, missing = sparse.csr_array(sparse.diags_array(size) @ rows), size * missing
    regular = sparse.diags_array(np.full(size.size, _REGULAR))
    factors = splu(sparse.csc_array(rows @ rows.T + regular))
    change = np.zeros(x.size)
    for _ in range(4):
        change = change + rows.T @ factors.solve(missing - rows @ change)
    restored = near.copy()
    restored[problem.cells] = x * (1 + np.maximum(change, -1.0))
    return restored


def _start(problem: SumOfLogarithms, point: Point) -> _InteriorIterate:
    """Take a point into the inside, each number in its own unit."""
    D, G, h = problem.D, problem.G, problem.h
    used = sparse.csc_array(sparse.diags_array(1 / h) @ G)
    most = 1 / np.maximum(used.max(axis=0).toarray().ravel(), 1e-300)
    x = np.maximum(point.x[problem.cells], _NUDGE * most)
    gradient = D.T @ (problem.weight / problem.inside(x))
    worth = (used @ sparse.diags_array(gradient * most)).max(axis=1).toarray().ravel() / h
    y = np.maximum(point.y[problem.limits], _NUDGE * worth)
    paid = G.T @ y
    z = np.maximum(paid - gradient, _NUDGE * np.maximum(paid, gradient))
    s = np.maximum(h - G @ x, _NUDGE * h)
    return _InteriorIterate(x, y, z, s)


def _step(problem: SumOfLogarithms, system: _System, at: _InteriorIterate) -> bool:
    """Take a predictor and corrector step; tell whether it could be taken."""
    D, G, weight = problem.D, problem.G, problem.weight
    v = problem.inside(at.x)
    each = weight / v
    dual = D.T @ each - G.T @ at.y + at.z
    primal = problem.h - G @ at.x - at.s
    if not system.factorise(at.z / at.x, each / v, at.s / at.y):
        return False

    def solve(xz: Floats, sy: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        dx, dy = system.solve(dual + xz / at.x, primal - sy / at.y)
        return dx, dy, (xz - at.z * dx) / at.x, (sy - at.s * dy) / at.y

    mean = at.gap / (at.x.size + at.s.size)
    dx, dy, dz, ds = solve(-at.x * at.z, -at.s * at.y)
    ahead = min(_room(at.x, dx), _room(at.s, ds)), min(_room(at.z, dz), _room(at.y, dy))
    left = (at.x + ahead[0] * dx) @ (at.z + ahead[1] * dz)
    left += (at.s + ahead[0] * ds) @ (at.y + ahead[1] * dy)
    target = mean * (left / at.gap) ** 3
    dx, dy, dz, ds = solve(target - at.x * at.z - dx * dz, target - at.s * at.y - ds * dy)
    if not (np.isfinite(dx).all() and np.isfinite(dy).all()):
        return False
    # One length for both: the conditions are not linear, so that prices must go with the shares.
    length = min(1.0, _INSIDE * min(map(_room, (at.x, at.s, at.z, at.y), (dx, ds, dz, dy))))
    at.x, at.s = at.x + length * dx, at.s + length * ds
    at.y, at.z = at.y + length * dy, at.z + length * dz
    return True


def _room(value: Floats, step: Floats) -> float:
    """How much of a step can be taken until a value is zero, at most a little above all of it."""
    shrinks = step < 0
    return float((value[shrinks] / -step[shrinks]).min(initial=1 / _INSIDE))


class _System:
    """The linear systems of Newton steps, of one pattern: only their diagonals change.

    ``[[own, D', G'], [D, -1 / curve, 0], [G, 0, -slack]]``, in which the middle part stands for
    ``D' curve D`` in the first corner.
    """

    def __init__(self, problem: SumOfLogarithms) -> None:
        self._sizes = problem.D.shape[1], problem.D.shape[0], problem.G.shape[0]
        self._D, self._G = sparse.csr_array(problem.D.T), problem.G
        self._D_squared = self._D.multiply(self._D).tocsr()
        self._G_squared = problem.G.multiply(problem.G).tocsr()
        below = sparse.vstack([problem.D, problem.G])
        columns, rows = self._sizes[0], below.shape[0]
        whole = sparse.block_array(
            [[sparse.eye_array(columns), below.T], [below, sparse.eye_array(rows)]], format="csc"
        )
        whole.sort_indices()
        self._column = np.repeat(np.arange(columns + rows), np.diff(whole.indptr))
        self._whole = whole
        self._diagonal = np.flatnonzero(whole.indices == self._column)
        self._signs = np.repeat([_REGULAR, -_REGULAR], [columns, rows])

    def factorise(self, own: Floats, curve: Floats, slack: Floats) -> bool:
        """Scale a system to a diagonal of one, regularise and factorise it; tell if that can be."""
        columns = own + self._D_squared @ curve
        limits = slack + self._G_squared @ (1 / columns)
        self._scale = 1 / np.sqrt(np.concatenate([columns, 1 / curve, limits]))
        whole = self._whole
        data = whole.data.copy()
        data[self._diagonal] = np.concatenate([own, -1 / curve, -slack])
        data *= self._scale[whole.indices] * self._scale[self._column]
        shape = whole.shape
        self._matrix = sparse.csc_array((data, whole.indices, whole.indptr), shape=shape)
        regular = data.copy()
        regular[self._diagonal] += self._signs
        if not np.isfinite(regular).all():
            return False
        try:
            self._factors = splu(
                sparse.csc_array((regular, whole.indices, whole.indptr), shape=shape)
            )
        except RuntimeError:  # SuperLU's word for a singular matrix
            return False
        return True

    def solve(self, upper: Floats, lower: Floats) -> tuple[Floats, Floats]:
        """Solve for shares and prices, refined against the system as it is."""
        columns, terms, _ = self._sizes
        right = self._scale * np.concatenate([upper, np.zeros(terms), lower])
        found = self._factors.solve(right)
        for _ in range(2):
            found = found + self._factors.solve(right - self._matrix @ found)
        found = self._scale * found
        return found[:columns], found[columns + terms :]
