"""A log's own schedule as a run: every job starts and ends when its log says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.scheduler import Decision, Gangs
from apportion.sim.about import Parts
from apportion.sim.engine import Fluid
from apportion.sim.engine.speeds import Speeds
from apportion.sim.traces.recorded_times import recorded_times, too_few

if TYPE_CHECKING:
    import pandas as pd

    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import Event
    from apportion.sim.about import AboutRun
    from apportion.types import Bools, Floats, Ints


def recorded_parts(label: str, about: AboutRun) -> Parts:
    """Let the jobs of a run start and end as recorded; nobody has devices.

    A job works at the rate at which it is done between its two times, on the type of its log, or,
    where that is not said or the cluster has none, on the one of which it has most GPUs. How many
    GPUs were in use at once is the log's affair, too: the cluster is no bound. Where they were more
    than it has, an equal share of it says nothing of the jobs: their ``ftf`` is NaN.

    Raises
    ------
    InputError
        If the workload has no recorded times, or a job has none or an impossible one.
    """
    jobs = about.workload.jobs
    start_s, end_s = recorded_times(label, about.given, about.present)
    if too_few(jobs, about.cluster):
        about.truth.isolated_s[:] = np.nan
    kind = _types(jobs, about)
    rate = about.truth.remaining / (end_s - start_s)
    runtime = Fluid(about.truth, _AtRate(rate), tick_s=about.tick_s)
    return Parts(_Replay(f"Scheduler {label!r}", about.jobs, start_s, kind), runtime)


def _types(jobs: pd.DataFrame, about: AboutRun) -> Ints:
    """Return the type on which each job ran, as its place in the cluster."""
    most = int(np.argmax(about.present.counts))
    if "recorded_on" not in jobs:
        return np.full(len(jobs), most, dtype=np.intp)
    place = {name: kind for kind, name in enumerate(about.present.accelerators)}
    return np.array([place.get(name, most) for name in jobs["recorded_on"]], dtype=np.intp)


class _Replay:
    """Lets jobs begin at their times; see `apportion.mechanism.scheduler.Scheduler`."""

    event_driven = True

    def __init__(self, name: str, jobs: JobTable, start_s: Floats, kind: Ints) -> None:
        self.name = name
        self._jobs, self._start_s, self._kind = jobs, start_s, kind
        self._begun: Bools = np.zeros(start_s.size, dtype=bool)

    def decide(self, event: Event) -> Decision:
        """Return all whose time has come."""
        active = self._jobs.active
        job = active[self._start_s[active] <= event.now_s]
        starts = ~self._begun[job]
        self._begun[job] = True
        return Decision(Gangs(job, job, self._kind[job], self._jobs.scale[job]), starts)

    def valid_for_s(self, now_s: float) -> float:
        """Return the time to the next start of who is there."""
        later = self._start_s[self._jobs.active]
        return float(later[later > now_s].min(initial=np.inf)) - now_s

    def unchanged_until_s(self, now_s: float) -> float:
        """Return now: it never repeats itself."""
        return now_s


class _AtRate(Speeds):
    """Each job at the rate of its log, whoever else is there."""

    apart = True

    def __init__(self, rate: Floats) -> None:
        self._rate = rate

    def rates(self, gangs: Gangs, there: Bools | None = None) -> Floats:
        """Return the steps/s of every line."""
        rates: Floats = self._rate[gangs.job]
        return rates
