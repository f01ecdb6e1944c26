"""One order of jobs that does not depend on the order of the rows in which they were given."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apportion.sim.workload import Workload

__all__ = ["by_arrival_and_id"]

_NUMBERS = re.compile(r"(\d+)")


def by_arrival_and_id(workload: Workload) -> Workload:
    """Sort jobs that arrive together by their ids, numbers in ids by their value.

    Ties between jobs are broken by the order of jobs; in this order the outcome belongs to the
    jobs, whatever row they stood in.
    """
    jobs = workload.jobs
    keys = list(zip(jobs["arrival_s"].tolist(), map(_natural, jobs.index.tolist()), strict=True))
    order = sorted(range(len(jobs)), key=keys.__getitem__)
    if order == list(range(len(jobs))):
        return workload
    return replace(workload, jobs=jobs.iloc[order])


def _natural(job: object) -> tuple[list[tuple[int, str]], str]:
    """Return what ids are compared by: ``job2`` comes before ``job10``."""
    text = str(job)
    parts = _NUMBERS.split(text)
    return [(int(part) if part.isdecimal() else -1, part) for part in parts if part], text
