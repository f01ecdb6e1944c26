"""Prices at a kink for the interior point in arrow form.

It ends in the middle of all optima and of all their dual vectors, so that of a slack and its dual
value the larger one is the one that may be positive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.policies.solving.solvers.dual_face import DualFace

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from apportion.policies.solving.solvers.arrow_kkt import ArrowPoint, ArrowProgram
    from apportion.types import Floats


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
