"""Throughput per dollar, with and without deadlines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from benchmarks.trust.definitions.programs import minimise

if TYPE_CHECKING:
    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts


def worth(facts: Facts) -> tuple[Floats, Floats]:
    """Relative throughput and dollars per hour of every entry."""
    value = facts.thr.T @ (facts.count / facts.fast)
    return value, facts.usage * facts.case.dollars[facts.entry_type]


def ratio(facts: Facts, x: Floats) -> float:
    """Relative throughput per dollar-hour of an allocation."""
    value, dollars = worth(facts)
    return float(value @ x) / float(dollars @ x)


def best_bargain(facts: Facts) -> float:
    """Optimum without deadlines: the best entry alone attains it."""
    value, dollars = worth(facts)
    return float((value / dollars).max())


def floors(facts: Facts) -> Floats:
    """Steps/s that deadlines ask for; 0 without one and where it has passed."""
    columns = facts.case.columns
    left = columns["deadline_s"] - columns["elapsed_s"]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(left > 0, columns["steps_remaining"] / left, 0.0)


def least_shortfall(facts: Facts, floor: Floats) -> float:
    """Least total shortfall, each as a part of its floor."""
    jobs, entries = facts.thr.shape
    unit = np.where(floor > 0, floor, 1.0)
    a_ub = sp.block_array(
        [
            [sp.diags_array(-1 / unit) @ facts.thr, -sp.eye_array(jobs)],
            [facts.time, None],
            [facts.gpus, None],
        ],
        format="csr",
    )
    b_ub = np.concatenate([-(floor > 0).astype(float), np.ones(jobs), facts.capacity])
    cost = np.concatenate([np.zeros(entries), np.where(floor > 0, facts.count, 0.0)])
    return minimise(cost, a_ub, b_ub)[1]


def shortfall(facts: Facts, floor: Floats, thr: Floats) -> float:
    """Total shortfall of given steps/s, each as a part of its floor."""
    wanted = floor > 0
    missing = np.maximum(floor[wanted] - thr[wanted], 0.0) / floor[wanted]
    return float(facts.count[wanted] @ missing)


def best_with_floors(facts: Facts, floor: Floats) -> float:
    """Optimum of the ratio with floors that can be met, by Charnes and Cooper."""
    value, dollars = worth(facts)
    price = float(dollars.max())
    unit = np.maximum(floor, facts.fast * 1e-9)
    a_ub = sp.block_array(
        [
            [sp.diags_array(-1 / unit) @ facts.thr, sp.csr_array((floor / unit)[:, None])],
            [facts.time, sp.csr_array(-np.ones((facts.case.jobs, 1)))],
            [facts.gpus, sp.csr_array(-facts.capacity[:, None])],
        ],
        format="csr",
    )
    spent = sp.csr_array(np.append(dollars / price, 0.0)[None, :])
    _, least, _ = minimise(np.append(-value, 0.0), a_ub, np.zeros(a_ub.shape[0]), spent, np.ones(1))
    return -least / price
