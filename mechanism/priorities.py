"""Whose share of time is served first, and which types a job likes best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.ties import OWED_S, SHARE, ranks

if TYPE_CHECKING:
    from apportion.types import Floats, Ints

# Shares below this are the noise of a solver, not a wish: a second in eleven days.
LEAST_SHARE = 1e-6


def wanted_shares(
    target: Floats, speed: Floats, owed: Floats, preference: Ints | None = None
) -> tuple[Ints, Ints, Floats]:
    """Return rows and options with a share, and it, in the order that breaks ties of priorities.

    The most owed come first, then larger shares, then earlier rows, then options as `preferences`
    says (without any, in the order of their columns). All arrays are of shape (rows, options). Owed
    times are equal up to `OWED_S`, shares up to `SHARE`: they come out of solvers and long sums,
    whose last digits mean nothing.
    """
    rows, options = ((target >= LEAST_SHARE) & (speed > 0)).nonzero()
    share, liked = target[rows, options], options
    if preference is not None:
        liked = preference[rows, options]
    first = ranks(-share, absolute=SHARE), ranks(-owed[rows, options], absolute=OWED_S)
    order = np.lexsort((liked, rows, *first))
    return rows[order], options[order], share[order]


def preferences(speed: Floats, number: Ints, place: Ints) -> Ints:
    """Rank the options of each row by how much it would rather run there, 0 first.

    Faster ones come first. Options of one speed (all of them, to a policy that knows none) are
    taken in turns: in the order of their names, row number k beginning with the k-th of those on
    which it can run. So no type is preferred by all, and neither the order in which the types of a
    cluster are given decides anything, nor types that nobody can use.

    Parameters
    ----------
    speed
        Steps/s of each row at each option, shape (rows, options).
    number
        Of the first job of each row in the order of submission, shape (rows,).
    place
        Place of each option in the order of names, shape (options,).
    """
    by_name = place.argsort()
    counted = (speed[:, by_name] > 0).cumsum(axis=1)  # of which each row can run on, so far
    turn = np.empty(speed.shape, dtype=np.intp)
    turn[:, by_name] = (counted - 1 - number[:, None]) % np.maximum(counted[:, -1:], 1)
    return np.lexsort((turn, -speed)).argsort(axis=1)


def time_at_start(owed: Floats, round_seconds: float) -> Floats:
    """Return the time received, seconds, with which a new target begins: half a round.

    Less if a row is owed time and more if it has had too much, as far as the half round goes.
    Gavel counts from half a round each time and keeps what is owed to break ties only. Then
    events that come faster than the shares take to be served starve the small shares; the second
    table of ``python -m benchmarks.gavel.physical`` shows by how much.

    Parameters
    ----------
    owed
        Seconds that each row is owed at each option, shape (rows, options).
    round_seconds
        Length of a round, seconds.
    """
    half = round_seconds / 2
    # Time received stays above zero, as priorities divide by it.
    return half - np.minimum(np.maximum(owed, -half), 0.9 * half)
