"""How much longer iterations take on a shared link: the law of the compatibility score."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.checks import number, seconds
from apportion.mechanism.time_shifts.compatibility import capacity_of
from apportion.mechanism.time_shifts.profile import ROUNDING, profiles_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.mechanism.time_shifts.profile import CommunicationProfile

__all__ = ["iteration_s", "law_is_exact"]


def iteration_s(isolated_s: float, score: float) -> float:
    """Return the seconds of an iteration on a shared link: ``(2 - score) * isolated``.

    What a link cannot carry in its time it carries later, and everyone waits for it. The law is
    exact where `law_is_exact` says so, and for any number of identical jobs that send at the full
    rate and are not shifted. Elsewhere it is an approximation: of two jobs that send half of the
    time, at 40 and 20 Gb/s on a link of 50, it says 1.10 for both; fair sharing makes the first
    iteration 1.125 and 1 times as long, and later ones drift apart until they meet no more.

    Parameters
    ----------
    isolated_s
        Seconds of an iteration that has the link for itself.
    score
        Compatibility of the jobs as they are shifted, at most 1.
    """
    alone = seconds("isolated_s", isolated_s)
    return (2 - number("score", score, least=-1e18, most=1 + ROUNDING)) * alone


def law_is_exact(profiles: Iterable[CommunicationProfile], capacity: float) -> bool:
    """Whether `iteration_s` is exact for jobs under fair sharing, whatever their shifts.

    It is for two jobs of one period that send in one phase each, at the capacity of the link; also
    for one job that never wants more than the link has.
    """
    given, capacity_gbps = profiles_of(profiles), capacity_of(capacity)
    if len(given) == 1:
        return given[0].peak_gbps <= capacity_gbps
    first, *others = given
    return len(others) == 1 and all(
        abs(each.period_s - first.period_s) <= ROUNDING * first.period_s
        and len(each.phases) == 1
        and abs(each.peak_gbps - capacity_gbps) <= ROUNDING * capacity_gbps
        for each in given
    )
