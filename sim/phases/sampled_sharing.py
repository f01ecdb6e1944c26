"""Which jobs may share a link by samples of their traffic, and for how long shifts hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.checks import number
from apportion.errors import InputError, written
from apportion.mechanism.time_shifts import CommunicationProfile, random_score, score_of
from apportion.mechanism.time_shifts.circle import PACE
from apportion.sim.network.samples import SampledTraffic
from apportion.sim.phases.steady import pace_and_shift

if TYPE_CHECKING:
    from collections.abc import Mapping

HARDLY = 1.02
"""Iterations over those alone with which jobs may share a link."""

KEPT = 0.9
"""Part of the gain that a shift must keep: where less is left, it is time to adjust it."""

PLACES = 400
"""Displacements at which a score is looked at."""

LONGEST = 12
"""Iterations of a job on a common circle, at most."""

HOUR_S = 3600.0


@dataclass(frozen=True)
class SharedPair:
    """How two jobs get on with each other on one link.

    Attributes
    ----------
    jobs
        Their names.
    random, shifted
        Iterations over those alone, mean of both: with starts at random and with the shifts.
    waits_s
        Seconds by which each starts later, from the end of the samples on, by job; ``None`` for a
        job whose start no shift makes better.
    periods_s
        Period to which each is paced, by job; ``None`` for one that goes on at once.
    more_iterations
        Iterations more in an hour than with starts at random, by job.
    useless_after_s
        Seconds after which unadjusted shifts have drifted so far that random starts are as good,
        by the doubt and the difference of the periods; infinite if never, NaN without shifts.
    adjust_every_s
        Seconds after which nine tenths of the gain are left: adjust the shifts this often.
    """

    jobs: tuple[str, str]
    random: float
    shifted: float
    waits_s: Mapping[str, float | None]
    periods_s: Mapping[str, float | None]
    more_iterations: Mapping[str, float]
    useless_after_s: float
    adjust_every_s: float

    @property
    def may_share(self) -> bool:
        """Whether iterations then take no more than 2 % longer than alone."""
        return self.shifted <= HARDLY


def pairs_that_share(
    traffic: SampledTraffic, capacity_gbps: float, *, pace: float = PACE
) -> list[SharedPair]:
    """Tell of every two jobs whether they may share a link, how, and for how long that holds.

    Shifts and pace are those of `pace_and_shift`, measured in the engine of phases with the jitter
    that the samples show. A shift drifts by what the paced iterations differ from the jobs' own,
    by the doubt of these, and by the jitter: ``n |k T_1 - m T_2|`` after n common circles of k and
    m iterations, and ``2 sqrt(n)`` times the deviation of a circle.

    Parameters
    ----------
    traffic
        Of `profiles_from_samples`.
    capacity_gbps
        Of the link.
    pace
        Largest part by which an iteration is stretched.

    Raises
    ------
    InputError
        For what is no `SampledTraffic`, and numbers out of range.
    """
    if not isinstance(traffic, SampledTraffic):
        raise InputError(f"traffic is {written(traffic)}; it must be a SampledTraffic.")
    gbps = number("capacity_gbps", capacity_gbps, strict=True)
    return [_pair(traffic, pair, gbps, pace) for pair in combinations(traffic.profiles, 2)]


def table_of_pairs(pairs: list[SharedPair]) -> pd.DataFrame:
    """Return the pairs as a table, a row for each."""
    return pd.DataFrame(
        [
            {
                "jobs": " + ".join(each.jobs),
                "may_share": each.may_share,
                "random": each.random,
                "shifted": each.shifted,
                "useless_after_s": each.useless_after_s,
                "adjust_every_s": each.adjust_every_s,
            }
            for each in pairs
        ]
    )


def _pair(traffic: SampledTraffic, pair: tuple[str, str], gbps: float, pace: float) -> SharedPair:
    profiles = {job: _carried(traffic, job, gbps) for job in pair}
    chosen = pace_and_shift(
        profiles, {"link": pair}, {"link": gbps}, pace=pace, jitter=_jitter(traffic, pair)
    )
    random, shifted = (
        float(np.mean([*each.values()])) for each in (chosen.unshifted, chosen.slowdown)
    )
    more = {
        job: HOUR_S / profile.period_s * (1 / chosen.slowdown[job] - 1 / chosen.unshifted[job])
        for job, profile in profiles.items()
    }
    useless_s, adjust_s = math.nan, math.nan
    if all(chosen.shifts_s[job] is not None for job in pair):
        useless_s, adjust_s = _holds(traffic, profiles, chosen.shifts_s, chosen.periods_s, gbps)
    return SharedPair(
        pair, random, shifted, chosen.shifts_s, chosen.periods_s, more, useless_s, adjust_s
    )


def _carried(traffic: SampledTraffic, job: str, gbps: float) -> CommunicationProfile:
    """Return a profile that is not above the link by less than its doubt."""
    profile, doubt = traffic.profiles[job], traffic.doubts[job]
    phases = [
        phase._replace(gbps=min(phase.gbps, max(gbps, phase.gbps - off.gbps)))
        for phase, off in zip(profile.phases, doubt.phases, strict=True)
    ]
    return CommunicationProfile(profile.name, profile.period_s, phases)


def _jitter(traffic: SampledTraffic, pair: tuple[str, str]) -> float:
    """Half the width of an even distribution of computing times that varies as the samples do."""
    widths = [0.0]
    for job in pair:
        profile = traffic.profiles[job]
        computing_s = profile.period_s * (1 - profile.duty)
        if computing_s > 0:
            widths.append(math.sqrt(3) * traffic.doubts[job].jitter_s / computing_s)
    return min(max(widths), 1.0)


def _holds(
    traffic: SampledTraffic,
    profiles: Mapping[str, CommunicationProfile],
    shifts_s: Mapping[str, float | None],
    periods_s: Mapping[str, float | None],
    gbps: float,
) -> tuple[float, float]:
    """Seconds after which unadjusted shifts are useless, and keep nine tenths of their gain."""
    (one, first), (two, second) = profiles.items()
    paced = [
        profile.paced(max(periods_s[job] or profile.period_s, profile.period_s)).shifted(
            shifts_s[job] or 0.0
        )
        for job, profile in profiles.items()
    ]
    ratio = Fraction(paced[1].period_s / paced[0].period_s).limit_denominator(LONGEST)
    turns = max(ratio.numerator, 1), max(ratio.denominator, 1)
    circle_s = turns[0] * paced[0].period_s
    second_paced = paced[1].paced(max(circle_s / turns[1], paced[1].period_s))
    chance = random_score([paced[0], second_paced], gbps)
    away = np.linspace(0.0, circle_s / 2, PLACES + 1)
    scores = np.array(
        [
            min(
                score_of([paced[0], second_paced], gbps, [0.0, side * each_s])
                for side in (1.0, -1.0)
            )
            for each_s in away
        ]
    )
    gain = scores[0] - chance
    if gain <= 0:
        return math.nan, math.nan
    drift_s = abs(turns[0] * first.period_s - turns[1] * second.period_s) + math.hypot(
        turns[0] * traffic.doubts[one].period_s, turns[1] * traffic.doubts[two].period_s
    )
    varies_s = math.hypot(
        math.sqrt(turns[0]) * traffic.doubts[one].jitter_s,
        math.sqrt(turns[1]) * traffic.doubts[two].jitter_s,
    )
    found = []
    for least in (chance, chance + KEPT * gain):
        below = np.flatnonzero(scores <= least + 1e-9)
        room_s = float(away[below[0]]) if below.size else math.inf
        found.append(_circles(room_s, drift_s, varies_s) * circle_s)
    return found[0], found[1]


def _circles(room_s: float, drift_s: float, varies_s: float) -> float:
    """Return n with ``n drift + 2 sqrt(n) varies = room``."""
    if drift_s <= 0:
        return (room_s / (2 * varies_s)) ** 2 if varies_s else math.inf
    if math.isinf(room_s):
        return math.inf
    root = (math.sqrt(varies_s**2 + drift_s * room_s) - varies_s) / drift_s
    return root**2
