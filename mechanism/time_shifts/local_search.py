"""Good shifts for many jobs: iterated local search over slots of time, many chains at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from apportion.mechanism.time_shifts.one_rotation import EQUAL, descended

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.time_shifts.turning import TurningJobs

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["searched"]

CHAINS = 32
KICKS = 24
"""Chains of the search, and times that two jobs of each are turned at random."""

_SLOTS = 144
_MOST_SLOTS = 4096
_SLOTS_PER_PERIOD = 24
_POLISHED = 4
_WORSE = 1.02
_WHOLE = 2.0**20
"""Capacity in the numbers of the search: demands are whole, so that their sums are exact."""


class _Runs(NamedTuple):
    """Slots in which a job has one of its demands: where runs start, and how long they are."""

    demand: float
    starts: list[int]
    lengths: list[int]


class _SlottedJob:
    """A job whose edges are rounded to slots.

    Parameters
    ----------
    demand
        Of every slot of its period, shape (slots of the period,).
    repetitions
        Periods on the circle.
    """

    def __init__(self, demand: Floats, repetitions: int) -> None:
        self.slots, self.repetitions = demand.size, repetitions
        # Row s is the demand over the circle of a job that is turned by (-s) slots.
        self._turned = sliding_window_view(
            np.tile(demand, repetitions + 1), demand.size * repetitions
        )
        levels = np.unique(demand)
        self.base = float(levels[0])
        self.runs = [_runs(demand, level) for level in levels[1:]]

    def turned(self, rotations: Ints) -> Floats:
        """Return the demand over the circle for some rotations, shape (rotations, slots)."""
        return self._turned[-rotations % self.slots]


class _Chains:
    """Chains of local searches side by side; arrays have one row a chain."""

    def __init__(self, turning: TurningJobs, slots: int) -> None:
        scale = _WHOLE / turning.capacity_gbps
        unit = slots // math.lcm(*turning.circle.repetitions)
        self.jobs = []
        for job, repetitions in zip(turning.jobs, turning.circle.repetitions, strict=True):
            middles = (np.arange(job.units * unit) + 0.5) * (job.period_s / (job.units * unit))
            after = np.searchsorted(job.edges_s, middles, side="right") - 1
            self.jobs.append(_SlottedJob(np.rint(scale * job.after_gbps[after]), repetitions))
        self._gbps, self._share = scale * turning.background.gbps, turning.background.share

    def over(self, load: Floats) -> Floats:
        """Return what exceeds the capacity, as `TurningJobs.over`."""
        if self._gbps.size == 1:
            over: Floats = np.maximum(0.0, load + (self._gbps[0] - _WHOLE))
            return over
        total = np.zeros(load.shape)
        for gbps, share in zip(self._gbps, self._share, strict=True):
            total += share * np.maximum(0.0, load + (gbps - _WHOLE))
        return total

    def load(self, rotations: Ints) -> Floats:
        """Return the load of all jobs, shape (chains, slots)."""
        turned = [job.turned(rotations[:, place]) for place, job in enumerate(self.jobs)]
        total: Floats = np.sum(turned, axis=0)
        return total

    def excess_of_rotations(self, job: _SlottedJob, load: Floats) -> Floats:
        """Excess for every rotation of a job beside a load, shape (chains, slots of its period)."""
        base = self.over(load + job.base)
        total = np.repeat(base.sum(axis=1, keepdims=True), job.slots, axis=1)
        for runs in job.runs:
            more = self.over(load + runs.demand) - base
            folded = more.reshape(len(load), job.repetitions, job.slots).sum(axis=1)
            until = np.zeros((len(load), 2 * job.slots + 1))
            np.cumsum(folded, axis=1, out=until[:, 1 : job.slots + 1])
            np.add(
                until[:, 1 : job.slots + 1],
                until[:, job.slots, None],
                out=until[:, job.slots + 1 :],
            )
            for start, length in zip(runs.starts, runs.lengths, strict=True):
                windows = until[:, length : length + job.slots] - until[:, : job.slots]
                total[:, : job.slots - start] += windows[:, start:]
                total[:, job.slots - start :] += windows[:, :start]
        return total

    def descend(self, rotations: Ints, rounds: int = 8) -> Floats:
        """Turn one job after the other, in place, until no chain gains; return the excess."""
        load = self.load(rotations)
        reached: Floats = self.over(load).sum(axis=1)
        chains = np.arange(len(rotations))
        for _ in range(rounds):
            before = reached
            for place, job in enumerate(self.jobs[1:], 1):
                load -= job.turned(rotations[:, place])
                excess = self.excess_of_rotations(job, load)
                rotations[:, place] = excess.argmin(axis=1)
                reached = excess[chains, rotations[:, place]]
                load += job.turned(rotations[:, place])
            if not (reached < before).any():
                break
        return reached


def searched(
    turning: TurningJobs, least: float, *, chains: int = CHAINS, kicks: int = KICKS, seed: int = 0
) -> tuple[Floats, float]:
    """Return good shifts, and their excess, never worse than without shifts.

    Every chain descends job by job over all rotations; then, again and again, two jobs are turned
    at random, it descends, and goes on from there unless that is more than 2 % worse. What
    the chains found best is brought from slots to exact shifts (`descended`).

    Parameters
    ----------
    turning
        The jobs.
    least
        No excess is smaller; where it is reached the search ends.
    chains, kicks
        Chains, and random turns in each.
    seed
        Of the random numbers.

    Returns
    -------
    tuple
        Shifts, shape (jobs,), that of the first job 0, and the excess.
    """
    best = descended(turning, np.zeros(len(turning.jobs)))
    if best[1] <= least + EQUAL:
        return best
    for start in _on_slots(turning, least, chains, kicks, seed):
        found = descended(turning, start)
        best = found if found[1] < best[1] - EQUAL else best
    return best


def _on_slots(
    turning: TurningJobs, least: float, chains: int, kicks: int, seed: int
) -> list[Floats]:
    """Search on slots; return the best shifts found, by the chains that are best."""
    random = np.random.default_rng(seed)
    count = len(turning.jobs)
    slots = _slots_of(turning)
    if slots is None:  # too long a circle for slots; exact descents from anywhere
        periods = np.array([job.period_s for job in turning.jobs])
        return list(random.random((chains // 4, count)) * periods * (np.arange(count) > 0))
    search = _Chains(turning, slots)
    sizes = np.array([job.slots for job in search.jobs])
    rotations = random.integers(0, sizes, (chains, count))
    rotations[:, 0] = 0
    rotations[0] = 0
    reached = search.descend(rotations)
    best, best_excess = rotations.copy(), reached.copy()
    least_on_slots = least * slots * _WHOLE
    for _ in range(kicks):
        if best_excess.min() <= least_on_slots + 0.5:
            break
        trial = _kicked(rotations, sizes, random)
        excess = search.descend(trial)
        accepted = excess <= _WORSE * reached
        rotations[accepted], reached[accepted] = trial[accepted], excess[accepted]
        better = excess < best_excess
        best[better], best_excess[better] = trial[better], excess[better]
    slot_s = turning.circle.perimeter_s / slots
    chosen = best[best_excess.argsort(kind="stable")]
    distinct = chosen[np.sort(np.unique(chosen, axis=0, return_index=True)[1])]
    return list(distinct[:_POLISHED] * slot_s)


def _kicked(rotations: Ints, sizes: Ints, random: np.random.Generator) -> Ints:
    """Turn two jobs of every chain at random; the first job stays."""
    trial = rotations.copy()
    chains = np.arange(len(trial))
    for _ in range(2):
        places = random.integers(1, sizes.size, len(trial))
        trial[chains, places] = random.integers(0, sizes[places])
    return trial


def _slots_of(turning: TurningJobs) -> int | None:
    """Slots of the circle, so many that every period has whole ones; None for too many."""
    circle = turning.circle
    least = math.lcm(*circle.repetitions)
    wanted = max(_SLOTS, _SLOTS_PER_PERIOD * max(circle.repetitions))
    slots = least * -(-wanted // least)
    return slots if slots <= _MOST_SLOTS else None


def _runs(demand: Floats, level: float) -> _Runs:
    """Return the runs of slots with one demand, around the circle of the period."""
    there = demand == level
    starts = np.flatnonzero(there & ~np.roll(there, 1))
    ends = np.flatnonzero(there & ~np.roll(there, -1))
    if not starts.size:  # everywhere: one run
        return _Runs(float(level), [0], [demand.size])
    ends = ends if ends[0] >= starts[0] else np.roll(ends, -1)
    lengths = (ends - starts) % demand.size + 1
    return _Runs(float(level), starts.tolist(), lengths.tolist())
