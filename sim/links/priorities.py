"""Priorities of traffic by GPU intensity, after Crux: which job's GPUs the link keeps busiest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.checks import mapping, number
from apportion.errors import unknown_name, written
from apportion.sim.links.phases import PhaseJob, run_phases
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPARED = 60
"""Iterations of each job over which the two orders of a pair are compared."""


def gpu_intensity(
    jobs: Mapping[Any, PhaseJob], work: Mapping[Any, float], capacities: Mapping[Any, float]
) -> dict[Any, float]:
    """Return the GPU intensity of jobs, by job: work of an iteration per second of sending it.

    ``I_j = W_j / t_j``, where t_j is the largest over its links of gigabits over Gb/s. Jobs that
    send nothing have none.

    Parameters
    ----------
    jobs
        By name.
    work
        W_j: what an iteration computes on all GPUs of the job, in any unit, by name.
    capacities
        Gb/s of each link.

    Raises
    ------
    InputError
        If a job has no work, or a link no capacity.
    """
    told = mapping("work", work, "a mapping from jobs to what an iteration of theirs computes")
    found = {}
    for name, job in jobs.items():
        if name not in told:
            raise unknown_name("job without work", name, told)
        amount = number(f"The work of job {written(name)}", told[name], strict=True)
        for link in job.links:
            if link not in capacities:
                raise unknown_name(f"link of the job {written(name)}", link, capacities)
        slowest = min((capacities[link] for link in job.links), default=None)
        if slowest is not None and job.profile.mean_gbps > 0:
            found[name] = significant(amount * slowest / _gigabits(job))
    return found


def crux_priorities(
    jobs: Mapping[Any, PhaseJob],
    work: Mapping[Any, float],
    capacities: Mapping[Any, float],
    *,
    corrected: bool = True,
) -> dict[Any, float]:
    """Return the priority of each job that sends, by job: ``P_j = k_j I_j``.

    I_j is the `gpu_intensity`. The reference job, which sends most on average, has k = 1. Against
    it any other is compared on one link in both orders of priority: k_j is what the job sends more
    by going first, over what the reference does, in seconds of the link. Paths are not chosen,
    and priorities are not compressed into the levels that a switch has.

    Source: Cao et al., Crux, SIGCOMM 2024, sections 3.1 and 4.2.

    Parameters
    ----------
    jobs, work, capacities
        As in `gpu_intensity`.
    corrected
        Whether k is computed; if not it is 1 for all.

    Raises
    ------
    InputError
        As `gpu_intensity`.
    """
    intensity = gpu_intensity(jobs, work, capacities)
    if not corrected or not intensity:
        return intensity
    most = max(jobs[name].profile.mean_gbps for name in intensity)
    reference = next(name for name in intensity if jobs[name].profile.mean_gbps == most)
    factors = {
        name: 1.0 if name == reference else _factor(jobs[name], jobs[reference])
        for name in intensity
    }
    return {name: significant(factors[name] * each) for name, each in intensity.items()}


def _factor(job: PhaseJob, reference: PhaseJob) -> float:
    """Return what a job sends more by going first over what the reference does; 1 for nothing."""
    gbps = max(job.profile.peak_gbps, reference.profile.peak_gbps)
    sent = []
    for first, second in ((1.0, 0.0), (0.0, 1.0)):
        pair = {
            "job": PhaseJob(job.profile, ("link",), priority=first),
            "reference": PhaseJob(reference.profile, ("link",), priority=second),
        }
        run = run_phases(pair, {"link": gbps}, iterations=COMPARED)
        sent.append({name: _gigabits(pair[name]) / run.mean_s(name, after=10) for name in pair})
    more = sent[0]["job"] - sent[1]["job"]
    less = sent[1]["reference"] - sent[0]["reference"]
    small = 1e-9 * gbps
    return more / less if more > small and less > small else 1.0


def _gigabits(job: PhaseJob) -> float:
    """Of an iteration."""
    return job.profile.mean_gbps * job.profile.period_s
