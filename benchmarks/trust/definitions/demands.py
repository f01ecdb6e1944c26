"""Policies about the worst off job: what every job must make at a level of the objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.trust.definitions.programs import OracleFailure, best_level

if TYPE_CHECKING:
    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts


@dataclass(frozen=True)
class Linear:
    """Demands ``z * slope``; z is to be large. `makespan` reports 1 / z."""

    slope: Floats
    reciprocal: bool = False

    def at(self, level: Floats | float) -> tuple[Floats, Floats]:
        """Steps/s at a level, and their derivative."""
        return level * self.slope, self.slope

    def levels(self, thr: Floats) -> Floats:
        """Level of each job, the larger the better."""
        return thr / self.slope

    def start(self, most: Floats) -> float:
        """The level that is out of reach even with all GPUs."""
        return float(np.min(most / self.slope))


@dataclass(frozen=True)
class FinishTime:
    """Demands ``R / (rho * D - t)`` of finish-time fairness; rho is to be small."""

    remaining: Floats
    elapsed: Floats
    alone: Floats

    def at(self, level: Floats | float) -> tuple[Floats, Floats]:
        """Steps/s at a ratio rho, and their derivative."""
        left = level * self.alone - self.elapsed
        return self.remaining / left, -self.remaining * self.alone / left**2

    def levels(self, thr: Floats) -> Floats:
        """Minus the ratio of each job, so that larger is better."""
        with np.errstate(divide="ignore"):
            return -(self.elapsed + self.remaining / thr) / self.alone

    def start(self, most: Floats) -> float:
        """The ratio that is out of reach even with all GPUs."""
        return float(-np.min(self.levels(most)))


def demands(facts: Facts) -> Linear | FinishTime:
    """Demands of the policy of a case."""
    columns = facts.case.columns
    if facts.case.policy == "makespan":
        return Linear(columns["steps_remaining"], reciprocal=True)
    if facts.case.policy == "max_min_fairness":
        return Linear(facts.weight * facts.equal_share / facts.scale)
    alone = columns["isolated_elapsed_s"] + columns["steps_remaining"] / facts.isolated
    return FinishTime(columns["steps_remaining"], columns["elapsed_s"], alone)


def solve_levels(facts: Facts, wanted: Linear | FinishTime) -> Floats:
    """Return an x of the best common level."""
    if isinstance(wanted, Linear):
        return best_level(facts, wanted.slope)[1]
    most = facts.thr.max(axis=1).toarray().ravel()
    none = np.zeros(len(most), dtype=bool)
    return _finish_times(facts, wanted, none, np.zeros(len(most)), most)[0]


def _finish_times(
    facts: Facts, wanted: FinishTime, fixed: np.ndarray, floor: Floats, most: Floats
) -> tuple[Floats, Floats]:
    """Find the least ratio of the jobs not fixed by Newton steps on the common share."""
    free = ~fixed
    ratios = -wanted.levels(most)
    rho = low = first = float(ratios[free].max()) * (1 + 1e-12)
    high = np.inf
    for _ in range(80):
        demand, change = wanted.at(rho)
        steps = np.where(free, demand, 0.0)
        share, x, weight = best_level(facts, steps, np.where(fixed, floor, 0.0))
        relative = np.divide(-change, steps, out=np.zeros_like(steps), where=free)
        slope = share * float(relative @ weight)
        if share >= 1 - 1e-13:
            high = min(high, rho)
        else:
            low = max(low, rho)
        if abs(share - 1) <= 2e-11 or (rho == first and share >= 1):
            return x, weight
        new = rho + (1 - share) / slope if slope > 0 else np.inf
        if not low < new < high:
            new = (low + high) / 2 if np.isfinite(high) else 2 * rho
        if abs(new - rho) <= 1e-13 * rho:
            return x, weight
        rho = new
    raise OracleFailure("no ratio found in 80 steps")


def fill(facts: Facts, wanted: Linear | FinishTime) -> Floats:
    """Levels of all jobs, the least as good as can be, then the second least, and so on.

    Each round is one program for those that can still rise; a job whose demand has a positive
    weight in it is a bottleneck and stays.
    """
    jobs = facts.case.jobs
    most = facts.thr.max(axis=1).toarray().ravel()
    fixed = np.zeros(jobs, dtype=bool)
    floor = np.zeros(jobs)
    for _ in range(jobs):
        if isinstance(wanted, Linear):
            rising = np.where(fixed, 0.0, wanted.slope)
            _, x, weight = best_level(facts, rising, floor)
        else:
            x, weight = _finish_times(facts, wanted, fixed, floor, most)
        levels = wanted.levels(facts.thr @ x)
        level = float(levels[~fixed].min())
        stuck = ~fixed & (weight > 1e-7)
        if not stuck.any():
            stuck = ~fixed & (weight == weight[~fixed].max())
        floor[stuck] = (wanted.at(level if isinstance(wanted, Linear) else -level)[0])[stuck]
        floor *= np.where(stuck, 1 - 1e-12, 1.0)
        fixed |= stuck
        if fixed.all():
            break
    return wanted.levels(floor)
