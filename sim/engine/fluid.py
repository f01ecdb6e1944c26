"""The fluid runtime: gangs work at rates that hold until the next decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.scheduler import NO_GANGS, NOBODY, Decision, DutyCycle, GangProgress, Gangs
from apportion.sim.engine.duty_cycle import DutyClock, one_after_the_other, repeats, seconds_of
from apportion.sim.engine.speeds import LastingRates, Speeds
from apportion.sim.engine.true_state import ROUNDING

if TYPE_CHECKING:
    import pandas as pd

    from apportion.sim.engine.true_state import TrueState
    from apportion.types import Bools, Floats, Ints

_SURE_S = 1.0
"""Who has so much more to do than there is time is not done by then: ticks and the rounding of long
times are some 1e-6 s."""


class Fluid:
    """Books what gangs do between two decisions, at the rates that `Speeds` gives them.

    Parameters
    ----------
    truth
        The books.
    speeds
        How fast all gangs are that have devices.
    tick_s
        Jobs are done at multiples of it, seconds; at 0, when they are done.
    """

    def __init__(self, truth: TrueState, speeds: Speeds, *, tick_s: float = 0.0) -> None:
        self._truth, self._speeds, self._tick_s = truth, speeds, tick_s
        self._timed = None if type(speeds).changes_s is Speeds.changes_s else speeds
        self._gangs, self._rates = NO_GANGS, LastingRates(speeds, truth.jobs)
        self._gpus: Floats = np.empty(0)  # for which each line accounts
        self._clock: DutyClock | None = None
        # The last decision, if it changes nothing and would not if it came again.
        self._again: Decision | None = None
        self._rate: Floats = np.zeros(0)
        # Seconds that each line still loses from now on; None for nothing at all.
        self._lost_s: Floats | None = None

    @property
    def speeds(self) -> Speeds:
        """How fast gangs are."""
        return self._speeds

    def apply(self, now_s: float, decision: Decision) -> None:
        """Let the gangs of a decision have their devices; count who starts and who is stopped."""
        if decision is self._again:
            return
        truth, gangs = self._truth, decision.gangs
        if decision.stop.size:
            truth.preemptions[decision.stop] += 1
        new = gangs.job[decision.starts]
        if new.size:
            truth.start_s[new] = np.fmin(truth.start_s[new], now_s)
        self._lost_s = self._still_lost(decision)
        asked = gangs is self._gangs and not new.size and decision.moved is None
        known = asked and self._timed is None and self._speeds.apart
        self._take(gangs, decision.duty_cycle)
        if self._timed is not None:
            self._timed.changes_s(now_s)
        if not known:
            self._rate = self._rates(decision)
        none = not decision.stop.size and decision.pauses is None
        self._again = decision if known and none else None

    def run(
        self, now_s: float, length_s: float, until_s: float, *, to_completion: bool
    ) -> tuple[float, GangProgress]:
        """Let gangs work for a while, see `apportion.sim.engine.loop.Runtime`."""
        changes_s = np.inf if self._timed is None else self._asked_anew(now_s, self._timed)
        if to_completion and self._timed is None:
            return self._run_to_completion(now_s, length_s)
        if to_completion:
            return self._run_on(now_s, length_s, changes_s)
        gangs, lost_s = self._gangs, self._lost_s
        needed_s = seconds_of(self._truth.remaining[gangs.job], self._rate)
        if lost_s is None:
            if not gangs.job.size and np.isinf(until_s):
                return np.inf, self._ran(needed_s, needed_s, length_s)
            ends_s = repeats(now_s, length_s, min(until_s, changes_s - length_s), needed_s)
            if ends_s.size > 1:
                return float(ends_s[-1]), self._repeated(length_s, ends_s.size)
        else:
            needed_s = lost_s + needed_s
        if not self._speeds.apart and (changes_s < now_s + length_s or (needed_s < length_s).any()):
            return self._run_among(now_s, length_s)
        own_s = np.minimum(needed_s, length_s)
        held_s = own_s if gangs.mate is None else np.maximum(own_s, own_s[gangs.mate])
        worked_s = own_s if lost_s is None else np.maximum(own_s - lost_s, 0.0)
        self._truth.work(gangs.job, self._rate * worked_s)
        self._speeds.worked(gangs, worked_s)
        self._truth.hold(gangs.job, gangs.option, own_s, held_s * self._gpus)
        finished = (needed_s <= length_s * (1 + ROUNDING)).nonzero()[0]
        done = gangs.job[finished]
        if done.size:
            self._truth.complete(done, now_s + needed_s[finished])
        passed_s = float(held_s[held_s.argmax()]) if held_s.size else length_s
        self._pass(passed_s)
        return now_s + passed_s, self._ran(worked_s, held_s, passed_s, done)

    def _asked_anew(self, now_s: float, timed: Speeds) -> float:
        """Ask for speeds that have changed by themselves; return when they change next."""
        changes_s = timed.changes_s(now_s)
        if changes_s <= now_s:
            self._rate = timed.rates(self._gangs)
            changes_s = timed.changes_s(now_s)
        return changes_s

    def _run_among(self, now_s: float, length_s: float) -> tuple[float, GangProgress]:
        """Let gangs work for a while in which some are done, and others have it easier then."""
        truth, gangs = self._truth, self._gangs
        rate, to_do = self._rate, truth.remaining[gangs.job]
        there, left = np.ones(gangs.job.size, dtype=bool), to_do.copy()
        lost_s = np.zeros(gangs.job.size) if self._lost_s is None else self._lost_s
        own_s, worked_s = np.full(gangs.job.size, float(length_s)), np.zeros(gangs.job.size)
        at_s = 0.0
        while there.any() and at_s < length_s:
            with np.errstate(divide="ignore", invalid="ignore"):  # of who is there no more
                needed_s = np.where(there, lost_s + left / rate, np.inf)
            step_s = min(float(needed_s.min()), length_s - at_s)
            if self._timed is not None:
                changes_s = self._timed.changes_s(now_s + at_s)
                step_s = min(step_s, max(changes_s - now_s - at_s, 0.0))
            work_s = np.where(there, np.maximum(step_s - lost_s, 0.0), 0.0)
            over = needed_s <= step_s * (1 + ROUNDING)
            at_s = length_s if step_s == length_s - at_s else at_s + step_s
            left, worked_s = np.maximum(left - rate * work_s, 0.0), worked_s + work_s
            lost_s = np.maximum(lost_s - step_s, 0.0)
            left[over], own_s[over], there = 0.0, at_s, there & ~over
            self._speeds.worked(gangs, work_s)
            if self._timed is not None:
                self._timed.changes_s(now_s + at_s)
            rate = self._speeds.rates(gangs, there)
        held_s = own_s if gangs.mate is None else np.maximum(own_s, own_s[gangs.mate])
        finished = (left == 0).nonzero()[0]
        truth.work(gangs.job, to_do - left)
        truth.hold(gangs.job, gangs.option, own_s, held_s * self._gpus)
        truth.complete(gangs.job[finished], now_s + own_s[finished])
        passed_s = float(held_s.max())
        self._pass(passed_s)
        mean = np.divide(to_do - left, worked_s, out=np.zeros(left.size), where=worked_s > 0)
        done, ran = gangs.job[finished], self._ran(worked_s, held_s, passed_s)
        return now_s + passed_s, ran._replace(rate=mean, done=done)

    def awaits(self, starts: Bools) -> bool:
        """Tell whether a gang that did not just start gets ahead once its pause is over."""
        return bool((~starts & (self._rate > 0)).any())

    def tables(self, jobs: pd.Index) -> dict[str, pd.DataFrame]:
        """Return what there is to tell of the speeds."""
        return self._speeds.tables(jobs)

    def _take(self, gangs: Gangs, duty_cycle: DutyCycle | None) -> None:
        """Let these gangs have devices; of a pair, each accounts for half of them."""
        if gangs is not self._gangs:
            self._gangs, self._gpus = gangs, gangs.gpus.astype(float)
            if gangs.mate is not None:
                alone = gangs.mate == np.arange(gangs.mate.size)
                self._gpus *= np.where(alone, 1.0, 0.5)
        if duty_cycle is None:
            self._clock = None
        elif self._clock is None or self._clock.duty_cycle is not duty_cycle:
            self._clock = DutyClock(duty_cycle)

    def _repeated(self, length_s: float, times: int) -> GangProgress:
        """Book so many stretches in which everybody works all the time and nobody is done."""
        job, option = self._gangs.job, self._gangs.option
        each_s = np.full(job.size, length_s)
        self._truth.work(job, self._rate * length_s, times=times)
        self._speeds.worked(self._gangs, each_s * times)
        self._truth.hold(job, option, each_s, each_s * self._gpus, times=times)
        return self._ran(each_s, each_s, length_s, times=times)

    def _run_on(
        self, now_s: float, length_s: float, changes_s: float
    ) -> tuple[float, GangProgress]:
        """Run to a time or until the first job is done, also if speeds change meanwhile."""
        at_s, so_far = now_s, None
        while True:
            left_s = length_s - (at_s - now_s)
            step_s = min(left_s, changes_s - at_s)
            end_s, ran = self._run_to_completion(at_s, step_s)
            so_far = ran if so_far is None else one_after_the_other(so_far, ran)
            if self._timed is None or step_s == left_s or ran.done.size:
                return end_s, so_far
            at_s = end_s
            changes_s = self._asked_anew(at_s, self._timed)

    def _run_to_completion(self, now_s: float, length_s: float) -> tuple[float, GangProgress]:
        """Run to a time or until the first job is done."""
        truth, share = self._truth, self._gangs.share
        jobs, rate, remaining, work_s = self._work_left()
        needed_s, passed_s = None, length_s
        # Rests and losses only add to the work: mostly nobody can be done by then.
        if not work_s.size or not work_s[work_s.argmin()] > length_s + _SURE_S:
            needed_s = self._by_the_clock(now_s, work_s)
            # From the least time needed and not from two readings of a clock: rounding could stop
            # it.
            passed_s = min(
                float(needed_s[needed_s.argmin()]) if needed_s.size else np.inf, length_s
            )
            if passed_s == np.inf:
                return np.inf, self._ran(needed_s, needed_s, length_s)
        worked_s = self._worked(now_s, passed_s, jobs.size)
        truth.work(jobs, np.minimum(rate * worked_s, remaining))
        self._speeds.worked(self._gangs, worked_s)
        held_s = self._hold(passed_s)
        if share is not None:
            worked_s = held_s
        done = NOBODY if needed_s is None else jobs[needed_s <= passed_s * (1 + ROUNDING)]
        if done.size:
            truth.complete(done, np.full(done.size, now_s + passed_s))
        self._pass(passed_s)
        return now_s + passed_s, self._ran(worked_s, held_s, passed_s, done)

    def first_done_s(self, now_s: float) -> float:
        """Return in how many seconds the first job is done if nothing changes; infinite if none."""
        return float(self._by_the_clock(now_s, self._work_left()[3]).min(initial=np.inf))

    def _work_left(self) -> tuple[Ints, Floats, Floats, Floats]:
        """Return jobs with devices, steps/s, steps left, and for how many seconds each works."""
        gangs, rate = self._gangs, self._rate
        jobs: Ints = gangs.job
        if gangs.share is not None:
            jobs = np.bincount(jobs).nonzero()[0]
            of_job = np.bincount(gangs.job, weights=rate * gangs.share, minlength=self._truth.jobs)
            rate = of_job[jobs].astype(float)
        remaining = self._truth.remaining[jobs]
        return jobs, rate, remaining, seconds_of(remaining, rate)

    def _hold(self, passed_s: float) -> Floats:
        """Book devices had all the time, or a share of it, perhaps by a job on several types.

        Return the seconds for which each line had its own.
        """
        truth, used, (job, _, option, _, mate, share) = self._truth, self._gpus, self._gangs[:6]
        if share is None:
            truth.hold(job, option, passed_s, passed_s * used)
            each_s = np.empty(job.size)
            each_s.fill(passed_s)  # as np.full does, in which short runs spend their time
            return each_s
        held_s = share * passed_s
        if mate is None:  # a job has one line on each type
            truth.hold(job, option, held_s, share * used * passed_s)
            return held_s
        cells, place = np.unique(job * truth.capacity.size + option, return_inverse=True)
        time, taken = np.zeros((2, cells.size))
        np.add.at(time, place, share)
        np.add.at(taken, place, share * used)
        truth.hold(*np.divmod(cells, truth.capacity.size), time * passed_s, taken * passed_s)
        return held_s

    def _by_the_clock(self, now_s: float, work_s: Floats) -> Floats:
        """Return when so much work is done, rests and losses included, in seconds from now."""
        needed_s = work_s
        if self._clock is not None:
            needed_s = self._clock.needed_s(now_s, work_s)
        elif self._lost_s is not None:
            needed_s = self._lost_s + work_s
        if self._tick_s:
            # However little there is to do: nothing begins and is done in one instant.
            needed_s = np.maximum(np.rint(needed_s / self._tick_s), 1.0) * self._tick_s
        return needed_s

    def _worked(self, now_s: float, passed_s: float, lines: int) -> Floats:
        """Return how long each line works in the next so many seconds."""
        if self._clock is not None:
            before_s = self._clock.worked_s(now_s)
            return self._clock.worked_s(now_s + passed_s) - before_s
        if self._lost_s is not None:
            return np.maximum(passed_s - self._lost_s, 0.0)
        return np.full(lines, passed_s)

    def _still_lost(self, decision: Decision) -> Floats | None:
        """Return what each line of a decision loses: who starts, and who still did before."""
        lost = decision.lost_s
        if self._lost_s is None and not (lost if isinstance(lost, float) else np.any(lost)):
            return None
        of_job = np.zeros(self._truth.jobs)
        if self._lost_s is not None:
            of_job[self._gangs.job] = self._lost_s
        anew = decision.starts if decision.pauses is None else decision.starts | decision.pauses
        lost_s = np.where(anew, decision.lost_s, of_job[decision.gangs.job])
        return lost_s if lost_s.any() else None

    def _pass(self, passed_s: float) -> None:
        """Let time go by for what is lost at a start."""
        if self._lost_s is not None:
            left_s = np.maximum(self._lost_s - passed_s, 0.0)
            self._lost_s = left_s if left_s.any() else None

    def _ran(
        self,
        worked_s: Floats,
        held_s: Floats,
        length_s: float,
        done: Ints = NOBODY,
        *,
        times: int = 1,
    ) -> GangProgress:
        return GangProgress(self._gangs, self._rate, worked_s, held_s, done, length_s, times)
