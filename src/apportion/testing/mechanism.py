"""`check_mechanism`: what a way of carrying decisions out keeps, whoever decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.queue import QueueScheduler
from apportion.sim.settings import mechanism_for
from apportion.testing.scheduler import check_scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.own import Decides
    from apportion.mechanisms import Mechanism
    from apportion.sim.deciders import AnyDecider
    from apportion.testing.drawn import On

__all__ = ["check_mechanism"]


@dataclass(frozen=True)
class FirstInQueue(QueueScheduler):
    """First come, first served, on the fastest type that is free."""

    name = "first_in_queue"

    def queue(self, jobs: JobTable, now_s: float) -> Iterator[tuple[int, Iterable[int]]]:
        """Go through the jobs in the order of their arrival."""
        for job in jobs.active.tolist():
            yield job, np.argsort(-jobs.speed[job], kind="stable")


_DECIDE: dict[str, tuple[Any, ...]] = {
    "queue": (FirstInQueue(),),
    "leases": ("max_min_fairness", "dally_no_wait"),
    "iterations": ("ada_srsf",),
    "configurations": ("afs", "sia"),
}
"""Who decides, by mechanism."""


def check_mechanism(
    mechanism: Mechanism | str,
    *,
    schedulers: Iterable[str | AnyDecider | Decides] | None = None,
    seed: int = 0,
    n_jobs: int = 2,
    on: On | None = None,
) -> None:
    """Check that `check_scheduler` holds of who is carried out by a mechanism.

    Parameters
    ----------
    mechanism
        The mechanism, or its name.
    schedulers
        Who decides, of whom the contract holds by other mechanisms; by default policies, and for
        the mechanisms of the package who works by them.
    seed, n_jobs, on
        As for `check_scheduler`.

    Raises
    ------
    AssertionError
        For the first property that does not hold, as `check_scheduler`.
    """
    chosen: Any = mechanism_for([], mechanism, {})
    usual = ("sia",) if chosen.elastic else ("isolated", "max_min_fairness")
    decide = _DECIDE.get(chosen.name, usual) if schedulers is None else tuple(schedulers)
    for place, each in enumerate(decide):
        given: dict[str, Any] = {"mechanism": mechanism, "n_jobs": 1 if place else n_jobs}
        check_scheduler(each, seed=seed, on=on, **given)
