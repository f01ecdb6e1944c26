"""Jobs served one after the other: each as well as those before it leave possible.

With v[j, o] the value of option o to job j and the jobs numbered as they are served, the decision
is the lexicographic optimum ::

    lex max over whole X of (sum over o of v[j, o] X[j, o], for j = 1, 2, ...)
    s.t.  sum over o of X[j, o] <= 1,  sum over j, o of U[j, o, r] X[j, o] <= C[r]

Most turns need no search. A job gets its best option beside the options that those before it have;
that is the best it can have if every better one holds too much of some resource beside the least
that the earlier jobs can hold of it at the values they are sure of. Where neither is so, a program
over the jobs served so far, which may change places but not values, finds the best for the next.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError, SolveError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from apportion.policies.whole.statement import WholeProgram
    from apportion.types import Bools, Floats, Ints


_ROUNDING = 1e-9
"""Part of a capacity that sums of amounts may miss it by."""
_SAME = 1e-9
"""Relative difference of values that is none."""


def serve_in_order(
    whole: WholeProgram, order: Ints, deadline: float, best: Callable[..., Any]
) -> tuple[Floats, bool, int]:
    """Serve the jobs of a program in an order.

    Parameters
    ----------
    whole
        A program whose objective is a sum of a value for each job and option.
    order
        All jobs, the one that is served first in front; pinned jobs keep what they have.
    deadline
        Value of the clock at which searches end. After that jobs get the best option that is free.
    best
        Decides the programs of single turns, as `apportion.policies.whole.decide.best_decision`.

    Returns
    -------
    x, proved, searched
        The decision; whether every turn was decided in time; and how many needed a search.

    Raises
    ------
    InputError
        If the objective is no such sum, or rows are not single jobs.
    """
    instance, row = whole.p.instance, whole.row_of_cell
    if not (whole.is_sum and instance.solo) or (instance.count != 1).any():
        raise InputError(
            f"{whole.policy!r} serves jobs in order: its objective must be a sum of a value for "
            f"each job and option, without constraints of its own, and every row a single job."
        )
    value, held = -whole.c, whole.A[whole.priced].toarray().T
    capacity = whole.most[whole.priced] * (1 + _ROUNDING)
    starts = np.searchsorted(row, np.arange(instance.rows + 1))
    x, sure = np.zeros(value.size), np.zeros(value.size, dtype=bool)
    left, least, proved, searched = capacity, np.zeros(capacity.size), True, 0
    for job in order[np.argsort(~instance.pinned[order], kind="stable")].tolist():
        mine = slice(starts[job], starts[job + 1])
        wanted = (value[mine] > 0) | instance.pinned[job]
        free = wanted & (held[mine] <= left).all(axis=1)
        most = value[mine][free].max(initial=0.0)
        if free.any():
            among = free & (value[mine] >= most * (1 - _SAME))
            x[mine][_best_fit(among, whole.stays[mine], held[mine], left)] = 1.0
        better = wanted & (value[mine] > most * (1 + _SAME))
        better &= (held[mine] + least <= capacity).all(axis=1)
        if better.any() and sure.any():
            searched += 1
            may = sure.copy()
            may[mine] = better
            try:
                turn = best(*_turn(whole, may, job, deadline), _SAME)
                proved &= bool(turn.proved_by)
                x = turn.x if turn.x[mine].any() else x
            except SolveError:
                proved = False
        if x[mine].any():
            same = np.abs(value[mine] - value[mine] @ x[mine]) <= _SAME * np.abs(value[mine])
            sure[mine] = same & wanted
            left, least = capacity - x @ held, least + held[mine][sure[mine]].min(axis=0)
    return x, proved, searched


def _best_fit(among: Bools, now: Bools, held: Floats, left: Floats) -> int:
    """Return the option that a job has now, else that which leaves least of what it holds.

    Of equal ones the first.
    """
    if (among & now).any():
        return int((among & now).argmax())
    rest = np.where(held > 0, left - held, np.inf).min(axis=1)
    return int(np.where(among, rest, np.inf).argmin())


def _turn(whole: WholeProgram, may: Bools, job: int, deadline: float) -> tuple[WholeProgram, float]:
    """State the turn of a job: as well off as can be, while those before have what they may.

    Raises
    ------
    SolveError
        If the time is over.
    """
    if time.perf_counter() >= deadline:
        raise SolveError("time_limit_s struck.")
    row, least = whole.row_of_cell, whole.least.copy()
    units = least[whole.priced.stop :]
    units[row[may]] = 1.0
    units[job] = -np.inf
    cost = np.where(row == job, whole.c, 0.0)
    upper = np.where(may, whole.upper, 0.0)
    return replace(whole, c=cost, least=least, lower=0 * upper, upper=upper), deadline
