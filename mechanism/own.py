"""Schedulers of one's own on the loop, watched at each decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeGuard

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.scheduler import NOBODY, Decision, Gangs
from apportion.own_code import answered_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.decider import About
    from apportion.mechanism.devices import Held
    from apportion.mechanism.scheduler import Event
    from apportion.mechanisms.past import Past
    from apportion.types import Bools, Floats, Ints


WHOLE = frozenset({int, *(np.dtype(code).type for code in np.typecodes["AllInteger"])})
"""Types of whole numbers, as what is asked for any number of jobs is checked by: not of truths."""


class Decides(Protocol):
    """The least that a scheduler of one's own has; the rest of a `Scheduler` has defaults."""

    def decide(self, event: Event) -> Decision | None:
        """Say who has devices from now on, as `Scheduler.decide`."""
        ...


def is_own(value: Any) -> TypeGuard[Decides]:
    """Whether a value decides by itself, as the loop asks it."""
    return callable(getattr(value, "decide", None)) and not isinstance(value, type)


class Watched:
    """Asks a scheduler of one's own, and refuses in words what cannot be; see `Scheduler`.

    Parameters
    ----------
    scheduler
        Decides.
    label
        What users call it.
    about
        Jobs and devices.
    lost_s
        Seconds that each job loses at a start beside what the scheduler says, shape (jobs,).
    """

    def __init__(self, scheduler: Any, label: str, about: About, lost_s: Floats) -> None:
        self.name, self._own = f"Scheduler {label!r}", scheduler
        self._about, self._at_start_s = about, lost_s
        self.event_driven = bool(getattr(scheduler, "event_driven", True))
        self._before: dict[int, Held] = {}

    def take_over(self, past: Past) -> Ints:
        """Let it begin in the middle; who has devices has them before it is told.

        Raises
        ------
        InputError
            If somebody has devices, and it has no ``take_over``.
        """
        about = self._about
        if not hasattr(self._own, "take_over"):
            if past.held:
                self._refuse("has no take_over(past), by which it would hear who runs already")
            return about.jobs.active
        for job, (kind, devices) in past.held.items():
            about.devices.devices.hold(job, kind, devices)
            self._before[job] = about.devices.held[job]
        arrived = self._own.take_over(past)
        return NOBODY if arrived is None else np.asarray(arrived, dtype=np.intp)

    def decide(self, event: Event) -> Decision | None:
        """Ask it, and check what it says."""
        done = [] if event.ran is None else event.ran.done.tolist()
        decision = self._own.decide(event)
        if decision is None:
            if done:
                self._refuse(f"decides nothing though {self._job(done[0])} is done and has devices")
            return None
        if not isinstance(decision, Decision) or not isinstance(decision.gangs, Gangs):
            self._refuse(
                f"decides {written(decision)}; decide(event) must return a Decision or None"
            )
        gangs = self._gangs(decision.gangs)
        starts = self._marks(decision.starts, gangs, "start")
        moved = decision.moved
        if moved is not None:
            moved = self._marks(moved, gangs, "moved")
        for job in done:
            self._before.pop(job, None)
        decision = decision._replace(gangs=gangs, starts=starts, moved=moved)
        stop = self._stopped(decision)
        self._before = dict(zip(gangs.job.tolist(), gangs.devices, strict=True))
        return decision._replace(stop=stop, lost_s=self._lost_s(decision, gangs, starts))

    def _marks(self, marks: Any, gangs: Gangs, what: str) -> Bools:
        """Return which lines are marked, a truth for each."""
        marked: Bools = np.asarray(marks)
        if marked.shape != gangs.job.shape or marked.dtype != bool:
            self._refuse(f"says of {gangs.job.size} lines that they {what}: {written(marked)}")
        return marked

    def _gangs(self, gangs: Gangs) -> Gangs:
        """Return the gangs with their devices, if they can be."""
        jobs, types = self._about.jobs, len(self._about.cluster.accelerators)
        gangs = gangs._replace(
            job=np.asarray(gangs.job, dtype=np.intp),
            gang=np.asarray(gangs.gang, dtype=np.intp),
            option=np.asarray(gangs.option, dtype=np.intp),
            gpus=np.asarray(gangs.gpus, dtype=np.intp),
        )
        if gangs.job.ndim != 1 or len({each.shape for each in gangs[:4]}) > 1:
            self._refuse("has gangs whose arrays have no line each for the same jobs")
        if gangs.share is not None:
            self._refuse("shares time: share is for mechanism='exact', in which nobody has devices")
        here = np.isin(gangs.job, jobs.active)
        if not here.all():
            self._refuse(f"lets job {written(gangs.job[~here][0])} run, which is not there")
        if np.unique(gangs.job).size < gangs.job.size:
            self._refuse("has two lines for one job")
        if not gangs.devices:
            held = self._about.devices.held
            for job, gang in zip(gangs.job.tolist(), gangs.gang.tolist(), strict=True):
                if gang not in held:
                    self._refuse(f"says of no devices that {self._job(job)} has them")
            gangs = gangs._replace(devices=[held[gang] for gang in gangs.gang.tolist()])
        if not ((gangs.option >= 0) & (gangs.option < types)).all():
            self._refuse(f"gives a type that is not from 0 to {types - 1}")
        self._check_devices(gangs)
        return gangs

    def _check_devices(self, gangs: Gangs) -> None:
        """Refuse devices that are not there, not as many as the gang needs, or held twice."""
        jobs, pools = self._about.jobs, self._about.layout.pools
        elastic = self._about.elastic
        taken: dict[tuple[int, int], int] = {}
        lines = zip(gangs.job.tolist(), gangs.option.tolist(), gangs.devices, strict=True)
        for line, (job, kind, held) in enumerate(lines):
            gpus, known = int(gangs.gpus[line]), len(pools[kind].machine_of)
            if not jobs.speed[job, kind] > 0 and not elastic:
                self._refuse(f"lets {self._job(job)} run on a type on which it cannot run")
            if gpus < 1 or (gpus != int(jobs.scale[job]) and not elastic):
                self._refuse(f"gives {self._job(job)} {gpus} GPUs; it needs {jobs.scale[job]}")
            there = {device for device in held[1] if 0 <= device < known}
            if held[0] != kind or len(held[1]) != gpus or len(there) != gpus:
                self._refuse(f"gives {self._job(job)} {gpus} GPUs of type {kind}, and says {held}")
            mate = line if gangs.mate is None else int(gangs.mate[line])
            for device in held[1]:
                if taken.setdefault((kind, device), line) not in (line, mate):
                    self._refuse(f"gives device {device} of type {kind} to two gangs")

    def _stopped(self, decision: Decision) -> NDArray[np.intp]:
        """Return who had devices and has lost them, or starts again on others."""
        gangs, starts = decision.gangs, decision.starts
        moved = np.zeros_like(starts) if decision.moved is None else decision.moved
        marks = starts.tolist(), moved.tolist()
        for job, held, start, move in zip(gangs.job.tolist(), gangs.devices, *marks, strict=True):
            before = self._before.get(job)
            if start and move:
                self._refuse(f"says of {self._job(job)} both that it starts and that it moved")
            if start or before == held:
                continue
            if not move:
                self._refuse(
                    f"lets {self._job(job)} go on where it was not, on {held}. A job that goes on, "
                    f"on other devices of its machines, must be marked in Decision.moved; any "
                    f"other starts"
                )
            if before is None or not self._same_machines(before, held):
                self._refuse(
                    f"moves {self._job(job)} from {before} to {held}, which are not as many "
                    f"devices of the same machines. There it must start"
                )
        here, again = set(gangs.job.tolist()), set(gangs.job[starts].tolist())
        stopped = {job for job in self._before if job not in here or job in again}
        wrong = set(np.asarray(decision.stop).tolist()) - stopped
        if wrong:
            self._refuse(f"stops {self._job(min(wrong))}, which has lost nothing")
        return np.array(sorted(stopped), dtype=np.intp)

    def _same_machines(self, one: Held, other: Held) -> bool:
        place = self._about.layout.placement
        return one[0] == other[0] and place(one) == place(other)

    def _lost_s(self, decision: Decision, gangs: Gangs, starts: Bools) -> Any:
        """Return what starts cost, those of the mechanism included."""
        if not self._at_start_s.any():
            return decision.lost_s
        if decision.duty_cycle is not None:
            self._refuse(
                "says itself when gangs work (duty_cycle); preemption_overhead_seconds does "
                "nothing to it, leave it out"
            )
        at_start_s = self._about.jobs.lost_s(gangs.job, self._at_start_s)
        return decision.lost_s + np.where(starts, at_start_s, 0.0)

    def _job(self, job: int) -> str:
        return f"job {written(self._about.ids[job])}"

    def _refuse(self, what: str, method: str = "decide") -> NoReturn:
        raise InputError(f"{self.name} {what}.{answered_by(self._own, method)}")

    def valid_for_s(self, now_s: float) -> float:
        """Return for how long the decision stands; infinite if it does not say."""
        own = getattr(self._own, "valid_for_s", None)
        return np.inf if own is None else self._seconds("valid_for_s", own(now_s))

    def unchanged_until_s(self, now_s: float) -> float:
        """Return until when it would only repeat itself; now if it does not say."""
        own = getattr(self._own, "unchanged_until_s", None)
        return now_s if own is None else self._seconds("unchanged_until_s", own(now_s))

    def _seconds(self, name: str, said: Any) -> float:
        """Return a number of seconds; a run would stand still by what is none."""
        try:
            seconds = float(said)
        except (TypeError, ValueError):
            seconds = np.nan
        if not seconds >= 0:
            valid = "it must be seconds >= 0, or infinite"
            self._refuse(f"answers {name} {written(said)}; {valid}", name)
        return seconds
