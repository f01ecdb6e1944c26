"""Nash welfare by Clarabel's exponential cones, and the mechanism built on it."""

# pyright: reportAttributeAccessIssue=false
# clarabel is a compiled module without stubs.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import clarabel
import numpy as np
import scipy.sparse as sp

from benchmarks.trust.definitions.bounds import total_bound
from benchmarks.trust.definitions.polish import polish
from benchmarks.trust.definitions.programs import OracleFailure, into_constraints

if TYPE_CHECKING:
    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts


def best_nash(facts: Facts, present: np.ndarray | None = None) -> tuple[Floats, Floats]:
    """Maximise the sum of weight * log(throughput); return x and the price of each type.

    `present` leaves the other jobs out.
    """
    case = facts.case
    present = np.ones(case.jobs, dtype=bool) if present is None else present
    keep = (facts.time.T @ present.astype(float)) > 0
    weight = (facts.weight * facts.count)[present]
    weight = weight / weight.max()
    speed = sp.diags_array(1 / facts.fast[present]) @ facts.thr[present][:, keep]
    jobs, entries = speed.shape
    types = len(facts.capacity)
    held = sp.diags_array(1 / np.maximum(facts.capacity, 1.0)) @ facts.gpus[:, keep]
    limits = sp.vstack([facts.time[present][:, keep], held, -sp.eye_array(entries)])
    linear = sp.hstack([limits, sp.csr_array((limits.shape[0], jobs))])
    cone: Any = sp.lil_array((3 * jobs, entries + jobs))
    cone[0::3, entries:] = -np.eye(jobs)
    cone[2::3, :entries] = -speed
    right = np.concatenate(
        [np.ones(jobs), np.ones(types), np.zeros(entries), np.tile([0.0, 1.0, 0.0], jobs)]
    )
    right[jobs : jobs + types][facts.capacity == 0] = 0.0
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    settings.max_iter = 300
    settings.max_threads = 1
    size = entries + jobs
    solver = clarabel.DefaultSolver(
        sp.csc_matrix((size, size)),
        np.concatenate([np.zeros(entries), -weight]),
        sp.csc_matrix(sp.vstack([linear, cone])),
        right,
        [clarabel.NonnegativeConeT(limits.shape[0])] + [clarabel.ExponentialConeT()] * jobs,
        settings,
    )
    found = solver.solve()
    x = np.zeros(len(facts.usage))
    x[keep] = np.array(found.x)[:entries]
    if not np.isfinite(x).all():
        raise OracleFailure(str(found.status))
    x = into_constraints(facts, x)
    if not (facts.thr @ x)[present].min() > 0:
        raise OracleFailure(str(found.status))
    duals = np.array(found.z)[jobs : jobs + types] / np.maximum(facts.capacity, 1.0)
    prices = np.maximum(duals, 0.0) * float((facts.weight * facts.count)[present].max())
    return polish(facts, present, keep, x, prices)


def welfare(facts: Facts, thr: Floats) -> float:
    """Weighted sum of the logarithms of normalised throughputs."""
    with np.errstate(divide="ignore"):
        logs = np.log(facts.scale * thr / facts.equal_share)
    return float((facts.weight * facts.count) @ logs)


def nash_bound(facts: Facts, x: Floats, prices: Floats) -> float:
    """How much higher than at x the welfare can be, by the tangent at x and the prices."""
    weight = facts.weight * facts.count
    thr = facts.thr @ x
    if not thr.min() > 0:
        return float("inf")
    value = facts.thr.T @ (weight / thr)
    return max(0.0, total_bound(facts, value, prices) - float(weight.sum()))


def strategy_proof(facts: Facts) -> tuple[Floats, float]:
    """Steps/s of the partial allocation mechanism, and how far off they may be, relative."""
    x, prices = best_nash(facts)
    together = facts.thr @ x
    jobs = facts.case.jobs
    kept = np.ones(jobs)
    slack = nash_bound(facts, x, prices)
    for job in range(jobs if jobs > 1 else 0):
        others = np.arange(jobs) != job
        without = facts.thr @ best_nash(facts, others)[0]
        logs = np.log(together[others] / without[others])
        kept[job] = np.exp(float(facts.weight[others] @ logs) / facts.weight[job])
    error = np.sqrt(2 * slack / facts.weight.min())
    return together * kept, float(error)
