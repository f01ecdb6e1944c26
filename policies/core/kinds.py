"""Jobs whose speeds are proportional become one row of a linear program, exactly.

Let ``tau`` be the speeds of a kind relative to the fastest option, idleness (0) among them, and w
what a job needs, relative likewise. The shares with which it has that are mixes of one option with
``tau < w`` and one with ``tau >= w``. So the sums of shares of jobs between the same two speeds are
the shares of one row with the sum of their needs, and given its mean shares y the job's are

    x = y + (w - mean of w) * b,   b = y * (sum of y below) / gap       where tau >= w
                                   b = -y * (sum of y above) / gap      where tau < w

with ``gap = sum of y * (tau - mean of w)`` above. A log of jobs has few kinds of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.core.jobs import rounded

if TYPE_CHECKING:
    from apportion.policies.core.jobs import Jobs
    from apportion.policies.core.program import Point, Program
    from apportion.types import Floats, Ints

_SAME = 1e-13
"""Relative distance of numbers that are the same but for rounding."""


class Kinds:
    """Jobs in one row for each kind.

    Parameters
    ----------
    jobs
        All of them.
    need
        Steps/s that each must have, (rows,).
    worth
        What a step/s is worth to each; ``None`` if the level of needs is what counts.
    """

    def __init__(self, jobs: Jobs, need: Floats, worth: Floats | None) -> None:
        unit = np.maximum(jobs.fastest, 1e-300)
        tau, self.w = jobs.T / unit[:, None], np.minimum(need / unit, 1.0)
        size = np.where(jobs.held.any(axis=1), jobs.held.max(axis=1, initial=0.0), 1.0)
        below = tau < self.w[:, None]
        gain = np.zeros(jobs.n) if worth is None else worth * unit / size
        extra = jobs.extra / size[:, None]
        held = jobs.held / size[:, None]
        self.of, first = _alike(np.concatenate([tau, held, below, gain[:, None], *extra], axis=1))
        self.unit, self.weight = unit, jobs.count * size
        self.count = np.bincount(self.of, self.weight).astype(float)
        self.mean = rounded(self.means(np.minimum(need, unit)), 44)
        self.jobs = replace(
            jobs.some(first),
            T=tau[first],
            held=held[first],
            extra=extra[:, first],
            count=self.count,
        )
        self.below, self.gain = below[first], None if worth is None else gain[first]

    def means(self, speed: Floats) -> Floats:
        """Return the mean of speeds, relative to the fastest, of the jobs of each kind."""
        return np.asarray(np.bincount(self.of, self.weight * speed / self.unit) / self.count)

    def optimum(self, program: Program, jobs: Jobs) -> Point:
        """Return the optimum of these jobs: the part of their needs that all have, or the gain."""
        if self.gain is None:
            return program.level(jobs, self.mean)
        gain = self.gain[:, None] * jobs.T
        return program.gain(jobs, gain, self.mean if self.mean.any() else None)

    def shares(self, X: Floats) -> Floats:
        """Return shares of the jobs that are those of their kinds in the mean."""
        idle = np.maximum(1.0 - X.sum(axis=1), 0.0)
        y, below = np.where(self.below, X, 0.0), self.below
        few = (y.sum(axis=1) + idle)[:, None]
        many = np.where(below, 0.0, X).sum(axis=1)[:, None]
        gap = np.where(below, 0.0, X * (self.jobs.T - self.mean[:, None])).sum(axis=1)[:, None]
        b = np.where(below, -many, few) * X / np.where(gap > 0, gap, np.inf)
        return np.asarray(X[self.of] + (self.w - self.mean[self.of])[:, None] * b[self.of])


def _alike(P: Floats) -> tuple[Ints, Ints]:
    """Return the kind of each row of numbers, and the first row of each kind."""
    key = (P / np.maximum(np.abs(P).max(axis=0), 1e-300)) @ np.sqrt(np.arange(2.0, 2 + P.shape[1]))
    _, first, of = np.unique(np.rint(key * 2**36), return_index=True, return_inverse=True)
    other = (np.abs(P - P[first[of]]) > _SAME * np.abs(P)).any(axis=1)
    of[other] = first.size + np.arange(int(other.sum()))
    return of, np.append(first, np.flatnonzero(other))
