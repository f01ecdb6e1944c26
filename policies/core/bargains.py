"""Maximise a ratio of sums over cells: only the best bargains run, as many as there is room for.

No mean of ratios exceeds the largest, so that ``max over cells of k T / price`` bounds the optimum,
and any shares of the cells that reach it are optimal. Of these the second stage takes the ones that
cost most (the largest scale), then the most even.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import SolveError
from apportion.policies.core.even import most_even
from apportion.policies.core.prices import Gain, maximise
from apportion.policies.core.program import Program

if TYPE_CHECKING:
    from apportion.policies.core.forms import Form
    from apportion.policies.core.jobs import Jobs
    from apportion.types import Bools, Floats

_SAME = 1e-12
"""Part of the best ratio by which another that is as good may differ."""
_PROGRAM_ROWS = 200


def best_bargains(form: Form, jobs: Jobs) -> tuple[Floats, float]:
    """Return shares with the largest ``k @ u / sum(price * X)``, and the bound of the ratio.

    Raises
    ------
    SolveError
        If something costs nothing, so that there is no largest ratio.
    """
    assert form.price is not None
    able = jobs.T > 0
    if not (form.price[able] > 0).all():
        raise SolveError("The denominator of the objective is not above 0 for every job and type.")
    ratio = np.where(able, form.k[:, None] * jobs.T / np.where(able, form.price, 1.0), -np.inf)
    best = float(ratio.max())
    runs = able & (ratio >= best - _SAME * abs(best))
    rows = np.flatnonzero(runs.any(axis=1))
    few = jobs.some(rows)
    few.T = np.where(runs[rows], form.price[rows] / few.count[:, None], 0.0)
    X = np.zeros(jobs.T.shape)
    X[rows] = _dearest(few, runs[rows])
    return jobs.fit(X), best


def _dearest(jobs: Jobs, runs: Bools) -> Floats:
    """Return shares of some cells that cost most, T being what each costs, then the most even."""
    if not len(jobs.extra) and (runs.sum(axis=1) == 1).all():
        option = runs.argmax(axis=1)
        row, kind = np.arange(jobs.n), jobs.kind[option]
        each = jobs.T[row, option] / jobs.held[row, option]
        dearest = np.zeros(jobs.capacity.size)
        np.maximum.at(dearest, kind, each)
        if (each >= dearest[kind] * (1 - _SAME)).all():  # a GPU of a type costs all alike
            wanted = np.bincount(kind, jobs.count * jobs.held[row, option], jobs.capacity.size)
            X = np.zeros(jobs.T.shape)
            X[row, option] = np.minimum(1.0, jobs.capacity[kind] / wanted[kind])
            return X
    if jobs.n > _PROGRAM_ROWS:
        start = np.full(jobs.capacity.size, jobs.count @ jobs.fastest / jobs.capacity.sum())
        found = maximise(Gain(jobs, np.ones(jobs.n)), start, jobs.equal_shares())
        assert found.X is not None
        return found.X
    point = Program().gain(jobs, jobs.T)
    return point.X if point.is_unique else most_even(jobs, point.X, point.free, point.tight)
