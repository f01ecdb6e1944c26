"""An integer program that proves how good the shifts of the jobs on a link can be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, eye_array, hstack

from apportion.checks import number, seconds
from apportion.errors import InputError
from apportion.mechanism.time_shifts.circle import unified_circle
from apportion.mechanism.time_shifts.profile import profiles_of
from apportion.mechanism.time_shifts.turning import TurningJobs, aligned_slots

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.mechanism.time_shifts.profile import CommunicationProfile
    from apportion.mechanism.time_shifts.turning import TurningJob
    from apportion.types import Floats


_SLOTS, _MOST_SLOTS = 72, 360


class Certificate(NamedTuple):
    """What an integer program proves.

    Attributes
    ----------
    bound
        No shifts have a larger score.
    slots
        Into which the circle was divided.
    aligned
        Whether all edges lie on slots: then the best shifts do so too, and nothing is lost.
    solved
        Whether the program was solved to the optimum in the time given.
    """

    bound: float
    slots: int
    aligned: bool
    solved: bool


def certificate(
    profiles: Iterable[CommunicationProfile], capacity: float, *, time_limit_s: float = 5.0
) -> Certificate:
    """Bound the score that jobs can have on a link by an integer program, see `certificate_of`.

    It proves four jobs in a second or so; with more it seldom ends in time.

    Parameters
    ----------
    profiles
        Of the jobs, of commensurate periods.
    capacity
        Of the link, Gb/s.
    time_limit_s
        Seconds, after which the bound is what has been proved by then.

    Raises
    ------
    InputError
        As `compatibility`, and if the periods are incommensurate.
    """
    given = profiles_of(profiles)
    circle = unified_circle([profile.period_s for profile in given])
    if circle is None:
        raise InputError("The periods are incommensurate; there is no circle to divide into slots.")
    capacity_gbps = number("A link has no capacity: its Gb/s", capacity, strict=True)
    limit = seconds("time_limit_s", time_limit_s, strict=True)
    return certificate_of(TurningJobs.of(given, circle, capacity_gbps), time_limit_s=limit)


def certificate_of(turning: TurningJobs, *, time_limit_s: float = 5.0) -> Certificate:
    """Bound the score of all shifts by an integer program over slots of time.

    Job j chooses one of its rotations, z_j with one 1; column q of B_j is its demand in every slot
    with rotation q::

        min over z, e of sum of e / (slots * capacity)
        e >= sum over j of B_j z_j - capacity,  e >= 0,  sum of z_j = 1,  first job at rotation 0

    An optimum joins edges of jobs into a tree, so that it lies on slots wherever all edges do.
    Where they do not, demands are those in the middle of each slot, and the bound grows by what
    moving every edge by half a slot and every job by another half can save.

    Parameters
    ----------
    turning
        The jobs, without background.
    time_limit_s
        Seconds, after which the bound is what has been proved by then.
    """
    slots, aligned = _slots_of(turning)
    capacity = turning.capacity_gbps
    blocks = [
        _rotations(job, slots, repetitions, capacity)
        for job, repetitions in zip(turning.jobs, turning.circle.repetitions, strict=True)
    ]
    blocks[0] = blocks[0][:, :1]
    choices = [block.shape[1] for block in blocks]
    total = sum(choices)
    above = LinearConstraint(
        hstack([coo_array(np.hstack(blocks)), -eye_array(slots)], format="csr"), -np.inf, 1.0
    )
    owner = np.repeat(np.arange(len(blocks)), choices)
    one = coo_array((np.ones(total), (owner, np.arange(total))), shape=(len(blocks), total + slots))
    found = milp(
        np.append(np.zeros(total), np.full(slots, 1 / slots)),
        integrality=np.append(np.ones(total), np.zeros(slots)),
        bounds=Bounds(0, np.append(np.ones(total), np.full(slots, np.inf))),
        constraints=[above, LinearConstraint(one.tocsr(), 1, 1)],
        # HiGHS holds constraints to 1e-7: a smaller gap would be rounding.
        options={"time_limit": time_limit_s, "mip_rel_gap": 1e-7},
    )
    proved = getattr(found, "mip_dual_bound", None)
    excess = max(0.0, float(proved)) if proved is not None and math.isfinite(proved) else 0.0
    slack = 0.0 if aligned else _slack(turning, slots)
    mean = sum(job.mean_gbps for job in turning.jobs)
    jensen = 1 - max(0.0, mean - capacity) / capacity
    return Certificate(min(jensen, 1 - excess + slack), slots, aligned, found.status == 0)


def _rotations(job: TurningJob, slots: int, repetitions: int, capacity: float) -> Floats:
    """Demand in every slot by rotation, capacities; shape (slots, slots of the period)."""
    own = slots // repetitions
    middles = (np.arange(own) + 0.5) * (job.period_s / own)
    # An edge that misses the end of a slot by a rounding is taken to lie on it.
    after = np.searchsorted(job.edges_s, middles, side="right") - 1
    demand = np.tile(job.after_gbps[after] / capacity, repetitions)
    return np.stack([np.roll(demand, rotation) for rotation in range(own)], axis=1)


def _slots_of(turning: TurningJobs) -> tuple[int, bool]:
    """Fewest slots on which all edges lie, and that they do; else some 72, on which they do not."""
    slots = aligned_slots(turning, _MOST_SLOTS)
    if slots is not None:
        return slots, True
    least = math.lcm(*turning.circle.repetitions)
    return least * -(-_SLOTS // least), False


def _slack(turning: TurningJobs, slots: int) -> float:
    """Most by which rounding of edges and of rotations to slots can raise the excess."""
    moved = sum(
        repetitions * np.abs(job.jumps).sum()
        for job, repetitions in zip(turning.jobs, turning.circle.repetitions, strict=True)
    )
    return float(moved) / (slots * turning.capacity_gbps)
