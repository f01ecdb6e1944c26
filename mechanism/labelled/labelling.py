"""Between the gangs of the core, which are numbers, and the plan of a round, which has labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.checks import mapping
from apportion.checks import seconds as check_seconds
from apportion.errors import unknown_name, written
from apportion.mechanism.labelled.plan import Assignment, RoundPlan

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from apportion.mechanism.gang_round import GangRound
    from apportion.mechanism.labelled.rows import LabelledRows

    Places = dict[Hashable, tuple[str, tuple[int, ...]]]

__all__ = ["labelled_plan", "places", "times_of"]


def labelled_plan(number: int, gangs: GangRound, rows: LabelledRows, before: Places) -> RoundPlan:
    """Write down a round with labels.

    Parameters
    ----------
    number
        Number of the round.
    gangs
        What the core has chosen.
    rows
        The labels of its rows.
    before
        Where the known jobs ran in the round before.
    """
    assignments = tuple(
        _assignment(row, kind, rows)
        for row, kind in zip(gangs.rows.tolist(), gangs.types.tolist(), strict=True)
    )
    now = _places(assignments, rows.scale)
    return RoundPlan(
        number=number,
        assignments=assignments,
        started=tuple(job for job in now if job not in before),
        moved=tuple(job for job in now if before.get(job, now[job]) != now[job]),
        preempted=tuple(job for job in before if job not in now),
    )


def places(plan: RoundPlan, known: Mapping[Hashable, int]) -> Places:
    """Return the type and devices of every known job of a plan."""
    return _places(plan.assignments, known)


def times_of(
    plan: RoundPlan, seconds: Mapping[Any, float] | None, round_seconds: float
) -> dict[Hashable, float]:
    """Return how long each job of a plan has run: as told, else the whole round.

    Raises
    ------
    InputError
        If a job is not in the plan, or a time is no number >= 0.
    """
    told = {} if seconds is None else mapping("seconds", seconds, "seconds by job")
    for job, ran in told.items():
        if job not in plan.jobs:
            raise unknown_name(f"job in round {plan.number}", job, plan.jobs)
        check_seconds(f"The time of job {written(job)}", ran)
    return dict.fromkeys(plan.jobs, round_seconds) | told


def _assignment(row: int, kind: int, rows: LabelledRows) -> Assignment:
    placer = rows.core.placer
    devices = tuple(placer.held[int(rows.core.ids[row])][1])
    machines = tuple(sorted({placer.pools[kind].machine_of[device] for device in devices}))
    return Assignment(rows.labels[row], rows.accelerators[kind], machines, devices)


def _places(assignments: Iterable[Assignment], known: Mapping[Hashable, int]) -> Places:
    return {
        job: (gang.accelerator, gang.devices)
        for gang in assignments
        for job in gang.jobs
        if job in known
    }
