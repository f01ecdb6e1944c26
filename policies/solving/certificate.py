"""What `solve` proves about an allocation: that it is feasible, and how near the optimum it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from apportion.policies.solving.cone import rows_that_are_bounds
from apportion.policies.solving.curved_cones import INTO_DUAL, OUTSIDE

if TYPE_CHECKING:
    from apportion.policies.instance import Instance
    from apportion.policies.solving.cone import ConeProgram, Point
    from apportion.types import Bools, Floats, Ints


_TIGHT = 1e-9
"""Slack, in scaled numbers, up to which a constraint is tight at a corner that HiGHS returns."""


class Entries(NamedTuple):
    """What rows hold of resources in cells of X, cells counted row by row, shape (entries,) each.

    ``cell`` is ``None`` where each cell in order holds one resource.
    """

    row: Ints
    cell: Ints | None
    resource: Ints
    amount: Floats

    @classmethod
    def of(cls, instance: Instance, *, one_each: bool) -> Entries:
        """List what rows hold; `one_each` if each row holds its scale factor of one resource."""
        rows, options, held = instance.rows, instance.options, instance.columns["scale_factor"]
        if one_each:
            every = instance.option_accelerator[None].repeat(rows, axis=0).ravel()
            return cls(np.arange(rows).repeat(options), None, every, held.repeat(options))
        usage = instance.usage.tocoo()
        used = usage.data > 0
        row, column = usage.coords[0][used].astype(np.intp), usage.coords[1][used].astype(np.intp)
        option, resource = np.divmod(column, instance.capacity.size)
        return cls(row, row * options + option, resource, usage.data[used])


@dataclass(frozen=True, eq=False)
class SharedLimits:
    """What every allocation of an instance must meet, whatever the counts of its jobs.

    Attributes
    ----------
    entries
        What rows hold; ``None`` if each holds its scale factor, and the options are the resources.
    """

    instance: Instance
    entries: Entries | None

    @classmethod
    def of(cls, instance: Instance) -> SharedLimits:
        """List what rows hold, where it is to be listed."""
        one_each = instance.own_usage is None and bool((instance.columns["scale_factor"] > 0).all())
        in_order = instance.option_accelerator.tolist() == [*range(instance.capacity.size)]
        if (
            one_each and in_order and instance.capacity.size > 1
        ):  # one column is summed in another order
            return cls(instance, None)
        return cls(instance, Entries.of(instance, one_each=one_each))

    def clip(self, X: Floats, row_count: Floats) -> Floats:
        """Clip shares into the limits, see `make_feasible`.

        Parameters
        ----------
        row_count
            Identical rows that each row stands for, shape (rows,).
        """
        instance, entries = self.instance, self.entries
        largest = np.ascontiguousarray(X.T).max(axis=0, initial=0.0)  # quicker than by rows
        # What solvers leave of a share that is 0; see `make_feasible`.
        there = np.maximum(1e-9 * largest, 1e-12)[:, None] < X
        alone = instance.own_usage is None
        X = np.where((instance.throughput > 0 if alone else instance.can_run) & there, X, 0.0)
        if alone or instance.solo:
            too_long = np.maximum(np.add.reduce(X, axis=1), 1.0)
        else:
            time = np.bincount(
                instance.member_job,
                weights=instance.member_share * X.sum(axis=1)[instance.member_row],
                minlength=instance.jobs,
            )
            too_long = np.ones(instance.rows)
            np.maximum.at(too_long, instance.member_row, time[instance.member_job])
        X = X / too_long[:, None]
        if entries is None:
            held = np.add.reduce((instance.columns["scale_factor"] * row_count)[:, None] * X)
        else:
            shares = X.ravel() if entries.cell is None else X.ravel()[entries.cell]
            held = np.bincount(
                entries.resource,
                weights=entries.amount * row_count[entries.row] * shares,
                minlength=instance.capacity.size,
            )
        if (held <= instance.capacity).all():
            return X
        excess = np.maximum(held / np.maximum(instance.capacity, 1e-300), 1.0)
        if entries is None:
            return np.asarray(X / excess)
        worst = excess[entries.resource]
        if entries.cell is not None:
            of_cell, worst = worst, np.ones(X.size)
            np.maximum.at(worst, entries.cell, of_cell)
        return np.asarray(X / worst.reshape(X.shape), dtype=float)


def make_feasible(X: Floats, instance: Instance) -> Floats:
    """Clip a solver's X into the time limits and capacities, which it may miss by a rounding error.

    The result meets every shared constraint to machine precision. Shares below 1e-12, or 1e-9 of
    the largest of their row, become zero; a job that is nearly done may need no more than 1e-10.
    """
    return SharedLimits.of(instance).clip(X, instance.row_count)


def dual_bound(program: ConeProgram, x: Floats, y: Floats, lower: Floats, upper: Floats) -> float:
    """Bound the optimum of a minimisation from below by a dual vector, recomputed from scratch.

    The solver's y is projected onto the dual cone. What it then misses in ``Px + c + A'y = 0`` is
    charged at the worse end of a box, so the bound holds for every point of that box, however
    inaccurate the solver was.

    Parameters
    ----------
    program
        A cone program.
    x, y
        Its primal and dual vectors.
    lower, upper
        The box.
    """
    y = into_dual_cone(program, y)
    curve = program.P @ x if program.P.nnz else np.zeros_like(x)
    missing = curve + program.c + program.A.T @ y
    worst = np.minimum(missing * lower, missing * upper).sum()
    quadratic = float(x @ curve) / 2
    return float(worst - quadratic - program.b @ y) * program.cost_scale + program.offset


def relative_gap(value: float, bound: float, size: float | None = None) -> float:
    """Distance of an objective value from its bound, relative to the larger of the two.

    Or to `size`, where that is not what is to be compared with.
    """
    size = max(abs(value), abs(bound)) if size is None else size
    return abs(value - bound) / size if size > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Bounds:
    """Constraints of a linear program on one column alone, and what is left out of it.

    Attributes
    ----------
    row, column, factor
        Rows that only say ``-factor * x <= 0`` of a column.
    held, held_row
        Columns that an equality holds at zero, shape (columns,), and its rows.
    """

    row: Ints
    column: Ints
    factor: Floats
    held: Bools
    held_row: Ints

    @classmethod
    def of(cls, program: ConeProgram) -> Bounds:
        """Read the bounds off the linear rows of a program."""
        A, linear = program.A, program
        if program.cones:
            A = sparse.csc_array(program.A[: program.linear])
            linear = replace(program, A=A, b=program.b[: program.linear])
        filled = A.data != 0
        entries = np.bincount(A.indices[filled], minlength=program.linear)
        held_row = np.flatnonzero((entries == 1) & linear.equality & (linear.b == 0))
        held = np.zeros(program.c.size, dtype=bool)
        if held_row.size:
            column = np.repeat(np.arange(program.c.size), np.diff(A.indptr))
            held[column[np.isin(A.indices, held_row) & filled]] = True
        return cls(*rows_that_are_bounds(linear), held, held_row)


def open_duals(
    program: ConeProgram, first: Point, bounds: Bounds, priced: Ints, without: Bools | None = None
) -> tuple[Bools, Bools, Floats] | None:
    """Tell which dual values may differ from zero; ``None`` if prices are certainly the only ones.

    Parameters
    ----------
    program, first, bounds
        A scaled program, its optimum, and its bounds.
    priced
        Rows of the capacities, whose dual values are the prices.
    without
        Rows that are lifted, shape (rows,).

    Returns
    -------
    tight
        Rows with a dual value, bounds apart, shape (rows,).
    idle
        Columns at their bound, shape (columns,).
    slack
        What rows leave.
    """
    tight, slack = _tight_rows(program, first)
    idle = np.zeros(program.c.size, dtype=bool)
    idle[bounds.column] = tight[bounds.row]
    tight[bounds.row] = tight[bounds.held_row] = False
    if without is not None:
        tight[without] = False
    open_columns = idle.size - np.count_nonzero(bounds.held | idle)
    corner = first.solver == "highs" and np.count_nonzero(tight) <= open_columns
    if corner or not tight[priced].any():
        return None  # as many equations as dual values
    return tight, idle, slack


def _tight_rows(program: ConeProgram, first: Point) -> tuple[Bools, Floats]:
    """Tell which linear rows may have a dual value, and what they leave.

    An interior point ends in the middle of both faces: of a slack and its dual value one is large.
    """
    y = first.y[: program.linear]
    slack = (program.b - program.A @ first.x)[: program.linear]
    if first.solver == "highs":
        full = slack <= _TIGHT * np.maximum(1.0, np.abs(program.b[: program.linear]))
        return full | (y > _TIGHT) | program.equality, slack
    return (y > np.maximum(slack, 0.0)) | program.equality, slack


def violation(program: ConeProgram, x: Floats) -> float:
    """Tell by how much a point misses a constraint, relative to its terms if those are above 1."""
    slack = program.b - program.A @ x
    terms = np.maximum(np.abs(program.b) + abs(program.A) @ np.abs(x), 1.0)
    linear = slack[: program.linear]
    short = np.where(program.equality, np.abs(linear), -linear) / terms[: program.linear]
    worst, start = float(short.max(initial=0.0)), program.linear
    for cone in program.cones:
        place = slice(start, start := start + cone.size)
        worst = max(worst, OUTSIDE[cone.kind](slack[place], cone) / float(terms[place].max()))
    return worst


def into_dual_cone(program: ConeProgram, y: Floats) -> Floats:
    """Move a dual vector into the dual cone."""
    y = y.copy()
    linear = y[: program.linear]
    y[: program.linear] = np.where(program.equality, linear, np.maximum(linear, 0.0))
    start = program.linear
    for cone in program.cones:
        place = slice(start, start := start + cone.size)
        y[place] = INTO_DUAL[cone.kind](y[place], cone)
    return y
