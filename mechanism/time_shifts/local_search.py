"""Good shifts for many jobs: iterated local search over slots of time, many chains at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from apportion.mechanism.time_shifts.circle import EQUAL, descended
from apportion.mechanism.time_shifts.turning import aligned_slots

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.time_shifts.turning import TurningJobs
    from apportion.types import Floats, Int64s


CHAINS = 40
KICKS = 50
"""Chains of the search, and times that two jobs of each are turned at random: calls of NumPy
cost as much as what they do, so that more chains and fewer turns find as much in less time."""

_SLOTS = 144
_MOST_SLOTS = 4096
_SLOTS_PER_PERIOD = 24
_POLISHED = 2
_ROUNDS = 2
_WORSE = 1.02
_WHOLE = 2.0**20
"""Capacity in the numbers of the search: demands are whole, so that their sums are exact."""


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
        levels, of_slot = np.unique(demand, return_inverse=True)
        self.base, self.above = float(levels[0]), (levels - levels[0])[1:, None]
        # Row s is what the job wants above its base over the circle if turned by (-s) slots.
        self._turned = sliding_window_view(
            np.tile(demand - self.base, repetitions + 1), demand.size * repetitions
        )
        edges, turns = [np.zeros((2, 0, demand.size), np.int64)], [np.zeros((0, demand.size))]
        for place in range(levels.size - 1):
            runs = _runs(of_slot == place + 1)[:, :, None] + np.arange(demand.size)
            edges.append((demand.size + 1) * place + runs % demand.size)
            turns.append(np.subtract(*(runs // demand.size)).sum(axis=0)[None])
        self._edges = np.concatenate(edges, axis=1)
        self._turns = np.concatenate(turns).astype(float)

    def sums(self, values: Floats) -> Floats:
        """Sum values over the slots of each demand, for all rotations.

        Parameters
        ----------
        values
            By demand above the base and slot of the circle, shape (chains, demands, slots).

        Returns
        -------
        numpy.ndarray
            Shape (chains, slots of the period).
        """
        chains, demands, _ = values.shape
        if self.repetitions > 1:
            values = values.reshape(chains, demands, self.repetitions, self.slots).sum(axis=2)
        before = np.zeros((chains, demands, self.slots + 1))  # each slot, and at last all
        values.cumsum(axis=2, out=before[:, :, 1:])
        ends, starts = (
            before.reshape(chains, -1).take(self._edges, axis=1).sum(axis=2).swapaxes(0, 1)
        )
        total: Floats = np.ascontiguousarray(before[:, :, -1]) @ self._turns
        total += ends
        total -= starts
        return total

    def turned(self, rotations: Int64s) -> Floats:
        """Return the demand above the base for some rotations, shape (rotations, slots)."""
        rows: Floats = self._turned[-rotations % self.slots]
        return rows


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
        self._base = sum(job.base for job in self.jobs) - _WHOLE
        self._gbps, self._share = scale * turning.background.gbps, turning.background.share

    def over(self, load: Floats) -> Floats:
        """Return what exceeds the capacity of loads less the capacity, as `TurningJobs.over`."""
        if self._gbps.size == 1:
            over = load + self._gbps[0] if self._gbps[0] else load
            return np.maximum(over, 0.0)
        total = np.zeros(load.shape)
        for gbps, share in zip(self._gbps, self._share, strict=True):
            total += share * np.maximum(load + gbps, 0.0)
        return total

    def load(self, rotations: Int64s) -> Floats:
        """Return the load of all jobs less the capacity, shape (chains, slots)."""
        turned = [job.turned(rotations[:, place]) for place, job in enumerate(self.jobs)]
        total: Floats = np.sum(turned, axis=0) + self._base
        return total

    def excess_of_rotations(self, job: _SlottedJob, load: Floats) -> Floats:
        """Excess for every rotation of a job beside a load that has its base already.

        Shape (chains, slots of the period).
        """
        base = self.over(load)
        more = self.over(load[:, None] + job.above)
        more -= base[:, None]
        total: Floats = job.sums(more)
        total += base.sum(axis=1, keepdims=True)
        return total

    def descend(self, rotations: Int64s) -> Floats:
        """Turn one job after the other, in place, a few rounds or until no chain gains.

        Returns the excess.
        """
        load = self.load(rotations)
        reached: Floats = self.over(load).sum(axis=1)
        chains = np.arange(len(rotations))
        for _ in range(_ROUNDS):
            before = reached
            for place, job in enumerate(self.jobs[1:], 1):
                load -= job.turned(rotations[:, place])
                excess = self.excess_of_rotations(job, load)
                rotations[:, place] = best = excess.argmin(axis=1)
                reached = excess[chains, best]
                load += job.turned(best)
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


def _kicked(rotations: Int64s, sizes: Int64s, random: np.random.Generator) -> Int64s:
    """Turn two jobs of every chain at random; the first job stays."""
    trial = rotations.copy()
    chains = np.arange(len(trial))
    for _ in range(2):
        places = random.integers(1, sizes.size, len(trial))
        trial[chains, places] = random.integers(0, sizes[places])
    return trial


def _slots_of(turning: TurningJobs) -> int | None:
    """Slots of the circle, such that every period has whole ones; None for too many."""
    circle = turning.circle
    least = math.lcm(*circle.repetitions)
    wanted = max(_SLOTS, _SLOTS_PER_PERIOD * max(circle.repetitions))
    aligned = aligned_slots(turning, wanted)
    if aligned is not None:
        return aligned
    slots = least * -(-wanted // least)
    return slots if slots <= _MOST_SLOTS else None


def _runs(there: NDArray[np.bool_]) -> Int64s:
    """Return where runs of slots end (up to twice the period) and start, shape (2, runs)."""
    starts = np.flatnonzero(there & ~np.roll(there, 1))
    ends = np.flatnonzero(there & ~np.roll(there, -1)) + 1
    if ends[0] <= starts[0]:
        ends = np.append(ends[1:], ends[0] + there.size)
    return np.stack([ends, starts])
