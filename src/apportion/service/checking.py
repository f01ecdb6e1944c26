"""What may be known of a job: its speeds and columns, checked as they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.checks import LARGEST_NUMBER
from apportion.errors import InputError, written
from apportion.jobs import JOB_COLUMNS, check_jobs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["checked_facts", "checked_speed", "own_columns", "refuse_unfit"]


def checked_facts(facts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Check columns as every jobs table is checked; null takes a column away."""
    said = {
        job: {name: value for name, value in each.items() if value is not None}
        for job, each in facts.items()
    }
    alike: dict[tuple[str, ...], list[str]] = {}
    for job, each in said.items():
        alike.setdefault(tuple(each), []).append(job)
    for names, jobs in alike.items():
        index = pd.Index(jobs, dtype=object)
        check_jobs(pd.DataFrame([said[job] for job in jobs], index, columns=list(names)))
    return said


def refuse_unfit(
    job: str,
    speeds: Mapping[str, float] | None,
    facts: Mapping[str, Any],
    most: Mapping[str, int],
    needs: frozenset[str],
) -> None:
    """Refuse a job that could not run on all GPUs that there ever were, or cannot be decided.

    A job that cannot be decided would keep everybody from a decision.
    """
    gang = int(facts.get("scale_factor", 1))
    fits = [name for name, gpus in most.items() if gpus >= gang]
    if not fits:
        had = ", ".join(f"{gpus} of {name}" for name, gpus in most.items())
        raise InputError(f"Job {written(job)} needs {gang} GPUs of one type; the most were {had}.")
    if speeds is not None and not any(speeds.get(name, 0.0) > 0 for name in fits):
        raise InputError(
            f"Job {written(job)} has no speed on any accelerator that has {gang} GPUs "
            f"({', '.join(fits)})."
        )
    left, total = facts.get("steps_remaining"), facts.get("total_steps")
    if left is not None and total is not None and left > total:
        raise InputError(
            f"Job {written(job)} would have {left:g} steps_remaining of {total:g} total_steps."
        )
    for name in sorted(needs - facts.keys()):
        if name != "steps_remaining" or "total_steps" not in facts:
            meaning = f" ({JOB_COLUMNS[name].meaning})" if name in JOB_COLUMNS else ""
            raise InputError(f"Job {written(job)} has no {name!r}{meaning}, by which is decided.")


def own_columns(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that were told of a job."""
    return {name: value for name, value in told.items() if name != "throughputs"}


def checked_speed(job: str, steps_per_s: float) -> float:
    """Return a speed that policies can reckon with.

    Raises
    ------
    InputError
        If it is larger.
    """
    if not steps_per_s <= LARGEST_NUMBER:
        raise InputError(
            f"Job {written(job)} makes {steps_per_s:g} steps/s; {LARGEST_NUMBER:g} are the most."
        )
    return steps_per_s
