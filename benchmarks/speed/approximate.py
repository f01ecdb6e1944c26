"""Rows beside two published ways to be quick and nearly right, rebuilt from their papers.

* DeDe (Xu et al., "Decouple and Decompose: Scaling Resource Allocation with DeDe", OSDI 2025): the
  problem is split by jobs and by resources with the alternating direction method of multipliers;
  each half falls apart into small problems, here projections of all jobs, and all types, at once.
* Soroush's geometric binner (Namyar et al., "Solving Max-Min Fair Resource Allocations Quickly on
  Large Graphs", NSDI 2024): one linear program in place of one for each level. What a job gets is
  cut into bins, each twice as wide as the one before, and a bin counts a tenth of the one before.

Both run in numpy and HiGHS, in the same process as ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from apportion.policies import MaxMinFairness, get_policy
from apportion.policies.solving.demands import read_off
from benchmarks.speed.harness import cpu_seconds
from benchmarks.speed.problems import draw
from benchmarks.speed.timing import ours

if TYPE_CHECKING:
    from benchmarks.speed.harness import Row
    from benchmarks.speed.problems import Case
    from benchmarks.speed.settings import Settings

__all__ = ["approximate", "by_dede", "by_geometric_bins"]

Floats = NDArray[np.float64]

_STEPS, _STILL = 5000, 1e-4
_BINS, _WIDER, _COUNTS = 12, 2.0, 0.1


def approximate(settings: Settings) -> list[Row]:
    """Time both beside the exact optimum, and say what they lose."""
    jobs = 64 if settings.quick else 256
    case = draw(jobs, 3, settings.data)
    policy = get_policy("max_total_throughput")
    timed = ours(policy, case, called=False, binding=False)
    gains = read_off(policy, case.instance).gains
    assert gains is not None
    worth = gains.slope[:, None] * case.speed
    seconds, (X, steps) = cpu_seconds(lambda: by_dede(case, worth), 1)
    value = float((worth * X).sum()) + gains.constant
    dede = timed.row(
        *("-", f"max_total_throughput, {jobs} x 3"),
        peer="DeDe, rebuilt",
        peer_s=seconds,
        note=f"DeDe loses {1 - value / timed.solution.objective:.2%} after {steps} steps",
    )
    weighted = case.weighted()
    timed = ours(MaxMinFairness(lexicographic=True), weighted, 3, called=False, binding=False)
    share = weighted.speed @ (weighted.gpus / weighted.gpus.sum())
    unit = weighted.scale / (weighted.columns["weight"] * share)
    exact = np.sort(unit * timed.solution.throughput)
    seconds, X = cpu_seconds(lambda: by_geometric_bins(weighted, unit, exact[0] / 2), 1)
    least = np.sort(unit * (weighted.speed * X).sum(axis=1))[0]
    soroush = timed.row(
        *("-", f"max_min_fairness, lexicographic, {jobs} x 3, weights"),
        peer="Soroush's geometric binner, rebuilt, HiGHS",
        peer_s=seconds,
        note=f"its worst off job has {least / exact[0]:.2f} of what ours has",
    )
    dede.first_s = soroush.first_s = np.nan
    return [dede, soroush]


def by_dede(case: Case, worth: Floats) -> tuple[Floats, int]:
    """Maximise ``sum(worth * X)``: feasible shares, shape (jobs, types), and how many steps.

    Jobs and types take turns; the price of a difference between the two is adapted to it.
    """
    worth = worth / worth.max()
    rho, shared = 1.0, np.zeros_like(worth)
    apart, steps = np.zeros_like(worth), 0
    for steps in range(1, _STEPS + 1):
        own = _within_time(shared - apart + worth / rho)
        before, shared = shared, _within_capacity(own + apart, case.scale, case.gpus)
        apart = apart + own - shared
        primal, dual = np.abs(own - shared).max(), rho * np.abs(shared - before).max()
        if max(primal, dual) <= _STILL:
            break
        if steps % 20 == 0 and not 0.1 <= primal / max(dual, 1e-12) <= 10:
            factor = 2.0 if primal > dual else 0.5
            rho, apart = rho * factor, apart / factor
    return shared / np.maximum(shared.sum(axis=1), 1.0)[:, None], steps


def _within_time(X: Floats) -> Floats:
    """Project each row on ``X >= 0, sum(X) <= 1``."""
    falling = -np.sort(-X, axis=1)
    places = np.arange(1, X.shape[1] + 1)
    excess = (np.cumsum(falling, axis=1) - 1) / places
    last = (falling > excess).sum(axis=1) - 1
    less = np.maximum(excess[np.arange(len(X)), np.maximum(last, 0)], 0.0)
    return np.asarray(np.maximum(X - less[:, None], 0.0))


def _within_capacity(X: Floats, scale: Floats, gpus: Floats) -> Floats:
    """Project each column on ``X >= 0, scale @ X <= gpus``, by bisection on the price of a GPU."""
    low, high = np.zeros(gpus.size), np.maximum(X / scale[:, None], 0.0).max(axis=0)
    for _ in range(50):
        price = (low + high) / 2
        over = scale @ np.maximum(X - scale[:, None] * price, 0.0) > gpus
        low, high = np.where(over, price, low), np.where(over, high, price)
    full = scale @ np.maximum(X, 0.0) > gpus
    return np.maximum(X - scale[:, None] * np.where(full, high, 0.0), 0.0)


def by_geometric_bins(case: Case, unit: Floats, first: float) -> Floats:
    """Maximise the levels ``unit * throughput`` bin by bin: shares, shape (jobs, types).

    Parameters
    ----------
    unit
        Level of a job per step/s, shape (jobs,).
    first
        Width of the first bin.
    """
    jobs, types = case.speed.shape
    cells, bins = jobs * types, jobs * _BINS
    job = np.repeat(np.arange(jobs), types)
    level = sparse.csr_array(((unit[:, None] * case.speed).ravel(), (job, np.arange(cells))))
    filled = sparse.csr_array((np.ones(bins), (np.repeat(np.arange(jobs), _BINS), np.arange(bins))))
    time = sparse.csr_array((np.ones(cells), (job, np.arange(cells))))
    held = sparse.csr_array(
        (np.repeat(case.scale, types), (np.arange(cells) % types, np.arange(cells)))
    )
    A = sparse.block_array([[-level, filled], [time, None], [held, None]], format="csr")
    b = np.concatenate([np.zeros(jobs), np.ones(jobs), case.gpus])
    width = first * _WIDER ** np.arange(_BINS)
    most = np.concatenate([np.full(cells, np.inf), np.tile(width, jobs)])
    cost = np.concatenate([np.zeros(cells), np.tile(-(_COUNTS ** np.arange(_BINS)), jobs)])
    solve: Any = linprog  # its stubs know no sparse matrices
    found = solve(cost, A_ub=A, b_ub=b, bounds=np.column_stack([np.zeros(most.size), most]))
    return np.asarray(found.x[:cells].reshape(jobs, types))
