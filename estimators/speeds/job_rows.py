r"""Which row of speeds a job has, and what a speed that nobody measured is worth to it.

Of the speed v of an unmeasured cell :math:`\ln v \sim N(m, s^2)` is believed, and a trial of
:math:`\tau` seconds tells it. A job with W steps left may be done at a sure speed u in W / u
seconds. Or it tries the cell, which takes :math:`\tau`, or less if that makes all W steps; is then
done there where v turns out to be u or more, and at the speed u where it does not. The cell is
*worth* the sure speed at which both take as long: the time that the knowledge saves is the time
that the trial costs,

.. math:: W\, E[(1 / u - 1 / v)^+] = \tau\, E[(1 - v / u)^+] \quad (u \leq w = W / \tau).

That is Gittins' index (Gittins 1979; Weitzman 1979) of a cell of which one trial tells all: the
most steps by time of any threshold c up to which a job leaves,

.. math:: u = \max_{c \leq w} \frac{E[v;\, v < c] + w P(v \geq c)}
    {P(v < c) + w\, E[1 / v;\, v \geq c]}.

A job that is done within the first trial is as fast as W steps take long in the mean, and
:math:`u < e^m`; with time left for twelve trials u is some :math:`e^{m + s}`, and it grows with W
and s. What the policy would do otherwise needs no place in it: u is what the policy compares with
all that it has besides, and the cell is tried where that is slower.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtr

from apportion.checks import number
from apportion.errors import InputError, written
from apportion.estimators.speeds.columns import family_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.types import Floats


ROWS = ("job", "family", "type")
"""Who shares a row, or what is expected of it, see `JobRows`."""


class JobRows:
    """Names of rows by job, jobs by row, and the steps that jobs have left.

    Parameters
    ----------
    by
        ``"job"``: each job has a row, ``"type"``: those of one type have one. ``"family"``: each
        job has a row, and those of one family (see `apportion.estimators.family_of`) are alike.
    """

    def __init__(self, by: str) -> None:
        self.by_type, self._by_family = by == "type", by == "family"
        self._family: dict[int | str, str] = {}
        self._row: dict[int | str, int | str] = {}
        self._jobs: dict[int | str, list[int | str]] = {}
        self._left: dict[int | str, float] = {}

    def admit(self, jobs: list[int | str], types: list[int | str]) -> None:
        """Note the types of jobs, all or none of them.

        Raises
        ------
        InputError
            For more types than jobs or fewer, and for a job that was of another type.
        """
        if len(jobs) != len(types):
            raise InputError(f"There are {len(jobs)} jobs and {len(types)} types.")
        if self._by_family:
            self._family.update(zip(jobs, map(family_of, map(str, types)), strict=True))
        if not self.by_type:
            return
        given: dict[int | str, int | str] = {}
        for job, kind in zip(jobs, types, strict=True):
            known = given.setdefault(job, self._row.get(job, kind))
            if known != kind:
                raise InputError(
                    f"Job {written(job)} is of type {written(known)}, not of {written(kind)}."
                )
        self._enter(given.items())

    def families(self, rows: Iterable[int | str]) -> list[str]:
        """Return the family of each row, "" where none is known."""
        return [self._family.get(row, "") for row in rows]

    def forget(self, jobs: Iterable[int | str]) -> None:
        """Let go of jobs; what was learnt of their rows stays."""
        for job in jobs:
            if job in self._row:
                row = self._row.pop(job)
                self._jobs[row].remove(job)
                if not self._jobs[row]:
                    del self._jobs[row]
            self._left.pop(job, None)
            self._family.pop(job, None)

    def names(self, jobs: list[int | str]) -> list[int | str]:
        """Return the names of the rows of jobs.

        Raises
        ------
        InputError
            For a job without a type where rows are by type.
        """
        typed = self._family if self._by_family else self._row
        for job in jobs if self.by_type or self._by_family else ():
            if job not in typed:
                raise InputError(f"Job {written(job)} has no type; `admit` it first.")
        if not self.by_type:
            self._enter((job, job) for job in jobs)
            return jobs
        return [self._row[job] for job in jobs]

    def jobs(self, rows: Iterable[int | str]) -> list[int | str]:
        """Return all jobs of some rows."""
        return [job for row in rows for job in self._jobs.get(row, ())]

    def tell_left(self, jobs: list[int | str], steps: list[float]) -> None:
        """Note how many steps jobs have left."""
        self._left.update(zip(jobs, steps, strict=True))

    def made(self, jobs: list[int | str], steps: list[float]) -> None:
        """Take steps that were made from what jobs have left."""
        for job, count in zip(jobs, steps, strict=True):
            if job in self._left:
                self._left[job] = max(self._left[job] - count, 0.0)

    def check_left(self, jobs: list[int | str], rows: list[int | str]) -> None:
        """Check that it is known how many steps jobs have left, or others of their rows.

        Raises
        ------
        InputError
            If not; the first such job is named.
        """
        for job, left in zip(jobs, self.left(rows).tolist(), strict=True):
            if np.isnan(left):
                raise InputError(
                    f"Nobody has told how many steps job {written(job)} has left, by which its "
                    f"estimates go: `tell_steps_left`, or give a number for optimism."
                )

    def left(self, rows: Iterable[int | str]) -> Floats:
        """Return the steps that the jobs of rows have left together, NaN where none are told."""
        told = [[self._left[job] for job in self.jobs([row]) if job in self._left] for row in rows]
        return np.array([math.fsum(each) if each else np.nan for each in told])

    def state(self) -> list[Any]:
        """Return jobs, each with its row, the steps that it has left and its family, for JSON."""
        jobs = dict.fromkeys([*self._row, *self._left, *self._family])
        return [
            [job, self._row.get(job), self._left.get(job), self._family.get(job)] for job in jobs
        ]

    def restore(self, state: list[Any]) -> None:
        """Take up a state of `state`."""
        self._row, self._jobs = {}, {}
        self._enter((job, row) for job, row, _, _ in state if row is not None)
        self._left = {job: left for job, _, left, _ in state if left is not None}
        self._family = {job: family for job, _, _, family in state if family is not None}

    def _enter(self, pairs: Iterable[tuple[int | str, int | str]]) -> None:
        for job, row in pairs:
            if job not in self._row:
                self._row[job] = row
                self._jobs.setdefault(row, []).append(job)


_MOST_OPTIMISM = 10.0

_MOST_ROUNDS = 100
_CONVERGED = 1e-12
"""Change of ln u at which it is as good as found: the next one is of the order of its square."""

_LEAST_SPREAD = 1e-9
"""Standard deviation below which all that is believed is the mean."""

_MOST_LOG = 300.0
"""Logarithm of the most work for a trial's time, and of the least, that are reckoned with."""

_MOST_SPREAD = 10.0
"""Standard deviation beyond which no more is hoped for; exp of its square is still a number."""


def checked_optimism(optimism: Any) -> float | Literal["worth"]:
    """Return a number of standard deviations, or "worth".

    Raises
    ------
    InputError
        For anything else.
    """
    if isinstance(optimism, str) and optimism == "worth":
        return "worth"
    return number("optimism", optimism, most=_MOST_OPTIMISM, words="'worth' or a number")


def log_worth(mean: Floats, sd: Floats, per_trial: Floats) -> Floats:
    r"""Logarithms of the speeds that unmeasured cells are worth.

    A threshold is raised to the speed that it makes (Dinkelbach 1967) until it stays: that is the
    best one.

    Parameters
    ----------
    mean, sd
        Of the logarithm of the speed; shape (jobs, columns).
    per_trial
        w, the speed at which each job would be done in just one trial; shape (jobs,).

    Returns
    -------
    NDArray[np.float64]
        The shape of `mean`; `mean` itself where nothing is in doubt.
    """
    s = np.clip(sd, _LEAST_SPREAD, _MOST_SPREAD)
    # In units of exp(m).
    log_w = np.log(np.maximum(per_trial, np.finfo(float).tiny))[:, None] - mean
    log_w = np.clip(log_w, -_MOST_LOG, _MOST_LOG)
    w = np.exp(log_w)
    factor = np.exp(s * s / 2.0)
    log_u = np.zeros_like(s)
    for _ in range(_MOST_ROUNDS):
        k = np.minimum(log_u, log_w) / s
        steps = factor * ndtr(k - s) + w * ndtr(-k)
        time = ndtr(k) + w * factor * ndtr(-k - s)
        better = np.log(steps / time)
        done = np.abs(better - log_u).max(initial=0.0) <= _CONVERGED
        log_u = better
        if done:
            break
    return np.where(sd > 0, mean + log_u, mean)
