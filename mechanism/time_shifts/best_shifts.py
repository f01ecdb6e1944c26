"""Which search finds the shifts of the jobs on a link, and what it proves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.time_shifts.certificate import certificate_of
from apportion.mechanism.time_shifts.enumeration import enumerated, ways
from apportion.mechanism.time_shifts.local_search import searched
from apportion.mechanism.time_shifts.one_rotation import EQUAL

if TYPE_CHECKING:
    from apportion.mechanism.time_shifts.mixed import Mixture
    from apportion.mechanism.time_shifts.turning import TurningJobs
    from apportion.types import Floats


_MOST_CERTIFIED = 4
_MOST_WAYS = {1: 1, 2: 1, 3: 20_000, 4: 600, 5: 200}
"""Steps of an enumeration that are worth it, about 0.1 ms each, by the number of jobs."""

_PASSES = 2


def best_shifts(
    mixture: Mixture, bound: float, *, certify: bool, seed: int
) -> tuple[Floats, str, float]:
    """Return shifts, how they were proved, and a bound of the score.

    Parameters
    ----------
    mixture
        The jobs, in an order that does not hang on how they were given.
    bound
        Jensen's.
    certify
        Try to prove by an integer program what is not clear otherwise.
    seed
        Of the random numbers.
    """
    shifts = np.zeros(mixture.count)
    if len(mixture.groups) > 1:
        for _ in range(_PASSES):
            for number, group in enumerate(mixture.groups):
                shifts[group] = _of_group(mixture.turning(number, shifts), 0.0, seed)[0]
        meets = mixture.score(shifts) >= bound - EQUAL
        exact = meets or all(len(group) == 1 for group in mixture.groups)
        return shifts, "exact" if exact else "best known; bound Jensen", bound
    turning = mixture.turning(0, shifts)
    shifts, excess, exact = _of_group(turning, 1 - bound, seed)
    if exact or 1 - excess >= bound - EQUAL:
        return shifts, "exact", bound
    if certify and mixture.count <= _MOST_CERTIFIED:
        proved = certificate_of(turning).bound
        if 1 - excess >= proved - 1e-6:
            return shifts, "exact", bound
        if proved < bound - EQUAL:
            return shifts, "best known; bound integer program", proved
    return shifts, "best known; bound Jensen", bound


def _of_group(turning: TurningJobs, least: float, seed: int) -> tuple[Floats, float, bool]:
    """Shifts of jobs on a circle, their excess, and whether it is proved to be the least."""
    worth = _MOST_WAYS.get(len(turning.jobs), 0)
    if worth and ways(turning) <= worth:  # there are as many orders as permutations
        return (*enumerated(turning, least), True)
    if turning.background.gbps.size > 1:  # each load is then a mean over many
        return (*searched(turning, least, chains=4, kicks=20, seed=seed), False)
    return (*searched(turning, least, seed=seed), False)
