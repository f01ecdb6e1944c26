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
) -> tuple[Floats, bool]:
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
    x, proved
        The decision, and whether every turn was decided in time.

    Raises
    ------
    InputError
        If the objective is no such sum, or rows are not single jobs.
    """
    instance, held = whole.p.instance, whole.held
    if not (whole.is_sum and instance.solo) or (instance.count != 1).any():
        raise InputError(
            f"{whole.policy!r} serves jobs in order: its objective must be a sum of a value for "
            f"each job and option, without constraints of its own, and every row a single job."
        )
    value, open_ = -whole.by_cell(whole.program.c), whole.by_cell(whole.program.upper) > 0
    capacity = whole.program.b[whole.priced] * (1 + _ROUNDING)
    X, sure = np.zeros(value.shape), np.zeros(value.shape, dtype=bool)
    left, least, proved = capacity, np.zeros(capacity.size), True
    for job in order[np.argsort(~instance.pinned[order], kind="stable")].tolist():
        free = open_[job] & (held[job] <= left).all(axis=1)
        most = value[job][free].max(initial=0.0)
        if free.any():
            among = free & (value[job] >= most * (1 - _SAME))
            X[job, _best_fit(among, instance.current[job] > 0, held[job], left)] = 1.0
        better = open_[job] & (value[job] > most * (1 + _SAME))
        better &= (held[job] + least <= capacity).all(axis=1)
        if better.any() and sure.any():
            may = sure.copy()
            may[job] = better
            try:
                if time.perf_counter() >= deadline:
                    raise SolveError("time_limit_s struck.")
                turn = best(_turn(whole, may, job), deadline, _SAME)
                proved &= bool(turn.proved_by)
                found = whole.by_cell(turn.x)
                X = found if found[job].any() else X
            except SolveError:
                proved = False
        if X[job].any():
            same = np.abs(value[job] - value[job] @ X[job]) <= _SAME * np.abs(value[job])
            sure[job] = same & open_[job]
            left = capacity - np.tensordot(X, held, 2)
            least = least + held[job][sure[job]].min(axis=0)
    return X.ravel(order="F"), proved


def _best_fit(among: Bools, now: Bools, held: Floats, left: Floats) -> int:
    """Return the option that a job has now, else that which leaves least of what it holds.

    Of equal ones the first.
    """
    if (among & now).any():
        return int((among & now).argmax())
    rest = np.where(held > 0, left - held, np.inf).min(axis=1)
    return int(np.where(among, rest, np.inf).argmin())


def _turn(whole: WholeProgram, may: Bools, job: int) -> WholeProgram:
    """State the turn of a job: as well off as can be, while those before have what they may."""
    program, served = whole.program, np.asarray(may.any(axis=1))
    cost, equality = whole.by_cell(program.c), program.equality.copy()
    cost[np.arange(served.size) != job] = 0.0
    served[job] = False
    equality[whole.priced.stop :] = served
    turn = replace(
        program,
        c=cost.ravel(order="F"),
        upper=may.ravel(order="F").astype(float),
        lower=np.zeros(cost.size),
        equality=equality,
    )
    return replace(whole, program=turn)
