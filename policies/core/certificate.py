"""What is proved about an allocation: that it is feasible, and how near the optimum it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.core.cones import into_dual, outside

if TYPE_CHECKING:
    from apportion.policies.core.canonical import Program
    from apportion.policies.instance import Instance
    from apportion.types import Floats


def make_feasible(X: Floats, instance: Instance) -> Floats:
    """Clip a solver's X into the time limits and capacities, which it may miss by a rounding error.

    The result meets every shared constraint to machine precision. Shares below 1e-12, or 1e-9 of
    the largest of their row, become zero; a job that is nearly done may need no more than 1e-10.
    """
    largest = X.max(axis=1, initial=0.0)
    there = instance.can_run & (np.maximum(1e-9 * largest, 1e-12)[:, None] < X)
    X = np.where(there, X, 0.0)
    time = np.bincount(
        instance.member_job,
        weights=instance.member_share * X.sum(axis=1)[instance.member_row],
        minlength=instance.jobs,
    )
    too_long = np.ones(instance.rows)
    np.maximum.at(too_long, instance.member_row, time[instance.member_job])
    X = X / too_long[:, None]
    usage = instance.usage.tocoo()
    row, (option, resource) = usage.coords[0], np.divmod(usage.coords[1], instance.capacity.size)
    units = usage.data * instance.row_count[row]
    held = np.bincount(resource, units * X[row, option], instance.capacity.size)
    excess = np.maximum(held / np.maximum(instance.capacity, 1e-300), 1.0)
    worst = np.ones(X.shape)
    np.maximum.at(worst, (row, option), np.where(units > 0, excess[resource], 1.0))
    return np.asarray(X / worst, dtype=float)


def dual_bound(program: Program, x: Floats, y: Floats, lower: Floats, upper: Floats) -> float:
    """Bound the optimum of a minimisation from below by a dual vector, recomputed from scratch.

    The solver's y is moved into the dual cone. What it then misses in ``Px + c + A'y = 0`` is
    charged at the worse end of a box, so that the bound holds for every point of that box, however
    inaccurate the solver was::

        -b'y - x'Px / 2 + sum of min(z * lower, z * upper),  z = P x + c + A'y

    Parameters
    ----------
    program, x, y
        A program and its primal and dual vectors.
    lower, upper
        The box.
    """
    y = into_dual_cone(program, y)
    missing = program.reduced(x, y)
    worst = np.minimum(missing * lower, missing * upper).sum()
    bound = worst - float(x @ (program.P @ x)) / 2 - program.b @ y
    return float(bound) * program.cost + program.offset


def into_dual_cone(program: Program, y: Floats) -> Floats:
    """Move a dual vector into the dual cone."""
    linear = program.equality.size
    y = np.append(np.where(program.equality, y[:linear], np.maximum(y[:linear], 0.0)), y[linear:])
    for cone, place in program.cone_rows():
        y[place] = into_dual(cone, y[place])
    return y


def violation(program: Program, x: Floats) -> float:
    """Tell by how much a point misses a constraint, relative to its terms if those are above 1."""
    slack = program.b - program.A @ x
    terms = np.maximum(np.abs(program.b) + abs(program.A) @ np.abs(x), 1.0)
    linear = slack[: program.equality.size]
    short = np.where(program.equality, np.abs(linear), -linear) / terms[: linear.size]
    beside = np.maximum(program.lower - x, x - program.upper) / np.maximum(np.abs(x), 1.0)
    cones = [outside(each, slack[at]) / terms[at].max() for each, at in program.cone_rows()]
    return float(max(short.max(initial=0.0), beside.max(initial=0.0), *cones, 0.0))


def optimality_error(program: Program, x: Floats, y: Floats) -> float:
    """Tell by how much a point misses the conditions of optimality, in numbers around 1.

    Of a slack and its dual value neither may be below zero, and one must be zero.
    """
    reduced, slack = program.reduced(x, y), program.b - program.A @ x
    linear = slack[: program.equality.size]
    dual = y[: linear.size]
    off = [
        violation(program, x),
        np.abs(x - np.clip(x - reduced, program.lower, program.upper)).max(initial=0.0),
        np.abs(np.minimum(linear, dual))[~program.equality].max(initial=0.0),
        np.abs(y - into_dual_cone(program, y)).max(initial=0.0),
    ]
    off += [abs(float(slack[place] @ y[place])) for _, place in program.cone_rows()]
    return float(np.max(off))


def relative_gap(value: float, bound: float, size: float = 0.0) -> float:
    """Distance of an objective value from its bound, relative to the larger, or to `size`."""
    size = max(abs(value), abs(bound), size)
    return abs(value - bound) / size if size > 0 else 0.0
