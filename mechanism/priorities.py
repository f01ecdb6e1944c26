"""Who is owed most: priorities of rows and types, and the order in which idle GPUs are filled."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.ties import EXACT, OWED_S, SHARE, order_of, ranks

if TYPE_CHECKING:
    from apportion.types import Bools, Floats, Ints


# Shares below this are the noise of a solver, not a wish: a second in eleven days.
LEAST_SHARE = 1e-6

# A share of so little less than all is all: it leaves no time to speak of for anything else.
_ALMOST = 0.01
# Who runs on a type goes on until another wants it so many times as much: for two jobs that share
# one GPU in halves that is some changes in all, and not one at every solve.
_STAYING = 2.0


class Candidates(NamedTuple):
    """Every (row, type) with a positive share, in the order that breaks ties of the priority.

    The most owed come first, then larger shares, then earlier submission, then the types as
    `preferences` says. ``cells`` are the places of the pairs in an array of shape (rows, types),
    counted line by line. Owed times are equal up to `OWED_S`, shares up to `SHARE`.
    """

    rows: Ints
    types: Ints
    cells: Ints
    share: Floats

    @classmethod
    def of(
        cls,
        target: Floats,
        speed: Floats,
        owed: Floats,
        preference: Ints | None = None,
        place: Ints | None = None,
    ) -> Candidates:
        """List the candidates of target shares; all arrays are of shape (rows, types).

        Without a `preference`, as `preferences` makes it, the types stand in the order of their
        columns where nothing else tells them apart; without a `place` in the order of submission,
        of shape (rows,), rows stand as they are.
        """
        cells = ((target >= LEAST_SHARE) & (speed > 0)).ravel().nonzero()[0]
        share = target.take(cells)
        rows, types = np.divmod(cells, target.shape[1])
        last = types if preference is None else preference.take(cells)
        # Shares and what is owed come out of solvers and long sums, whose last digits mean nothing.
        early = rows if place is None else place[rows]
        order = np.lexsort(
            [last, early, ranks(-share, absolute=SHARE), ranks(-owed.take(cells), absolute=OWED_S)]
        )
        return cls(rows[order], types[order], cells[order], share[order])

    def fit(self, scale: Ints, capacity: Ints, kind: Ints) -> bool:
        """Tell whether every row is there, and once, and there are GPUs for all of them.

        Parameters are those of `one_type_after_the_other`.
        """
        rows = self.rows
        if rows.size != scale.size or np.bincount(rows).nonzero()[0].size != rows.size:
            return False
        needed = np.bincount(kind[self.types], scale[rows], capacity.size)
        return not (needed > capacity).nonzero()[0].size

    def by_priority(
        self, received: Floats, half_round_s: float = 0.0, end_s: float = np.inf
    ) -> tuple[Ints, Ints]:
        """Sort by target share over time received, highest first.

        Gavel's priority (Narayanan et al., OSDI 2020, section 5): the share of time wanted over the
        share received since the target was set, whose common divisor does not matter. (Gavel's
        code divides by the time received by all jobs on the type instead, so that a job alone on
        several types stays on one of them for good.) With half a round to begin with, one type
        alone is apportioned as seats are by Webster's method.

        Parameters
        ----------
        received
            Seconds that each row has received on each type, > 0, shape (rows, types).
        half_round_s
            What of it was there from the beginning, seconds.
        end_s
            If finite, only rows stay that without this round would have had less than their
            share at its end, so many seconds after the target was set.
        """
        own = received.take(self.cells)
        order = order_of(-self.share / own)
        if end_s < np.inf:
            behind = self.share * end_s > (own - half_round_s) * (1 + EXACT)
            order = order[behind[order]]
        return self.rows[order], self.types[order]

    def one_type_after_the_other(
        self, last_type: Ints, speed: Floats, scale: Ints, capacity: Ints, kind: Ints
    ) -> tuple[Ints, Ints]:
        """Sort such that a row has the types of its shares in turn, the slowest first.

        For shares of all the time until a deadline, which need not be had in equal parts of it. A
        row goes on where it runs as long as it has a share there, and begins on the slowest of its
        types, since time on a fast one does for more than its own. Before all that come rows whose
        whole time is on one type, and types whose GPUs are all spoken for, which must not stand
        idle now: there the largest share comes first, that of who runs there counting for more.

        Parameters
        ----------
        last_type
            Type on which each row runs, -1 for none, shape (rows,).
        speed
            Steps/s of each row on each type, shape (rows, types).
        scale
            GPUs of each row, shape (rows,).
        capacity
            GPUs of each type, shape (types,).
        kind
            Type of each column.
        """
        rows, types, share = self.rows, self.types, self.share
        held = np.bincount(kind[types], weights=share * scale[rows], minlength=capacity.size)
        full = (held >= capacity * (1 - _ALMOST))[kind[types]]
        here = last_type[rows] == types
        slowest = np.full(speed.shape[0], np.inf)
        np.minimum.at(slowest, rows, speed.take(self.cells))
        slow = speed.take(self.cells) <= slowest[rows]
        kinds = [share >= 1 - _ALMOST, full, here, slow]
        claim = share * np.where(here, _STAYING, 1.0)
        # Claims that solvers leave apart by rounding are equal; then the row decides.
        order = np.lexsort([rows, ranks(-claim, absolute=SHARE), np.select(kinds, [0, 1, 2, 3], 4)])
        return rows[order], types[order]


def idle_first(
    served: Floats, speed: Floats, waiting: Bools, preference: Ints | None = None
) -> tuple[Ints, Ints]:
    """List (row, type) pairs for idle GPUs: least served rows first, their fastest types first.

    Of rows served alike up to a millisecond the earlier one comes first.

    Parameters
    ----------
    served
        Seconds that each row has run so far, shape (rows,).
    speed
        Steps/s of each row on each type, 0 = cannot run, shape (rows, types).
    waiting
        Rows that may be used, shape (rows,).
    preference
        Which of its types a row takes first, as `preferences` returns it, shape (rows, types); the
        fastest without, and of equal ones the first column.
    """
    rows = waiting.nonzero()[0]
    rows = rows[order_of(served[rows], absolute=OWED_S)]
    liking = -speed[rows] if preference is None else preference[rows]
    fastest = liking.argsort(axis=1, kind="stable")
    each, types = rows.repeat(speed.shape[1]), fastest.ravel()
    runs = speed[each, types] > 0
    return each[runs], types[runs]


def preferences(speed: Floats, number: Ints, place: Ints) -> Ints:
    """Rank the types of each row by how much it would rather run there, 0 first.

    Faster types come first. Types of one speed (all of them, to a policy that knows none) are
    taken in turns: in the order of their names, row number k beginning with the k-th of those on
    which it can run. So no type is preferred by all, and neither the order in which the types of a
    cluster are given decides anything, nor types that nobody can use.

    Parameters
    ----------
    speed
        Steps/s of each row on each type, shape (rows, types).
    number
        Of the first job of each row in the order of submission, shape (rows,).
    place
        Place of each type in the order of names, shape (types,).
    """
    by_name = place.argsort()
    counted = (speed[:, by_name] > 0).cumsum(axis=1)  # of which each row can run on, so far
    turn = np.empty(speed.shape, dtype=np.intp)
    turn[:, by_name] = (counted - 1 - number[:, None]) % np.maximum(counted[:, -1:], 1)
    return np.lexsort((turn, -speed)).argsort(axis=1)


def time_at_start(owed: Floats, round_seconds: float, carry_over: bool) -> Floats:
    """Return the time received, seconds, with which a new target begins: half a round.

    Less if a row is owed time and more if it has had too much, as far as the half round goes.
    Gavel counts from half a round each time and keeps what is owed to break ties only. Then
    events that come faster than the shares take to be served starve the small shares; the second
    table of ``python -m benchmarks.gavel.physical`` shows by how much.

    Parameters
    ----------
    owed
        Seconds that each row is owed on each type, shape (rows, types).
    round_seconds
        Length of a round, seconds.
    carry_over
        False for Gavel's way.
    """
    half = round_seconds / 2
    # Time received stays above zero, as priorities divide by it.
    if not carry_over:
        return np.full(owed.shape, half)
    return half - np.minimum(np.maximum(owed, -half), 0.9 * half)
