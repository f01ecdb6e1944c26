"""The scheduler of elastic gangs: every interval (type, GPUs) anew, packed and priced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.configurations.asked import Asked, Standing, lost_seconds
from apportion.mechanism.configurations.packing import pack
from apportion.mechanism.configurations.resizing import Joining, grow, shrink
from apportion.mechanism.scheduler import Decision

if TYPE_CHECKING:
    from apportion.mechanism.configurations.asked import ByLinks, JobRestarts, OptionChoice
    from apportion.mechanism.configurations.packing import GangOptions
    from apportion.mechanism.devices import Devices, Held
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import Event, Gangs
    from apportion.types import Bools, Floats, Ints


_ROUNDING = 1e-12
"""Part of the time by which an edge of an interval may be missed: multiples of it are rounded."""


class InConfigurations:
    """Gives every job a type and a number of GPUs; see `apportion.mechanism.scheduler.Scheduler`.

    It decides at its intervals only: who arrives waits for the next one. Jobs whose option stays
    keep their GPUs; the others are packed anew and lose the seconds that their change costs. A
    change during a pause starts the pause anew, and it is not over before it would have been.

    Under EDL gangs that shrink, or grow on no more machines than they must, stay where they are:
    who worked works on, and the new ones join when they are ready, see `Joining`.

    Parameters
    ----------
    jobs
        What is told of the jobs.
    devices
        The GPUs.
    options
        What jobs may have.
    choice
        Chooses the options.
    restarts
        What changes cost.
    interval_seconds
        Time between two decisions.
    growth
        A job may have at most so many times the GPUs that it ever had; one that never had any may
        have one (Pollux, section 4.2). Infinite for no limit.
    keep_paused
        Whether jobs keep their option while they pause (Sia).
    whole_nodes
        How gangs are placed, see `apportion.mechanism.configurations.packing.pack`.
    by_links
        Who places gangs again that have been packed; nobody by default.

    Attributes
    ----------
    intervals
        Decisions so far.
    """

    event_driven = False

    def __init__(
        self,
        jobs: JobTable,
        devices: Devices,
        options: GangOptions,
        choice: OptionChoice,
        restarts: JobRestarts,
        *,
        name: str,
        interval_seconds: float = 60.0,
        growth: float = 2.0,
        keep_paused: bool = False,
        whole_nodes: bool = False,
        by_links: ByLinks | None = None,
    ) -> None:
        self.name = name
        self._jobs, self._devices, self._options = jobs, devices, options
        self._choice, self._restarts = choice, restarts
        self._interval_s, self._growth = interval_seconds, growth
        self._keep_paused, self._whole_nodes = keep_paused, whole_nodes
        self._by_links = by_links
        count = jobs.jobs
        self.option: Ints = np.full(count, -1, dtype=np.intp)
        self.restarts: Ints = np.zeros(count, dtype=np.intp)
        self.most: Ints = np.zeros(count, dtype=np.intp)
        self.ready_s: Floats = np.full(count, -np.inf)
        self.intervals = 0
        self._edge_s = -np.inf
        self._in_place = restarts.kind == "edl" and not whole_nodes
        self._joining = Joining()

    def decide(self, event: Event) -> Decision | None:
        """Let go of who is done; at an interval choose anew, and place whose option has changed."""
        done = self._let_go(event)
        before, due = self._standing(), self._begins(event.now_s, done=done)
        joined = self._join(event.now_s)
        if due:
            self._renew(event.now_s)
        return self._change(event.now_s, before, joined, resolved=due)

    def _begins(self, now_s: float, *, done: bool) -> bool:
        """Tell whether an interval begins: in time, or as all that had GPUs are done."""
        due = now_s >= self._edge_s - _ROUNDING * abs(now_s)
        due = due or (done and not (self.option >= 0).any())
        if due:
            self._edge_s = now_s + self._interval_s
        return due

    def _let_go(self, event: Event) -> bool:
        """Learn from what ran, take the GPUs of those who are done; tell whether any is."""
        if event.ran is None:
            return False
        done = event.ran.done.tolist()
        self._choice.observe(event.ran)
        self._devices.release(done)
        self._joining.forget(done)
        self.option[done] = -1
        return bool(done)

    def _join(self, now_s: float) -> set[int]:
        """Let new workers join that are ready: their jobs pause to form another ring."""
        joined = self._joining.join(now_s)
        until_s = now_s + self._restarts.rescale_s[joined]
        self.ready_s[joined] = np.maximum(self.ready_s[joined], until_s)
        return set(joined)

    def _standing(self) -> Standing:
        return Standing(self.option.copy(), dict(self._devices.held))

    def _renew(self, now_s: float) -> None:
        """Choose an option for every job, and place those that have another one."""
        self.intervals += 1
        active, before = self._jobs.active, self.option.copy()
        self.option[active] = self._choice.choose(self._asked(now_s))
        self._place(active, before)

    def _capacity(self) -> Ints:
        """Return the GPUs of each type that may be given."""
        return self._jobs.capacity.astype(np.intp)

    def _gangs(self, jobs: Ints) -> Gangs:
        """Return who has GPUs, on which these are."""
        return self._devices.gangs(jobs)

    def _asked(self, now_s: float) -> Asked:
        active = self._jobs.active
        started = self.most[active] > 0
        most = np.full(active.size, float(self._options.gpus.max(initial=1)))
        if np.isfinite(self._growth):
            most = np.minimum(most, np.where(started, self.most[active] * self._growth, 1.0))
        return Asked(
            now_s,
            active,
            self.option[active],
            most,
            self.restarts[active],
            started,
            self._restarts.believed_s[active],
            self._pinned(now_s),
            self._capacity(),
        )

    def _pinned(self, now_s: float) -> Bools:
        """Tell which active jobs keep what they have."""
        active = self._jobs.active
        paused = (self.ready_s[active] > now_s) & (self.option[active] >= 0)
        return paused & self._keep_paused

    def _place(self, active: Ints, before: Ints) -> None:
        """Give GPUs to who has another option; who cannot be placed has none."""
        options, devices = self._options, self._devices
        new = active[self.option[active] != before[active]]
        held_before = dict(devices.held)
        if self._in_place:
            new = self._resize(new, before)
        devices.release([gang for gang in new.tolist() if gang in devices.held])
        wanted = {
            job: (int(options.kind[self.option[job]]), int(options.gpus[self.option[job]]))
            for job in new.tolist()
            if self.option[job] >= 0
        }
        declined = pack(devices, wanted, whole_nodes=self._whole_nodes)
        if self._by_links is not None:
            self._by_links.place(wanted.keys() & devices.held.keys())
        for job in held_before.keys() - devices.held.keys() | set(declined):
            self.option[job] = -1

    def _resize(self, jobs: Ints, before: Ints) -> Ints:
        """Let gangs shrink and grow where they are, as far as they can; return the others."""
        options, devices = self._options, self._devices
        gpus = {job: int(options.gpus[self.option[job]]) for job in jobs.tolist()}
        had = (before[jobs] >= 0) & (self.option[jobs] >= 0)
        same = jobs[had & (options.kind[before[jobs]] == options.kind[self.option[jobs]])].tolist()
        smaller = [job for job in same if gpus[job] < len(devices.held[job][1])]
        for job in smaller:
            held, work = devices.held[job][1], self._joining.working(job)
            shrink(devices, job, gpus[job], set(held) - set(held if work is None else work))
        larger = sorted(set(same) - set(smaller), key=lambda job: (gpus[job], job))
        devices.release([job for job in set(jobs.tolist()) - set(same) if job in devices.held])
        stay = {
            job
            for job in larger
            if grow(devices, job, gpus[job], int(options.nodes[self.option[job]]))
        }
        return np.array(
            [job for job in jobs.tolist() if job not in {*smaller, *stay}], dtype=np.intp
        )

    def _change(
        self, now_s: float, before: Standing, joined: set[int], *, resolved: bool = True
    ) -> Decision:
        """Return who has GPUs now; who has others than before starts, and loses its pause."""
        active, options, held = self._jobs.active, self._options, self._devices.held
        job = active[self.option[active] >= 0]
        gangs = self._gangs(job)
        moved = [before.held.get(each) != held[each] for each in job.tolist()]
        starts = np.array(moved, dtype=bool)
        pauses = ~starts & np.isin(job, list(joined))
        self._joining.forget(set(before.held) - set(held))
        self.ready_s[job[starts]] = now_s + self._pauses(now_s, job[starts], before)
        lost_s = np.where(starts | pauses, self.ready_s[job] - now_s, 0.0)
        self.restarts[job[starts & (self.most[job] > 0)]] += 1
        self.most[job] = np.maximum(self.most[job], options.gpus[self.option[job]])
        had = before.option >= 0
        stop = active[had[active] & (self.option[active] < 0)]
        return Decision(
            gangs._replace(working=self._joining.of(job)),
            starts,
            np.union1d(stop, job[starts & had[job]]),
            lost_s=lost_s,
            pauses=pauses if joined else None,
            resolved=resolved,
        )

    def _pauses(self, now_s: float, job: Ints, before: Standing) -> Floats:
        """Return for how long jobs pause that have changed."""
        options, option, old = self._options, self.option[job], before.option[job]
        had = np.where(old >= 0, options.gpus[old], 0)
        # On another type there is nothing of the old gang to go on with.
        same_type = options.kind[old] == options.kind[option]
        had = np.where(same_type | (had == 0), had, options.gpus[option])
        kind, first_s, rescale_s = self._restarts[:3]
        lost_s = lost_seconds(kind, first_s[job], rescale_s[job], had, options.gpus[option])
        if kind == "edl":
            for place, each in enumerate(job.tolist()):
                lost_s[place] = self._joins(now_s, each, before.held.get(each))
        # Who is still loading what it needs is not done sooner for having fewer GPUs.
        return np.where(old >= 0, np.maximum(lost_s, self.ready_s[job] - now_s), lost_s)

    def _joins(self, now_s: float, job: int, before: Held | None) -> float:
        """Let workers that are new prepare beside the old ones; return for how long all pause."""
        first_s = float(self._restarts.first_s[job])
        goes_on = self._joining.change(job, before, self._devices.held[job], now_s + first_s)
        return 0.0 if goes_on else first_s

    def valid_for_s(self, now_s: float) -> float:
        """Return the time to the next interval, or until new workers join."""
        return min(self._edge_s, self._joining.next_s) - now_s

    def unchanged_until_s(self, now_s: float) -> float:
        """Return now: what jobs are worth changes as they train."""
        return now_s
