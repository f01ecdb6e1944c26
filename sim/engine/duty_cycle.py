"""When gangs work that have their devices but rest now and then: the arithmetic of `DutyCycle`.

Stretches of time that follow each other: alike, or with other speeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.repetition import running_sums
from apportion.sim.engine.true_state import ROUNDING

if TYPE_CHECKING:
    from apportion.mechanism.scheduler import DutyCycle, GangProgress
    from apportion.types import Floats


# Stretches that nothing distinguishes are booked together, but not more than memory is for.
_AT_ONCE = 500
# Sums of so many are rounded by far less, as is the time left of who is as good as done.
_CERTAIN = 1e-6


def one_after_the_other(first: GangProgress, second: GangProgress) -> GangProgress:
    """Return what two stretches with the same gangs have brought together."""
    worked_s = first.worked_s + second.worked_s
    steps = first.rate * first.worked_s + second.rate * second.worked_s
    return second._replace(
        rate=np.divide(steps, worked_s, out=second.rate.copy(), where=worked_s > 0),
        worked_s=worked_s,
        held_s=first.held_s + second.held_s,
        length_s=first.length_s + second.length_s,
    )


def seconds_of(steps: Floats, rate: Floats) -> Floats:
    """Return how long steps take; two jobs that were only believed to fit one GPU make none."""
    if rate.nonzero()[0].size == rate.size:
        return steps / rate
    with np.errstate(divide="ignore", invalid="ignore"):
        return steps / rate


def repeats(now_s: float, length_s: float, until_s: float, needed_s: Floats) -> Floats:
    """Return the ends of stretches that begin before a time and in which nobody is done."""
    if until_s <= now_s + length_s:
        return np.empty(0)
    least_s = np.minimum.reduce(needed_s, initial=np.inf)
    whole = int(min(least_s / length_s - _CERTAIN, _AT_ONCE))
    if whole < 2:
        return np.empty(0)
    ends_s = running_sums(now_s, length_s, whole)
    begun = 1 + int(ends_s[:-1].searchsorted(until_s))
    return ends_s[:begun]


def whole_turns(passed_s: Floats, turn_s: Floats) -> Floats:
    """Return ``passed_s // turn_s`` of times from 0 on, in less time than numpy takes for that.

    A quotient is rounded up over a whole number at most up to it, so all others tell theirs.
    """
    turns = passed_s / turn_s
    whole = np.floor(turns)
    just = (turns == whole).nonzero()[0]
    if just.size:
        whole[just] = passed_s[just] // turn_s[just]
    return whole


class DutyClock:
    """Tells how long each line has worked by a time, and when so much more work is done.

    Parameters
    ----------
    duty_cycle
        When each line works and rests.
    """

    def __init__(self, duty_cycle: DutyCycle) -> None:
        self.duty_cycle = duty_cycle
        self._cycle_s: Floats = duty_cycle.work_s + duty_cycle.rest_s
        # Places and not any, all, min: runs of few gangs spend their time in calls.
        self._all_rest = not (self._cycle_s == np.inf).nonzero()[0].size
        self._once = not (duty_cycle.work_s < np.inf).nonzero()[0].size  # and for good
        self._at_s = np.nan
        self._worked_s: Floats = self._cycle_s

    def worked_s(self, at_s: float) -> Floats:
        """Return the seconds that each line has worked since its first spell began."""
        if at_s != self._at_s:  # the end of one stretch is the start of the next
            self._at_s, self._worked_s = at_s, self._work_until(at_s)
        return self._worked_s

    def needed_s(self, now_s: float, work_s: Floats) -> Floats:
        """Return when so many more seconds of work are done, in seconds from now.

        What is left after a spell but for rounding is done with it. A line that never works is
        never done: it needs infinitely long.
        """
        duty_cycle = self.duty_cycle
        total_s = self.worked_s(now_s) + work_s
        ends_s = duty_cycle.ready_s + total_s - now_s
        if self._once:
            return ends_s
        longer = total_s > duty_cycle.work_s
        if longer.nonzero()[0].size:
            with np.errstate(divide="ignore", invalid="ignore"):
                rests = np.ceil(total_s / duty_cycle.work_s - ROUNDING) - 1
                longer &= rests > 0
                ends_s += np.where(longer, rests * duty_cycle.rest_s, 0.0)
        return ends_s

    def _work_until(self, at_s: float) -> Floats:
        duty_cycle, cycle_s = self.duty_cycle, self._cycle_s
        since_s = np.maximum(at_s - duty_cycle.ready_s, 0.0)
        if self._once or not (since_s >= cycle_s).nonzero()[0].size:
            return np.minimum(since_s, duty_cycle.work_s)
        whole = whole_turns(since_s, cycle_s)
        if self._all_rest:
            in_spell_s = np.minimum(since_s - whole * cycle_s, duty_cycle.work_s)
            return np.asarray(whole * duty_cycle.work_s + in_spell_s)
        with np.errstate(invalid="ignore"):
            past_s = np.where(whole > 0, whole * cycle_s, 0.0)
            worked_s = np.where(whole > 0, whole * duty_cycle.work_s, 0.0)
        return np.asarray(worked_s + np.minimum(since_s - past_s, duty_cycle.work_s), dtype=float)
