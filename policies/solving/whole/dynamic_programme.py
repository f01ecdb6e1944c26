"""One resource and a value for each cell: an exact dynamic programme over the units of it.

Values are whole numbers of some 2**-46 of the largest here, so that sums are exact and which
decision is the best hangs on no rounding. Keeping the option that a job has is worth 64 of those:
of decisions that are equal but for rounding, more jobs keep their option. Then
the last job in order takes the fewest units, so that earlier jobs are served first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from apportion.policies.solving.whole.program import WholeProgram
    from apportion.types import Floats, Int64s


_MOST_WORK, _MOST_ROOM = 10**8, 3 * 10**7
"""Sums and stored choices up to which it is quicker than branch and bound."""
_ALL_BITS, _MOST_BITS, _STAY = 60, 46, 64
"""Bits of a sum, most of a value; what it is worth to stay, in units of the last of them."""
_NEVER = -(2**62)
_MOST_STEPS = 100


class Chain(NamedTuple):
    """Units of jobs one after the other, each with the values of the amounts that it can take.

    Attributes
    ----------
    values
        Worth of an amount of the resource to one unit of a row, -inf-like where it has no such
        option, shape (rows, largest amount + 1); 0 for the amount 0.
    cell
        Column of the program that an amount stands for, -1 for none, of the same shape.
    units
        Units of each row, shape (rows,).
    capacity
        Amount that there is.
    slack
        Most by which the objective of a decision may lack what the best one reaches.
    """

    values: Int64s
    cell: Int64s
    units: Int64s
    capacity: int
    slack: float

    def decide(self) -> Int64s:
        """Return the column that each unit of each row takes, -1 for none, shape (units,)."""
        rows = np.repeat(np.arange(self.units.size), self.units)
        most, room = self.values.shape[1] - 1, self.capacity
        reached = np.full(most + room + 1, _NEVER, dtype=np.int64)
        reached[most:] = 0
        windows = np.lib.stride_tricks.sliding_window_view(reached, room + 1)[::-1]
        taken = np.empty((rows.size, room + 1), dtype=np.int32)
        sums = np.empty((most + 1, room + 1), dtype=np.int64)
        for place, row in enumerate(rows.tolist()):
            np.add(windows, self.values[row][:, None], out=sums)
            taken[place] = sums.argmax(axis=0)
            reached[most:] = sums.max(axis=0)
        columns = np.full(rows.size, -1, dtype=np.int64)
        left = room
        for place in range(rows.size - 1, -1, -1):
            amount = int(taken[place, left])
            columns[place] = self.cell[rows[place], amount]
            left -= amount
        return columns


def chain_of(whole: WholeProgram) -> Chain | None:
    """Read a problem as a chain; ``None`` where it is of another kind, or too long to be quick."""
    program, instance, k = whole.program, whole.p.instance, whole.cells.size
    if not (whole.separable and instance.solo and k) or whole.lower.any():
        return None
    held = program.A[whole.priced].tocsc()
    used = np.unique(held.indices[held.data != 0])
    if used.size != 1 or held.nnz != k:
        return None
    amount, there = held.data, float(program.b[whole.priced][used[0]])
    if (amount != np.rint(amount)).any() or amount.min() < 1:
        return None
    step_of_amount = int(np.gcd.reduce(amount.astype(np.int64)))
    amounts = amount.astype(np.int64) // step_of_amount
    # GPUs are whole; what is left of them was summed up, and 7.999999999 are 8.
    room = int(np.floor(there + 1e-9)) // step_of_amount
    units = instance.count.astype(np.int64)
    most = int(amounts.max())
    total = int(units.sum())
    if total * (most + 1) * (room + 1) > _MOST_WORK or total * (room + 1) > _MOST_ROOM:
        return None
    return _chain(whole, amounts, units, room)


def _chain(whole: WholeProgram, amounts: Int64s, units: Int64s, room: int) -> Chain:
    """Write the values of a problem whose cells hold whole amounts of one resource."""
    row = whole.row_of_cell
    value = -whole.program.c
    bits = min(_MOST_BITS, _ALL_BITS - int(units.sum()).bit_length())
    step = 2.0 ** (np.ceil(np.log2(value.max())) - bits) if value.max() > 0 else 1.0
    stays = whole.stays
    worth = np.rint(value / step).astype(np.int64) + _STAY * stays
    shape = (units.size, min(int(amounts.max()), room) + 1)
    values, cell = np.full(shape, _NEVER // 2, dtype=np.int64), np.full(shape, -1, dtype=np.int64)
    values[:, 0] = 0
    fits = amounts <= room
    order = np.lexsort((-np.arange(row.size), worth))  # the best comes last
    order = order[fits[order]]
    values[row[order], amounts[order]] = worth[order]
    cell[row[order], amounts[order]] = order
    # Rounding, and what a decision may lose for jobs to stay, of all that the value may lack.
    slack = step * float(units.sum()) * (1 + _STAY * bool(stays.any()))
    return Chain(values, cell, units, room, slack)


def price_of(
    value: Floats, amount: Floats, row: Int64s, units: Floats, capacity: float
) -> tuple[float, float]:
    """Return the price of the relaxation and its bound.

    Parameters
    ----------
    value, amount, row
        Worth of a unit of each cell, what it holds, and its row; cells of a row lie together.
    units
        Units of each row, shape (rows,).
    capacity
        Amount that there is.
    """
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    count = units[row[starts]]

    def line(price: float) -> tuple[float, float]:
        """Bound at a price, and its slope there."""
        left = value - price * amount
        best = np.maximum.reduceat(left, starts)
        first = np.full(starts.size, np.inf)
        of_row = np.repeat(np.arange(starts.size), np.diff(np.append(starts, row.size)))
        at_best = left >= best[of_row]
        np.minimum.at(first, of_row[at_best], amount[at_best])
        wins = best > 0
        held = float((count * first)[wins].sum())
        return price * capacity + float((count * best)[wins].sum()), capacity - held

    low, high = 0.0, float((value / amount).max())
    (at_low, rises), (at_high, falls) = line(low), line(high)
    if rises >= 0:
        return low, at_low
    for _ in range(_MOST_STEPS):
        meet = low + (at_high - at_low - falls * (high - low)) / (rises - falls)
        lowest = at_low + rises * (meet - low)
        bound, slope = line(meet)
        if not low < meet < high or bound <= lowest + 1e-14 * abs(bound):
            return meet, bound
        if slope < 0:
            low, at_low, rises = meet, bound, slope
        else:
            high, at_high, falls = meet, bound, slope
    return high, at_high
