"""An interior point for allocation problems in which no two jobs are alike.

A step costs as much as reading the throughputs some forty times, however many jobs there are
(`apportion.policies.solving.solvers.arrow_kkt`). The predictor and corrector are Mehrotra's (1992).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.solving.solvers.arrow_kkt import (
    PAIRS,
    ArrowPoint,
    ArrowProgram,
    Eliminated,
    Residuals,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.types import Floats


_STEP = 0.995
_MOST_STEPS = 80
_PATIENCE = 12
"""Steps without a better point after which rounding errors have the last word."""
_PATIENCE_CLOSED = 2
"""The same once the gap is closed: the residuals that are left are rounding errors."""
_MORE_STEPS = 4
_PRIMAL = ("x", "level", "met", "idle", "free")
_DUAL = ("need", "time", "price", "cost")


def solve_arrow(
    program: ArrowProgram, tolerance: float = 1e-10, start: ArrowPoint | None = None
) -> ArrowPoint:
    """Solve by an infeasible-start predictor-corrector interior point.

    Returns the best point met: read its `error`, and certify what is made of it.

    Parameters
    ----------
    tolerance
        Relative gap and residuals at which to stop.
    start
        A point to go on from.
    """
    point = start or _start(program)
    best, least, since = point, (True, np.inf), 0
    for _ in range(_MOST_STEPS):
        missing = _residuals(program, point)
        gap, residual = _errors(program, point, missing)
        point.error = max(gap, residual)
        if not np.isfinite(point.error):
            break
        rank, since = (gap > tolerance, point.error), since + 1
        if rank < least:
            best, least, since = point, rank, 0
        is_open, error = least
        if error <= tolerance or since > (_PATIENCE if is_open else _PATIENCE_CLOSED):
            break
        try:
            point = _advance(program, point, missing)
        except np.linalg.LinAlgError:  # rounding errors have the last word
            break
    return best


def further(program: ArrowProgram, point: ArrowPoint) -> Iterator[ArrowPoint]:
    """Yield `point` and a few steps from it, for whoever has to know which constraints hold there.

    Among ten thousand jobs one may have a slack that is nearly its dual value when the gap is as
    small as asked for. Each step makes the one some hundred times as large as the other.
    """
    yield point
    for _ in range(_MORE_STEPS):
        try:
            point = _advance(program, point, _residuals(program, point))
        except np.linalg.LinAlgError:  # rounding errors have the last word
            return
        yield point


def _start(program: ArrowProgram) -> ArrowPoint:
    """Return a point well inside, though not on the equations."""
    options, jobs = program.throughput.shape
    busy = float(program.held(program.usage).max())
    x = np.full((options, jobs), min(0.5 / options, 0.5 / busy))
    ones = np.ones(jobs)
    room = np.full(program.resources, 0.5)
    prices = np.full(program.resources, float(jobs))
    return ArrowPoint(
        x, 0.0, ones.copy(), 0.5 * ones, room, ones.copy(), ones.copy(), prices, np.ones_like(x)
    )


def _residuals(program: ArrowProgram, at: ArrowPoint) -> Residuals:
    """Right-hand sides minus left-hand sides of every equation."""
    made = np.einsum("jm,jm->m", program.throughput, at.x)
    stationary = at.need * program.throughput
    stationary -= at.time
    stationary -= program.usage * at.price[program.resource][:, None]
    stationary += at.cost
    stationary += program.gain - program.squares * at.x
    return Residuals(
        need=program.base + program.rate * at.level + at.met - made,
        time=1.0 - at.x.sum(axis=0) - at.idle,
        capacity=1.0 - program.held(program.usage * at.x) - at.free,
        stationary=stationary,
        level=program.reward - float(program.rate @ at.need),
    )


def _complementarity(at: ArrowPoint) -> float:
    """Sum of all products of a slack and its dual value."""
    return sum(_product(getattr(at, a), getattr(at, b)) for a, b in PAIRS)


def _product(one: Floats, other: Floats) -> float:
    """Inner product, without the threads that a library of matrices would start for it."""
    return float(np.einsum("i,i", one.ravel(), other.ravel()))


def _errors(program: ArrowProgram, at: ArrowPoint, missing: Residuals) -> tuple[float, float]:
    """Relative gap of a point, and the largest of its relative residuals."""
    value = program.reward * at.level + float((program.gain * at.x).sum())
    # Relative to the value, but where that is about 0 to what it is made of.
    size = max(abs(value), 1e-8 * at.need.sum(), 1e-300)
    primal = max(float(np.abs(part).max()) for part in missing[:3])
    dual = float(np.abs(missing.stationary).max()) / (1.0 + float(at.need.max()))
    level = abs(missing.level) / max(program.reward, 1.0)
    return _complementarity(at) / size, float(max(primal, dual, level))


def _advance(program: ArrowProgram, at: ArrowPoint, missing: Residuals) -> ArrowPoint:
    """Take one predictor-corrector step."""
    system = Eliminated(program, at)
    count = at.x.size + 2 * at.met.size + at.free.size
    centre = _complementarity(at) / count
    products = [-getattr(at, a) * getattr(at, b) for a, b in PAIRS]
    ahead = system.solve(missing, products)
    primal, dual = (_longest(at, ahead, names) for names in (_PRIMAL, _DUAL))
    reached = sum(
        _product(here, dual_here)
        + dual * _product(here, dual_ahead)
        + primal * _product(there, dual_here)
        + primal * dual * _product(there, dual_ahead)
        for here, dual_here, there, dual_ahead in (
            (getattr(at, a), getattr(at, b), getattr(ahead, a), getattr(ahead, b)) for a, b in PAIRS
        )
    )
    target = (max(reached, 0.0) / count / centre) ** 3 * centre
    for product, (a, b) in zip(products, PAIRS, strict=True):
        change = getattr(ahead, a)
        change *= getattr(ahead, b)
        product += target
        product -= change
    ahead = system.solve(missing, products)
    lengths = {names: _longest(at, ahead, names) for names in (_PRIMAL, _DUAL)}
    for names, length in lengths.items():
        for name in names:
            moved = getattr(ahead, name)
            moved *= length
            moved += getattr(at, name)
            setattr(ahead, name, moved)
    ahead.steps = at.steps + 1
    return ahead


def _longest(at: ArrowPoint, ahead: ArrowPoint, names: tuple[str, ...]) -> float:
    """Step length, at most 1, that keeps every slack (or dual value) positive."""
    longest = 1.0
    for name in names:
        if name != "level":
            worst = float((getattr(ahead, name) / getattr(at, name)).min(initial=0.0))
            longest = min(longest, _STEP / -worst if worst < 0 else 1.0)
    return longest
