"""How fast gangs really are: the part of the fluid runtime that another model replaces."""

from __future__ import annotations

from abc import abstractmethod
from itertools import compress
from operator import is_not
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from numpy.typing import NDArray

    from apportion.mechanism.devices import Held
    from apportion.mechanism.machines import Layout
    from apportion.mechanism.scheduler import Decision, Gangs
    from apportion.sim.engine.true_state import TrueState
    from apportion.types import Bools, Floats


V = TypeVar("V")


class Speeds(Protocol):
    """Who slows whom: the base of speeds of one's own."""

    apart: ClassVar[bool] = False
    """Whether no gang's speed hangs on who else is there."""

    lasting: ClassVar[bool] = False
    """Whether a gang that is alone on its devices also stays as fast as it is while it stays where
    it is: then only those that come are asked about."""

    @abstractmethod
    def rates(self, gangs: Gangs, there: Bools | None = None) -> Floats:
        """Return the steps/s of every line, given where all of them are, shape (lines,).

        Asked at every decision, with all that have devices from then on: what a gang makes may
        depend on its neighbours; of speeds that are `apart` and never change by themselves, only
        when gangs do. Asked again, unless speeds are `apart`, when a gang is done before
        anybody decides: then `there` marks the lines that are left, and what the others are said
        to make does not matter.
        """

    def changes_s(self, now_s: float) -> float:
        """Return when speeds change by themselves, if nothing else happens; infinite for never.

        A time that is not after `now_s` says that speeds must be asked for anew now.
        """
        return np.inf

    def worked(self, gangs: Gangs, worked_s: Floats) -> None:
        """Take down how long each line worked at the speeds that were asked for last."""
        return

    def tables(self, jobs: pd.Index) -> dict[str, pd.DataFrame]:
        """Return what a run is to tell of its speeds, by name; `jobs` are named in their order."""
        return {}


class LastingRates:
    """Steps/s of the gangs of one decision after the other, asked for where they may be others.

    Parameters
    ----------
    speeds
        Who is asked.
    jobs
        Number of jobs.
    """

    def __init__(self, speeds: Speeds, jobs: int) -> None:
        self._speeds, self._jobs = speeds, jobs
        self._of_job: Floats | None = None  # where it is known of all who have devices

    def __call__(self, decision: Decision) -> Floats:
        """Return them for every line, shape (lines,)."""
        gangs, known, speeds = decision.gangs, self._of_job, self._speeds
        if not speeds.lasting or gangs.mate is not None or gangs.share is not None:
            self._of_job = None
            return speeds.rates(gangs)
        if known is None:
            known = self._of_job = np.zeros(self._jobs)
            known[gangs.job] = speeds.rates(gangs)
        else:
            come = decision.starts if decision.moved is None else decision.starts | decision.moved
            if come.nonzero()[0].size:
                known[gangs.job[come]] = speeds.rates(gangs.among(come))
        return known.take(gangs.job)


class ByPlace(Generic[V]):
    """What follows from where the gang of each job is, worked out again only when it has moved.

    Parameters
    ----------
    none
        What it is of every job that has never been anywhere, shape (jobs,).
    of
        Works it out of the number of a job, and the type and the numbers of its devices.
    """

    def __init__(self, none: NDArray[Any], of: Callable[[int, Held], V]) -> None:
        self._of, self._value = of, none.copy()
        self._seen: list[Held | None] = [None] * none.size

    def __call__(self, gangs: Gangs) -> NDArray[Any]:
        """Return it for every line, shape (lines,)."""
        jobs, devices, seen = gangs.job.tolist(), gangs.devices, self._seen
        others = map(is_not, devices, map(seen.__getitem__, jobs))
        for job, held in compress(zip(jobs, devices, strict=True), others):
            if held != seen[job]:
                self._value[job] = self._of(job, held)
            seen[job] = held
        return self._value[gangs.job]


class TableSpeeds(Speeds):
    """The workload's throughputs: of jobs alone, of pairs, of gangs split over machines.

    Parameters
    ----------
    truth
        Has the tables.
    layout
        Tells which gangs are split. ``None`` if nobody has devices.
    """

    apart = True

    def __init__(self, truth: TrueState, layout: Layout | None = None) -> None:
        self._truth = truth
        self.lasting = type(self).rates is TableSpeeds.rates  # type: ignore[misc]
        self._split: ByPlace[bool] | None = None
        if layout is not None and truth.split_ratio is not None:
            none = np.zeros(truth.jobs, dtype=bool)
            self._split = ByPlace(none, lambda _, held: layout.is_split(held))

    def rates(self, gangs: Gangs, there: Bools | None = None) -> Floats:
        """Look up table speed, or speed beside the mate, times the ratio of split gangs."""
        truth, job, option, mate = self._truth, gangs.job, gangs.option, gangs.mate
        rate: Floats = truth.speed[job, option]
        if mate is not None and truth.beside is not None:
            paired = (mate != np.arange(mate.size)).nonzero()[0]
            own = truth.beside.beside(job[paired], job[mate[paired]])
            rate[paired] = own[np.arange(paired.size), option[paired]]
        if self._split is not None and truth.split_ratio is not None:
            rate = rate * np.where(self._split(gangs), truth.split_ratio[job, option], 1.0)
        return rate
