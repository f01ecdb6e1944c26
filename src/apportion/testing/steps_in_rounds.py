"""Whether jobs can have done their steps in the stays of a schedule, of rounds or of leases."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import written
from apportion.mechanism.deciders import DECIDERS
from apportion.mechanism.leases import OfferScheduler
from apportion.mechanism.leases.jobs import on_tick
from apportion.mechanisms.settings import TICK_S, seconds_by_type
from apportion.sim.network.shapes import shape_of_placement
from apportion.testing.stays import TOLERANCE, fail

if TYPE_CHECKING:
    from apportion.sim import Run, Workload
    from apportion.sim.network import NetworkModel, Shape
    from apportion.testing.stays import Stays
    from apportion.types import Floats


def steps_of(workload: Workload) -> Floats:
    """Return the steps that each job had to do, shape (jobs,)."""
    column = "steps_remaining" if "steps_remaining" in workload.jobs else "total_steps"
    return workload.jobs[column].to_numpy(dtype=float)


def refuse_too_fast(
    stays: Stays, steps: Floats, fastest: Floats, slack_s: Floats | float = 0.0
) -> None:
    """Refuse jobs that have held devices for less time than their steps take at the fastest.

    Of their time so many seconds may be missing, which were rounded off.
    """
    held_s, least_s = stays.total(stays.seconds), steps / fastest
    wrong = held_s + slack_s < least_s * (1 - TOLERANCE)
    if wrong.any():
        job = int(wrong.argmax())
        fail(
            f"job {written(stays.ids[job])} ran for {held_s[job]:.10g} s, its steps take "
            f"{least_s[job]:.10g} s at least, alone on its fastest type"
        )


def shape_of_stay(stays: Stays, stay: int) -> Shape:
    """Return the shape of a gang in one of its stays."""
    cluster = stays.cluster
    kind = cluster.accelerators[stays.kind[stay]]
    machines = cluster.machines_per_rack or len(cluster.machines(kind))
    return shape_of_placement(
        (*divmod(device // cluster.largest_machine, machines), 1) for device in stays.devices[stay]
    )


def check_steps_in_rounds(
    stays: Stays, run: Run, workload: Workload, network: NetworkModel | None = None
) -> None:
    """Check the steps of each job against its stays, slowed down by a network if there is one.

    A stay begins with `preemption_overhead_seconds` that are lost. A partner that completes within
    a round counts until the round is over, as its job's devices are held until then.
    """
    cluster = stays.cluster
    speed = workload.throughput_of(cluster).to_numpy(dtype=float)
    steps, fastest = steps_of(workload), speed.max(axis=1)
    job_types = workload.jobs["job_type"].tolist()
    ratio = np.ones_like(speed)
    if run.settings.get("placement_sensitive"):
        ratio = workload.split_ratio(cluster)
    split = np.array([len(set(machines)) > 1 for machines in stays.machines])
    factor = np.where(split, ratio[stays.job, stays.kind], 1.0)
    if network is not None:
        for stay in range(len(stays)):
            overhead = network.overhead(job_types[stays.job[stay]], shape_of_stay(stays, stay))
            factor[stay] /= 1 + overhead
    name = "preemption_overhead_seconds"
    of_job = np.array(seconds_by_type(name, run.settings[name], job_types), dtype=float)
    lost_s = of_job[stays.job]
    useful_s = np.maximum(stays.seconds - lost_s, 0.0)
    done = useful_s * speed[stays.job, stays.kind]
    if workload.pairs is not None:
        own, key = workload.pairs.lookup(workload.jobs, cluster.accelerators)
        fastest = np.maximum(fastest, own[key].max(axis=(1, 2)))
        ends_s = run.rounds["end_s"].to_numpy(dtype=float)
        for me, partner, together_s in _together(stays, lost_s, ends_s):
            kind, a, b = stays.kind[me], key[stays.job[me]], key[stays.job[partner]]
            done[me] += together_s * (own[a, b, kind] - speed[stays.job[me], kind])
    refuse_too_fast(stays, steps, fastest)
    made = stays.total(done * factor)
    off = ~np.isclose(made, steps, rtol=TOLERANCE, atol=0)
    if off.any():
        job = int(off.argmax())
        fail(
            f"job {written(stays.ids[job])} has {steps[job]:.10g} steps to do, in its "
            f"{int((stays.job == job).sum())} stays it can have done {made[job]:.10g}, with "
            f"{of_job[job]:g} s lost at the start of each"
        )


def _together(stays: Stays, lost_s: Floats, ends_s: Floats) -> list[tuple[int, int, float]]:
    """List (stay, stay of a partner, seconds in which the first makes steps beside it)."""
    found = []
    slack = 1e-9 * max(1.0, float(ends_s[-1]))
    until_s = ends_s[np.minimum(np.searchsorted(ends_s, stays.end_s - slack), ends_s.size - 1)]
    for there in stays.by_place().values():
        for one, other in combinations(there, 2):
            if stays.start_s[other] >= until_s[one] - slack:
                continue
            for me, partner in ((one, other), (other, one)):
                begin_s = max(stays.start_s[me] + lost_s[me], stays.start_s[partner])
                end_s = min(stays.end_s[me], until_s[partner])
                if end_s > begin_s:
                    found.append((me, partner, float(end_s - begin_s)))
    return found


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
    most_s = stays.seconds - start_s - np.maximum(cycles, 0) * pause_s
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
