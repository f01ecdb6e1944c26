"""A basis to begin with, where the least of many demands is to be met as far as it goes.

``max t such that a x >= d t`` for rows of demands, under limits ``A x <= b`` with ``x >= 0``: most
policies come down to it. From shares of zero a simplex method finds an option for each job, a pivot
each, before it weighs one against another. Here each demand takes the column that costs it least at
some prices of what is shared, the prices follow what that leads to for a few rounds, and t goes as
far as the first limit allows. That is a corner, from which the method goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import highspy
import numpy as np

from apportion.policies.solving.cone import alone_in_cost

if TYPE_CHECKING:
    from apportion.policies.solving.cone import ConeProgram
    from apportion.types import Bools, Floats, Ints

_ROUNDS = 8


class FirstBasis(NamedTuple):
    """Columns that are in the basis, shape (columns,), and rows that are not, shape (rows,)."""

    columns: Bools
    tight: Bools

    def in_highs(self, rows: Ints) -> highspy.HighsBasis:
        """Return it for a program in HiGHS that has some of the rows; the others are bounds."""
        basis, word = highspy.HighsBasis(), highspy.HighsBasisStatus
        of_column = {True: word.kBasic, False: word.kLower}
        of_row = {True: word.kUpper, False: word.kBasic}
        basis.col_status = [*map(of_column.__getitem__, self.columns.tolist())]
        basis.row_status = [*map(of_row.__getitem__, self.tight[rows].tolist())]
        basis.valid = True
        return basis


def first_basis(program: ConeProgram, bounds: Ints) -> FirstBasis | None:
    """Return a corner next to the optimum; ``None`` for programs of another kind.

    Parameters
    ----------
    bounds
        Rows that are bounds of single columns.
    """
    A, b = program.A, program.b
    found = alone_in_cost(program.c)
    if not found.size or (b < 0).any():
        return None
    level, sign = int(found[0]), -float(np.sign(program.c[found[0]]))
    of_level = slice(A.indptr[level], A.indptr[level + 1])
    per_level = np.zeros(b.size)
    per_level[A.indices[of_level]] = sign * A.data[of_level]
    demand = np.flatnonzero((per_level > 0) & (b == 0) & ~program.equality)
    place = np.full(b.size, -1)
    place[demand] = np.arange(demand.size)
    place[bounds] = -2
    inside = (place[A.indices] > -2) & (A.data != 0)
    inside[of_level] = False
    column = np.repeat(np.arange(program.c.size), np.diff(A.indptr))[inside]
    row = A.indices[inside].astype(np.intp)
    value = np.asarray(A.data[inside], dtype=float)
    mine = place[row] >= 0
    owner, each = np.full(program.c.size, -1), np.zeros(program.c.size)
    owner[column[mine]] = place[row[mine]]
    each[column[mine]] = -per_level[row[mine]] / value[mine]
    row, column, value = row[~mine], column[~mine], value[~mine]
    once = np.count_nonzero(mine) == np.count_nonzero(each)
    if not demand.size or not once or (each < 0).any() or (value < 0).any():
        return None
    each[column[b[row] == 0]] = 0.0  # they can have nothing
    limited = b > 0
    use = np.divide(value * each[column], b[row], out=np.zeros_like(value), where=limited[row])
    taken = _cheapest(demand.size, owner, each, row, column, use, b.size)
    if taken is None:
        return None
    columns, tight = np.zeros(program.c.size, dtype=bool), np.zeros(b.size, dtype=bool)
    columns[taken] = columns[level] = True
    tight[demand] = True
    load = np.bincount(row, np.where(columns[column], use, 0.0), b.size)
    load += np.divide(per_level, b, out=np.zeros_like(b), where=limited)
    tight[int(load.argmax())] = True
    return FirstBasis(columns, tight)


def _cheapest(
    demands: int, owner: Ints, each: Floats, row: Ints, column: Ints, use: Floats, rows: int
) -> Ints | None:
    """Return a column for each demand, such that the fullest of what is shared is least full.

    Parameters
    ----------
    owner, each
        Demand of each column, and how much of the column a unit of the level takes, 0 for columns
        that cannot be taken; shape (columns,).
    row, column, use
        What part of a limit that takes, shape (entries,) each.
    """
    cells = np.flatnonzero(each > 0)
    cells = cells[np.argsort(owner[cells], kind="stable")]
    starts = np.searchsorted(owner[cells], np.arange(demands + 1))
    if not (np.diff(starts) > 0).all():
        return None
    first, last = np.full(rows, demands), np.full(rows, -1)
    np.minimum.at(first, row, owner[column])
    np.maximum.at(last, row, owner[column])
    shared = np.flatnonzero(first < last)
    if not shared.size:
        return None
    place, option = np.full(each.size, -1), np.arange(cells.size) - starts[owner[cells]]
    place[cells] = owner[cells] * (option.max() + 1) + option
    kept = (first < last)[row] & (place[column] >= 0)
    cost = np.zeros((shared.size, demands * (option.max() + 1)))
    cost[np.searchsorted(shared, row[kept]), place[column[kept]]] = use[kept]
    cost = cost.reshape(shared.size, demands, -1)
    missing = np.ones(cost[0].size, dtype=bool)
    missing[place[cells]] = False
    unable = np.where(missing, np.inf, 0.0).reshape(demands, -1)
    price, every = np.ones(shared.size), np.arange(demands)
    least, best = np.inf, np.zeros(demands, dtype=np.intp)
    for turn in range(_ROUNDS):
        taken = (np.tensordot(price, cost, 1) + unable).argmin(axis=1)
        load = cost[:, every, taken].sum(axis=1)
        fullest = float(load.max())
        if fullest < least:
            least, best = fullest, taken
        if not fullest:
            break
        price = price * np.exp((load / fullest - 1.0) / (1 + turn / 2))
        price /= price.max()
    chosen: Ints = cells[starts[:-1] + best]
    return chosen
