"""How well jobs share a link, and when each should start: CASSINI's compatibility score."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import listed, number, seconds
from apportion.errors import InputError
from apportion.mechanism.time_shifts.circle import EPOCH_S, MOST_ITERATIONS, tolerance_over
from apportion.mechanism.time_shifts.profile import ROUNDING, profiles_of
from apportion.mechanism.time_shifts.turning import NO_LOAD, JobsOnLink, Load, wrapped
from apportion.statistics.typeset import as_html

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.mechanism.time_shifts.profile import CommunicationProfile
    from apportion.types import Floats


@dataclass(frozen=True)
class Compatibility:
    """How well jobs share a link, and the shifts with which they do so best.

    ``score = 1 - mean over time of max(0, demand - capacity) / capacity``. It is 1 where the link
    carries everything at once, and below 0 where more than twice its capacity is wanted.

    Attributes
    ----------
    profiles
        Of the jobs, as given; all tuples are in this order.
    capacity_gbps
        Of the link.
    score, unshifted_score
        With the shifts, and with none.
    bound
        No shifts have a larger score, by Jensen's inequality.
    proof
        ``"exact"``: no shifts are better. ``"best known; bound Jensen"``: none are known, and none
        are above `bound`.
    shifts_s
        Seconds by which every job starts later, in [0, period); 0 for the first job.
    rotations_deg
        The same as angles on the unified circle, in [0, 360 / repetitions); NaN without one.
    perimeter_s
        Of the unified circle: least common multiple of the periods; infinite if incommensurate.
    repetitions
        Iterations of each job on the circle; 0 if incommensurate.

    Source: Rajasekaran et al., CASSINI, NSDI 2024, sections 3 and 4.
    """

    profiles: tuple[CommunicationProfile, ...]
    capacity_gbps: float
    score: float
    unshifted_score: float
    bound: float
    proof: str
    shifts_s: tuple[float, ...]
    rotations_deg: tuple[float, ...]
    perimeter_s: float
    repetitions: tuple[int, ...]

    def _head(self) -> str:
        return (
            f"{len(self.profiles)} jobs on a link of {self.capacity_gbps:g} Gb/s: score "
            f"{self.score:.3g} with these shifts, {self.unshifted_score:.3g} without"
        )

    def __str__(self) -> str:
        """Scores, and by how much each job starts later."""
        pairs = zip(self.profiles, self.shifts_s, strict=True)
        later = (f"{profile.name} starts {shift:.4g} s later" for profile, shift in pairs)
        return "\n".join([f"{self._head()} ({self.proof})", *later])

    def _repr_html_(self) -> str:
        shown = [
            {"job": profile.name, "period, s": profile.period_s, "shift, s": shift}
            for profile, shift in zip(self.profiles, self.shifts_s, strict=True)
        ]
        return as_html(self._head(), shown)

    @property
    def jobs(self) -> tuple[str, ...]:
        """Names of the profiles."""
        return tuple(profile.name for profile in self.profiles)

    @property
    def commensurate(self) -> bool:
        """Whether the jobs are ever again where they were.

        Otherwise the score is the mean over all ways in which they meet in the long run, and
        shifts matter only between jobs whose periods are commensurate.
        """
        return bool(np.isfinite(self.perimeter_s))

    def load(self, *, shifted: bool = True) -> tuple[Floats, Floats]:
        """Return the load of the link over the circle, as steps, for pictures.

        Returns
        -------
        tuple
            Times, seconds, from 0 on, and the Gb/s wanted from each to the next; the last time is
            the perimeter, or, if there is none, four of the longest period or 300 of the shortest.
        """
        end_s = self.perimeter_s
        if not self.commensurate:
            periods = [profile.period_s for profile in self.profiles]
            end_s = min(4 * max(periods), MOST_ITERATIONS * min(periods))
        shifts = self.shifts_s if shifted else (0.0,) * len(self.profiles)
        times = [np.array([0.0, end_s])]
        for profile, shift in zip(self.profiles, shifts, strict=True):
            turns = np.arange(-2, np.ceil(end_s / profile.period_s) + 1) * profile.period_s
            for phase in profile.phases:
                start = shift + phase.start_s + turns
                times += [start, start + phase.duration_s]
        at = np.unique(np.concatenate(times))
        at = at[(at >= 0) & (at <= end_s)]
        middles = (at[1:] + at[:-1]) / 2
        demands = [
            profile.demand(middles - shift)
            for profile, shift in zip(self.profiles, shifts, strict=True)
        ]
        steps: Floats = np.sum(demands, axis=0)
        return at, np.append(steps, steps[-1])


def compatibility(
    profiles: Iterable[CommunicationProfile],
    capacity: float,
    *,
    tolerance: float | None = None,
    epoch_s: float = EPOCH_S,
    seed: int = 0,
) -> Compatibility:
    """Find shifts with which jobs share a link best, and say how well they do.

    The optimum for up to three jobs, and where few edges can meet or Jensen's bound is reached also
    for more; else jobs are turned one after the other from several starts. Scores are integrated
    exactly between the edges of the demands, never on a grid. Jobs whose periods have no common
    multiple within 300 iterations meet in all ways whatever their shifts: the score says how it is
    on average.

    Parameters
    ----------
    profiles
        Of the jobs on the link, one or more.
    capacity
        Of the link, Gb/s.
    tolerance
        Part of a period that is neglected in looking for a common multiple, see `unified_circle`.
        By default so much that jobs drift by a twentieth of an iteration at most over an epoch.
    epoch_s
        For how long the shifts are to last, seconds; 0 for ever, up to a millionth of a period.
    seed
        Of the random numbers where jobs are turned at random.

    Raises
    ------
    InputError
        If there is no job, something is no profile, or the link has no capacity.

    Warns
    -----
    UserWarning
        If a job alone wants more than the link has: it is compatible with nobody.

    Examples
    --------
    >>> half = CommunicationProfile("a", 0.1, [(0.0, 0.05, 50.0)])
    >>> together = compatibility([half, half.named("b")], 50)
    >>> together.unshifted_score, together.score, together.shifts_s
    (0.5, 1.0, (0.0, 0.05))
    """
    given = profiles_of(profiles)
    capacity_gbps = capacity_of(capacity)
    tolerance = _tolerance(tolerance, epoch_s, given)
    for profile in given:
        if profile.peak_gbps > capacity_gbps:
            warnings.warn(
                f"The job {profile.name!r} wants {profile.peak_gbps:g} Gb/s of a link of "
                f"{capacity_gbps:g} Gb/s; it is never compatible.",
                stacklevel=2,
            )
    order = sorted(
        range(len(given)),
        key=lambda job: (-given[job].period_s, given[job].phases, given[job].name),
    )
    link = JobsOnLink([given[job] for job in order], capacity_gbps, tolerance)
    bound = jensen_bound(given, capacity_gbps)
    found, exact = link.best_shifts(bound, seed)
    reached, unshifted = link.score(found), link.score(np.zeros(len(given)))
    shifts = found[np.argsort(order)]
    shifts = wrapped(shifts - shifts[0], np.array([profile.period_s for profile in given]))
    circle = link.circle
    perimeter_s = circle.perimeter_s if circle else np.inf
    turns = dict(zip(order, circle.repetitions, strict=True)) if circle else {}
    return Compatibility(
        profiles=tuple(given),
        capacity_gbps=capacity_gbps,
        score=min(reached, bound),
        unshifted_score=min(unshifted, reached, bound),
        bound=bound,
        proof="exact" if exact else "best known; bound Jensen",
        shifts_s=tuple(shifts.tolist()),
        rotations_deg=tuple((360 * shifts / perimeter_s if circle else shifts * np.nan).tolist()),
        perimeter_s=float(perimeter_s),
        repetitions=tuple(turns.get(job, 0) for job in range(len(given))),
    )


def score_of(
    profiles: Iterable[CommunicationProfile],
    capacity: float,
    shifts_s: Iterable[float],
    *,
    tolerance: float | None = None,
    epoch_s: float = EPOCH_S,
) -> float:
    """Return the compatibility score of jobs with given shifts, seconds, one for each.

    What is neglected of periods is as for `compatibility`.

    Raises
    ------
    InputError
        As `compatibility`, and if the number of shifts is not that of the jobs.
    """
    given = profiles_of(profiles)
    shifts = np.array(
        [number("A shift", each, least=-np.inf) for each in listed("shifts_s", shifts_s)]
    )
    if len(shifts) != len(given):
        raise InputError(f"{len(shifts)} shifts for {len(given)} jobs; there must be one for each.")
    neglected = _tolerance(tolerance, epoch_s, given)
    return JobsOnLink(given, capacity_of(capacity), neglected).score(shifts)


def _tolerance(
    tolerance: float | None, epoch_s: float, profiles: list[CommunicationProfile]
) -> float:
    """Check what part of periods is neglected; that of an epoch if nothing is said."""
    if tolerance is not None:
        return number("tolerance", tolerance, most=0.01)
    periods_s = [profile.period_s for profile in profiles]
    return tolerance_over(seconds("epoch_s", epoch_s), periods_s)


def jensen_bound(profiles: Iterable[CommunicationProfile], capacity: float) -> float:
    """Return ``1 - max(0, sum of mean demands - capacity) / capacity``, which no shifts exceed."""
    wanted = sum(profile.mean_gbps for profile in profiles_of(profiles))
    return 1 - max(0.0, wanted - capacity) / capacity


def random_score(profiles: Iterable[CommunicationProfile], capacity: float) -> float:
    """Return the mean compatibility score of jobs that start at random.

    Starts are independent and even over the periods, so that the demand of a link is a sum of
    independent demands, each of which is that of a job at a random time. Jobs whose periods have no
    common multiple meet like that whatever their shifts.

    Raises
    ------
    InputError
        If there is no job, something is no profile, or the link has no capacity.
    """
    capacity_gbps, load = capacity_of(capacity), NO_LOAD
    for profile in profiles_of(profiles):
        gbps = np.array([0.0, *(phase.gbps for phase in profile.phases)])
        sends_s = np.array([phase.duration_s for phase in profile.phases])
        silent = max(0.0, 1 - sends_s.sum() / profile.period_s)
        load = load.plus(Load(gbps, np.append(silent, sends_s / profile.period_s)))
    return 1 - float(load.over(np.array(capacity_gbps))) / capacity_gbps


def capacity_of(capacity: Any) -> float:
    """Check the capacity of a link, Gb/s."""
    return number("A link has no capacity: its Gb/s", capacity, strict=True)


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
