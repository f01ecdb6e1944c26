"""Whether jobs can have done their steps in the stays of a schedule of leases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import written
from apportion.mechanism.deciders import DECIDERS
from apportion.mechanism.offers import OfferScheduler
from apportion.mechanism.offers.exact import TICK_S, on_tick
from apportion.testing.stays import TOLERANCE, fail
from apportion.testing.steps_in_rounds import refuse_too_fast, shape_of_stay, steps_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.sim import Run, Workload
    from apportion.sim.network import NetworkModel
    from apportion.testing.stays import Stays

    Floats = NDArray[np.float64]

__all__ = ["check_steps_under_leases"]


def check_steps_under_leases(
    stays: Stays, run: Run, workload: Workload, network: NetworkModel
) -> None:
    """Check the steps of each job against its stays, as far as they tell.

    A job makes no more steps than its devices allow in all its stays, the checkpoints at the ends
    of whole leases and what later starts cost left out; and no fewer than that, with one more
    checkpoint for each stay. Where the terms of the leases are not known, because the scheduler is
    not the one of that name in the registry, only the former, with nothing left out.
    """
    speed = workload.throughput_of(stays.cluster).to_numpy(dtype=float)
    steps, job_types = steps_of(workload), workload.jobs["job_type"].tolist()
    refuse_too_fast(stays, steps, speed.max(axis=1), TICK_S)
    slowdown = np.array(
        [
            1 + network.overhead(job_types[stays.job[stay]], shape_of_stay(stays, stay))
            for stay in range(len(stays))
        ]
    )
    rate = speed[stays.job, stays.kind] / slowdown
    least_s, most_s = _useful_s(stays, workload, _terms(run))
    least, most = stays.total(least_s * rate), stays.total(most_s * rate)
    off = (steps > most * (1 + TOLERANCE)) | (steps < least * (1 - TOLERANCE))
    if off.any():
        job = int(off.argmax())
        fail(
            f"job {written(stays.ids[job])} has {steps[job]:.10g} steps to do, in its "
            f"{int((stays.job == job).sum())} stays it can have done {least[job]:.10g} to "
            f"{most[job]:.10g}"
        )


def _useful_s(
    stays: Stays, workload: Workload, terms: OfferScheduler | None
) -> tuple[Floats, Floats]:
    """Return the least and the most seconds of each stay in which steps are made.

    All times of leases are multiples of a tick: what is done within one may count or not.
    """
    if terms is None:
        return np.zeros(len(stays)), stays.seconds + TICK_S
    of_jobs = workload.jobs["job_type"].tolist(), workload.jobs["scale_factor"].tolist()
    pause_s = on_tick(np.array(terms.checkpoints_s(*of_jobs))[stays.job])
    lease_s = float(on_tick(np.array(terms.lease_s)))
    first_s, later_s = (on_tick(np.array(each)[stays.job]) for each in terms.starts_s(*of_jobs))
    start_s = np.where(stays.first, first_s, later_s)
    start_s = np.where(stays.goes_on, 0.0, np.minimum(start_s, stays.seconds))
    # A hair less: a stay of exactly one cycle ends before its checkpoint or after it.
    cycles = np.floor(stays.seconds / (lease_s + pause_s) - TOLERANCE)
    most_s = stays.seconds - start_s
    if not terms.keep_placement:
        most_s = most_s - np.maximum(cycles, 0) * pause_s
    ends = np.floor(stays.seconds / lease_s + TOLERANCE) + 1
    least_s = np.maximum(stays.seconds - start_s - ends * pause_s - TICK_S, 0.0)
    return least_s, np.maximum(most_s, 0.0) + TICK_S


def _terms(run: Run) -> OfferScheduler | None:
    """Return the terms of the leases of a run; policies have those of a plain scheduler."""
    told = run.settings
    given = {
        "lease_s": told.get("lease_seconds"),
        "checkpoint_s_per_gpu": told.get("checkpoint_seconds_per_gpu"),
        "overhead_s": told.get("preemption_overhead_seconds"),
    }
    own = getattr(DECIDERS.get(run.policy), "terms", None) or OfferScheduler(run.policy)
    own = replace(own, **{name: value for name, value in given.items() if value is not None})
    if "scheduler" in told and repr(own) != told["scheduler"]:
        return None
    return own
