"""Scales for what lies far apart: of limits and costs too, or given those of the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.policies.solving.cone import Scales, largest_cost

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.cone import ConeProgram
    from apportion.types import Bools, Floats

_NOTHING = 1e-7
"""Part of the largest cost that is taken for none."""


def scales_of_all_numbers(program: ConeProgram, passes: int = 10) -> Scales:
    """Find scales that bring limits and costs to around 1 as well: powers of two.

    A limit that scaled entries leave at 1e-10 would be met, to a solver's tolerance, by
    nothing at all. The limits count as one more column, whose scale is that of all x, and the
    costs as one more row; the rows of a cone have one scale.
    """
    A, b, c = program.A.tocoo(), program.b, program.c
    sizes = [1] * program.linear + [cone.size for cone in program.cones]
    group = np.repeat(np.arange(len(sizes)), sizes)
    limits, costs = np.flatnonzero(b), np.flatnonzero(c)
    numbers = np.concatenate([A.data, b[limits], c[costs]])
    row = np.concatenate([group[A.coords[0]], group[limits], np.full(costs.size, len(sizes))])
    column = np.concatenate([A.coords[1], np.full(limits.size, c.size), costs])
    there = numbers != 0
    row, column, logs = row[there], column[there], np.log2(np.abs(numbers[there]))
    by_row, by_column = np.zeros(len(sizes) + 1), np.zeros(c.size + 1)
    for _ in range(passes):
        by_row = _middles(row, logs + by_column[column], by_row.size)
        by_column = _middles(column, logs + by_row[row], by_column.size)
    by_row, by_column = (np.clip(np.round(each), -400, 400) for each in (by_row, by_column))
    x_scale = 2.0 ** (by_column[:-1] - by_column[-1])
    return Scales(x_scale, 2.0 ** (by_row[group] + by_column[-1]), largest_cost(program, x_scale))


def scales_of_columns(program: ConeProgram, column: Floats, free: Bools) -> Scales:
    """Give columns scales, bring the largest entry of each row, and of free columns, to 1.

    Rows of cones keep their proportions.
    """
    A, places = program.A, np.repeat(np.arange(program.c.size), np.diff(program.A.indptr))
    entries, rows = np.abs(A.data), program.b.size
    largest = np.zeros(rows)
    np.maximum.at(largest, A.indices, np.where(free[places], 0.0, entries * column[places]))
    row = np.where(largest > 0, 1 / np.where(largest > 0, largest, 1.0), 1.0)
    row[program.linear :] = 1.0
    beside = np.zeros(column.size)
    np.maximum.at(beside, places, entries * row[A.indices])
    column = np.where(free & (beside > 0), 1 / np.where(beside > 0, beside, 1.0), column)
    return Scales(column, row, 1.0)


def _middles(place: NDArray[np.integer[Any]], logs: Floats, size: int) -> Floats:
    """Return what brings the least and the largest of the logarithms at each place around 0."""
    most, least = np.full(size, -np.inf), np.full(size, np.inf)
    np.maximum.at(most, place, logs)
    np.minimum.at(least, place, logs)
    filled = np.isfinite(most)
    return np.where(filled, -0.5 * (np.where(filled, most, 0) + np.where(filled, least, 0)), 0.0)


def smallest_cost(program: ConeProgram) -> float:
    """Return what the smallest cost of a program amounts to where all numbers are around 1."""
    scaled = scales_of_all_numbers(program).scale(program)
    costs = np.abs(np.append(scaled.c, scaled.P.data))
    return float(costs[costs > _NOTHING].min(initial=1.0)) * scaled.cost_scale
