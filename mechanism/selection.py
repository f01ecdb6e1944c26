"""Who runs: walk candidates by priority and take every gang that still fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Bools, Floats, Ints


# Below this many candidates a plain loop costs less than one pass of array operations.
SEQUENTIAL_BELOW = 1000


def select(
    slots: Ints,
    types: Ints,
    gpus: Ints,
    free: Ints,
    taken: Bools,
    *,
    beside: tuple[Floats, Floats] | None = None,
    loop_below: int | None = None,
) -> Ints:
    """Take candidates in the order given, each if its jobs are free and its gang fits.

    A gang that does not fit is passed over; it does not hold up those behind it. The result is
    that of looking at one candidate after the other, whatever their number.

    Parameters
    ----------
    slots
        Jobs that each candidate would run, shape (candidates, members); a candidate with fewer
        members repeats one.
    types
        Accelerator type of each candidate, shape (candidates,).
    gpus
        GPUs that each candidate holds, shape (candidates,).
    free
        GPUs left of each type, shape (types,); updated.
    taken
        Whether each job already runs in this round, shape (jobs,); updated.
    beside
        Units that each candidate holds of resources beside the GPUs, shape (candidates,
        resources), and those left of each, shape (resources,), updated; none by default.
    loop_below
        Number of candidates left at which single steps take over from array operations.

    Returns
    -------
    Positions of the candidates taken, in order.
    """
    if beside is not None:
        return _walk_resources(slots, types, gpus, free, taken, *beside)
    loop_below = SEQUENTIAL_BELOW if loop_below is None else loop_below
    left = np.arange(types.size)
    if left.size > loop_below and _all_fit(slots, types, gpus, free, taken):
        _occupy(left, slots, types, gpus, free, taken)
        return left
    accepted = []
    while left.size > loop_below:
        fits = (gpus[left] <= free[types[left]]) & ~taken[slots[left]].any(axis=1)
        left = left[fits]
        chosen, cut = _certain(slots[left], types[left], gpus[left], free, taken.size)
        accepted.append(left[chosen])
        _occupy(left[chosen], slots, types, gpus, free, taken)
        left = left[cut:]
    last = _one_by_one(left, slots, types, gpus, free, taken)
    return np.concatenate([*accepted, last]) if accepted else last


def _all_fit(slots: Ints, types: Ints, gpus: Ints, free: Ints, taken: Bools) -> bool:
    """Tell whether single jobs, each a candidate once and none running yet, fit all at once."""
    if not types.size or slots.shape[1] > 1 or types.size > taken.size:
        return False
    needed = np.bincount(types, weights=gpus, minlength=free.size)
    if (needed > free).any() or taken[slots].any():
        return False
    return bool(np.bincount(slots[:, 0]).max() == 1)


def _certain(slots: Ints, types: Ints, gpus: Ints, free: Ints, jobs: int) -> tuple[Ints, int]:
    """Find the candidates that are surely taken, and where certainty ends.

    A candidate that comes first for all of its jobs is taken if the GPUs last. One whose job is
    in such a candidate before it is surely not. Anything else ends the certain part.
    """
    position = np.arange(types.size)
    first = np.empty(jobs, dtype=np.intp)
    # Of repeated indices numpy keeps the last value written, here the earliest candidate.
    first[slots[::-1].ravel()] = np.repeat(position[::-1], slots.shape[1])
    ahead = first[slots]
    leads = (ahead == position[:, None]).all(axis=1)
    blocked = leads[ahead].any(axis=1)
    needed = np.zeros((types.size, free.size), dtype=np.intp)
    needed[position, types] = np.where(leads, gpus, 0)
    overflow = leads & (needed.cumsum(axis=0)[position, types] > free[types])
    doubtful = overflow | ~(leads | blocked)
    cut = int(doubtful.argmax()) if doubtful.any() else types.size
    return np.flatnonzero(leads[:cut]), cut


def _occupy(chosen: Ints, slots: Ints, types: Ints, gpus: Ints, free: Ints, taken: Bools) -> None:
    """Book the GPUs and jobs of the candidates chosen."""
    np.subtract.at(free, types[chosen], gpus[chosen])
    taken[slots[chosen]] = True


def _one_by_one(left: Ints, slots: Ints, types: Ints, gpus: Ints, free: Ints, taken: Bools) -> Ints:
    """Take candidates one after the other."""
    room, busy = free.tolist(), taken.tolist()
    if types.size != left.size:
        slots, types, gpus = slots[left], types[left], gpus[left]
    rest = (types.tolist(), gpus.tolist(), room, busy)
    if slots.shape[1] > 1:
        walked = _walk_combinations(slots.tolist(), *rest)
    else:
        walked = _walk_jobs(slots[:, 0].tolist(), *rest)
    chosen = np.frombuffer(walked, dtype=np.bool_).nonzero()[0]
    free[:] = room
    taken[slots[chosen]] = True
    return left[chosen]


def _walk_jobs(
    jobs: list[int], types: list[int], gpus: list[int], room: list[int], busy: list[bool]
) -> bytearray:
    """Mark candidates of one job each that are taken in order; `room` and `busy` are updated."""
    chosen, total = bytearray(len(jobs)), sum(room)
    for position, (job, kind, size) in enumerate(zip(jobs, types, gpus, strict=True)):
        if size <= room[kind] and not busy[job]:
            chosen[position] = True
            busy[job] = True
            room[kind] -= size
            total -= size
            if not total:
                break
    return chosen


def _walk_combinations(
    jobs: list[list[int]], types: list[int], gpus: list[int], room: list[int], busy: list[bool]
) -> bytearray:
    """Mark candidates of several jobs each that are taken in order, as `_walk_jobs`."""
    chosen = bytearray(len(jobs))
    for position, (members, kind, size) in enumerate(zip(jobs, types, gpus, strict=True)):
        if size <= room[kind] and not any(map(busy.__getitem__, members)):
            chosen[position] = True
            for job in members:
                busy[job] = True
            room[kind] -= size
            if not any(room):
                break
    return chosen


def _walk_resources(
    slots: Ints, types: Ints, gpus: Ints, free: Ints, taken: Bools, units: Floats, left: Floats
) -> Ints:
    """Take candidates in order, of which each needs room in resources beside the GPUs as well."""
    chosen = []
    able = (gpus <= free[types]) & (units <= left).all(axis=1)
    for place in np.flatnonzero(able).tolist():
        kind, jobs = types[place], slots[place]
        fits = gpus[place] <= free[kind] and not taken[jobs].any()
        if fits and (units[place] <= left).all():
            chosen.append(place)
            taken[jobs] = True
            free[kind] -= gpus[place]
            left -= units[place]
    return np.array(chosen, dtype=np.intp)
