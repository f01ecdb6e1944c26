"""The ideal mechanism: every share is had exactly, all the time, without rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import SolveError
from apportion.sim.engine.truth import ROUNDING
from apportion.sim.sharing import Shares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.sim.engine.truth import Truth
    from apportion.sim.log import RoundLog
    from apportion.sim.progress import Progress
    from apportion.sim.resolve import Resolver

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

__all__ = ["run_ideal"]


def run_ideal(ledger: Truth, resolver: Resolver, log: RoundLog, progress: Progress) -> None:
    """Run the workload from event to event: arrivals, completions and solves of the policy.

    What a policy would achieve if time were divisible at will; the bound of any mechanism.

    Raises
    ------
    SolveError
        If the policy leaves every job without throughput and nothing else can happen.
    """
    shares = Shares.none(ledger.capacity.size)
    now_s = ledger.next_arrival_s
    while ledger.done < ledger.jobs:
        arrived = ledger.admit(now_s)
        shares = shares.arrive(arrived.size)
        resolver.changed |= bool(arrived.size)
        if not ledger.active.size:
            now_s = ledger.next_arrival_s
            continue
        resolved = resolver.due(now_s)
        if resolved:
            shares = resolver.solve(ledger, now_s)
        active, running = ledger.active.size, int(shares.presence().any(axis=1).sum())
        end_s, busy, stay = _run_until_event(ledger, resolver, shares, now_s)
        log.add((now_s, end_s), (active, running, 0), resolved, busy)
        if stay is not None:
            shares = shares.keep(stay)
            resolver.changed = True
            progress.update(ledger)
        now_s = end_s


def _run_until_event(
    ledger: Truth, resolver: Resolver, shares: Shares, now_s: float
) -> tuple[float, Floats, Bools | None]:
    """Run to the next event; return its time, GPU-seconds in use and who stays if any is done."""
    jobs = ledger.active
    rate = shares.rate(jobs, ledger.speed[jobs], ledger.beside)
    needed = np.full(jobs.size, np.inf)
    np.divide(ledger.remaining[jobs], rate, out=needed, where=rate > 0)
    next_solve_s = resolver.next_s if resolver.changed else np.inf
    # From the least time needed and not from two clock readings, or rounding could stop the clock.
    length = min(float(needed.min()), ledger.next_arrival_s - now_s, next_solve_s - now_s)
    if not np.isfinite(length):
        raise SolveError(
            f"Policy {resolver.policy.label!r} gives none of the {jobs.size} active jobs any "
            f"throughput at {now_s:.0f} s, and no job arrives later."
        )
    end_s = now_s + length
    time, gpus = shares.presence(), shares.gpus(ledger.scale[jobs])
    started = jobs[time.any(axis=1)]
    ledger.start_s[started] = np.fmin(ledger.start_s[started], now_s)
    ledger.work(jobs, np.minimum(rate * length, ledger.remaining[jobs]))
    ledger.held_s[jobs] += time * length
    ledger.gpu_s[jobs] += gpus * length
    busy = gpus.sum(axis=0) * length
    done = np.flatnonzero(needed <= length * (1 + ROUNDING))
    stay = ledger.complete(jobs[done], np.full(done.size, end_s)) if done.size else None
    return end_s, busy, stay
