"""The last digits of a program in arrow form: its one optimum, or its prices at a kink.

Where no two jobs are alike, as many constraints hold at the optimum of the level as there are cells
that are not zero, and one more for the level. Then they determine it: one sparse linear system
gives the cells, its transpose the dual values. If every constraint that holds has a dual value that
is not zero, any other point costs more, and nothing is left to choose.

Elsewhere the interior point ends in the middle of all optima and of all their dual vectors, so that
of a slack and its dual value the larger one is the one that may be positive.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from apportion.policies.solving.solvers.kinks import DualFace

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from apportion.policies.solving.solvers.arrow_kkt import ArrowPoint, ArrowProgram
    from apportion.types import Floats


_CERTAIN = 1e-9
"""Least dual value of what certainly holds, relative to what it is made of."""
_MET = 1e-12
"""By how much a constraint may be missed."""
_SOLVED = 1e-13
"""Largest residual of the equations, relative to the numbers in them."""


def only_corner(program: ArrowProgram, near: ArrowPoint) -> Floats | None:
    """Return the cells of the optimum of the level, or ``None`` where others are as good.

    Parameters
    ----------
    program
        A program about the level, without a base and gains.
    near
        A point inside, close to its optimum, which tells what holds there.

    Returns
    -------
    x
        Shape (options, jobs); rounding errors aside it is the only optimum. ``None`` also where
        `near` does not tell what holds.
    """
    T, usage = program.throughput, program.usage
    option, job = np.nonzero(near.x > near.cost)
    needs, times = np.flatnonzero(near.need > near.met), np.flatnonzero(near.time > near.idle)
    full = np.flatnonzero(near.price > near.free)
    size = option.size + 1
    if needs.size + times.size + full.size != size:
        return None
    first, last = needs.size, needs.size + times.size
    of_job = np.full((2, program.rate.size), -1)
    of_job[0, needs], of_job[1, times] = np.arange(first), np.arange(first, last)
    of_resource = np.full(program.resources, -1)
    of_resource[full] = np.arange(last, size)
    speed, held = T[option, job], usage[option, job]
    row = np.concatenate([*of_job[:, job], of_resource[program.resource[option]], np.arange(first)])
    column = np.concatenate([np.tile(np.arange(size - 1), 3), np.full(first, size - 1)])
    value = np.concatenate([speed, np.ones(size - 1), held, -program.rate[needs]])
    inside = row >= 0
    entries = value[inside], (row[inside], column[inside])
    system = sparse.csc_array(entries, shape=(size, size))
    limit, toward = np.zeros(size), np.zeros(size)
    limit[first:], toward[-1] = 1.0, 1.0
    try:
        factors: Any = splu(system)  # its stubs know no transposed systems
    except RuntimeError:  # what holds repeats itself
        return None
    cells = _refined(system, factors.solve, limit)
    dual = _refined(system.T, partial(factors.solve, trans="T"), toward)
    if cells is None or dual is None:
        return None
    x, need, time = np.zeros_like(T), np.zeros(T.shape[1]), np.zeros(T.shape[1])
    price = np.zeros(program.resources)
    x[option, job] = cells[:-1]
    need[needs], time[times], price[full] = -dual[:first], dual[first:last], dual[last:]
    return x if _is_only_optimum(program, x, cells[-1], need, time, price, near) else None


def _refined(
    system: sparse.csc_array | sparse.csr_array, solve: Callable[[Floats], Floats], right: Floats
) -> Floats | None:
    """Solve a system and refine what comes out; ``None`` if it cannot be solved to rounding."""
    found = solve(right)
    found = found + solve(right - system @ found)
    size = np.asarray(abs(system) @ np.abs(found)).max(initial=1.0)
    return found if np.abs(right - system @ found).max() <= _SOLVED * size else None


def _is_only_optimum(
    program: ArrowProgram,
    x: Floats,
    level: float,
    need: Floats,
    time: Floats,
    price: Floats,
    near: ArrowPoint,
) -> bool:
    """Whether all constraints are met, and all that hold have a dual value."""
    T, usage = program.throughput, program.usage
    pay = need * T
    paid = time + usage * price[program.resource][:, None]
    cost, size = paid - pay, paid + pay
    least = _CERTAIN * size.max(axis=0)
    made = np.einsum("jm,jm->m", T, x)
    met = (
        (x >= -_MET).all()
        and (made >= (1 - _MET) * program.rate * level).all()
        and (x.sum(axis=0) <= 1 + _MET).all()
        and (program.held(usage * x) <= 1 + _MET).all()
    )
    zero = x == 0
    return bool(
        met
        and (cost > least)[zero].all()
        and (need * T.max(axis=0) > least)[near.need > near.met].all()
        and (time > least)[near.time > near.idle].all()
        and (price > 0)[near.price > near.free].all()
    )


_DEPENDENT = 1e-9
"""Difference of speeds, or singular value of equations, relative to the largest, that is none."""


def least_arrow_prices(
    program: ArrowProgram, at: ArrowPoint, rate: Callable[[], Floats], capacity: Floats
) -> Floats | None:
    """Return the prices with the least sum of squares, or ``None`` if there are no others.

    Parameters
    ----------
    program, at
        A program about the level only, without gains, and its optimum.
    rate
        Returns what the jobs need more per unit of level, where that is another rate than the
        program's, shape (jobs,).
    capacity
        Units of each resource, shape (resources,).

    Returns
    -------
    Floats or None
        What all units of each resource add to the level, shape (resources,).
    """
    full = np.flatnonzero(at.price > at.free)
    if not full.size or not _leaves_prices_open(program, at, full):
        return None
    face, slack, limit = _face(program, at, rate(), 1 / capacity)
    y = face.least(slack, limit)
    return None if y is None else y[face.priced]


def _leaves_prices_open(program: ArrowProgram, at: ArrowPoint, full: NDArray[np.intp]) -> bool:
    """Whether the dual values of some jobs, or a ratio of prices, can be anything.

    Where a job runs, its need, its time and the prices meet in one equation. A job that is bound
    by its need and its time, yet runs at one speed only, leaves its own dual values open. Jobs
    that run on more options than they need relate prices to each other; as the level fixes their
    scale, there have to be as many relations as there are prices but one.
    """
    runs, always = at.x > at.cost, at.time > at.idle
    both = always & (at.need > at.met)
    fastest = np.where(runs, program.throughput, 0.0).max(axis=0)
    slowest = np.where(runs, program.throughput, np.inf).min(axis=0)
    one_speed = fastest - slowest <= _DEPENDENT * fastest
    if (both & one_speed).any():
        return True
    linking = np.flatnonzero(runs.sum(axis=0) > 1 + both)
    if full.size == 1 or not linking.size:
        return full.size > 1
    used = runs[:, linking].T
    time = np.broadcast_to(always[linking][:, None], used.shape)
    own = np.stack([program.throughput[:, linking].T, time], axis=2) * used[:, :, None]
    drawn = (program.usage[:, linking].T * used)[:, :, None] * (program.resource[:, None] == full)
    relations = drawn - own @ (np.linalg.pinv(own) @ drawn)
    size = np.linalg.svd(relations.reshape(-1, full.size), compute_uv=False)
    return int((size > _DEPENDENT * np.abs(drawn).max()).sum()) < full.size - 1


def _face(
    program: ArrowProgram, at: ArrowPoint, rate: Floats, units: Floats
) -> tuple[DualFace, Floats, Floats]:
    """List the conditions on the dual values of needs, times and capacities that are tight."""
    options, jobs = program.throughput.shape
    cell = np.arange(options * jobs)
    job = np.tile(np.arange(jobs), options)
    resource = np.repeat(program.resource, jobs)
    rows = 2 * jobs + program.resources
    A = sparse.csc_array(
        (
            np.concatenate(
                [-program.throughput.ravel(), np.ones(cell.size), program.usage.ravel(), rate]
            ),
            (
                np.concatenate([job, jobs + job, 2 * jobs + resource, np.arange(jobs)]),
                np.concatenate([cell, cell, cell, np.full(jobs, cell.size)]),
            ),
        ),
        shape=(rows, cell.size + 1),
    )
    face = DualFace(
        A=A,
        c=np.append(np.zeros(cell.size), -1.0),
        tight=np.concatenate([at.need > at.met, at.time > at.idle, at.price > at.free]),
        free=np.zeros(rows, dtype=bool),
        idle=np.append((at.x <= at.cost).ravel(), False),
        held=np.zeros(cell.size + 1, dtype=bool),
        priced=np.arange(2 * jobs, rows),
        units=units,
    )
    limit = np.append(np.zeros(jobs), np.ones(jobs + program.resources))
    return face, np.concatenate([at.met, at.idle, at.free]), limit
