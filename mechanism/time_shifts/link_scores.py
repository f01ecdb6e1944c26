"""Scores of links by what is trained over them, for schedulers that ask again and again."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from apportion.mechanism.time_shifts.affinity import AffinityGraph
from apportion.mechanism.time_shifts.circle import EPOCH_S, EQUAL, pacings, worth_pacing
from apportion.mechanism.time_shifts.link_compatibility import (
    capacity_of,
    compatibility,
    jensen_bound,
)
from apportion.mechanism.time_shifts.profile import profiles_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from apportion.mechanism.time_shifts.link_compatibility import Compatibility
    from apportion.mechanism.time_shifts.profile import CommunicationProfile

    Trained = tuple[str, int]

ROUNDING = 9
"""Digits to which demands are added up: sums of the same demands are to be one."""

REMEMBERED = 100_000
"""Links that are known by heart."""


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
    capacity_gbps = capacity_of(capacity)
    wanted = {0.0: 1.0}
    for profile in profiles_of(profiles):
        parts = [(each.gbps, each.duration_s / profile.period_s) for each in profile.phases]
        parts.append((0.0, max(0.0, 1 - sum(part for _, part in parts))))
        added: dict[float, float] = {}
        for before, chance in wanted.items():
            for gbps, part in parts:
                total = round(before + gbps, ROUNDING)
                added[total] = added.get(total, 0.0) + chance * part
        wanted = added
    excess = sum(chance * max(0.0, gbps - capacity_gbps) for gbps, chance in wanted.items())
    return 1 - excess / capacity_gbps


class LinkScores:
    """Compatibility of the jobs on a link, remembered by their models and numbers of GPUs.

    Parameters
    ----------
    profile
        The communication profile of a model that is trained on so many GPUs.
    pace
        Part by which iterations may be stretched so that jobs fit, see `paced`.
    epoch_s
        For how long shifts are to last, seconds, as of `compatibility`.
    """

    def __init__(
        self,
        profile: Callable[[str, int], CommunicationProfile],
        pace: float = 0.0,
        epoch_s: float = EPOCH_S,
    ) -> None:
        self._profile, self._pace, self._epoch_s = profile, pace, epoch_s
        self._known: dict[tuple[tuple[Trained, ...], float, bool], float] = {}
        self._best: dict[tuple[Any, ...], Compatibility] = {}

    def of_links(
        self,
        jobs_of: Mapping[Any, Iterable[Any]],
        trained: Mapping[Any, Trained],
        capacities: Mapping[Any, float],
        *,
        shifted: bool = True,
    ) -> dict[Any, float]:
        """Return the score of every link with several jobs.

        Jobs are shifted if their connected part of the affinity graph has no loop, as CASSINI
        does; otherwise they start at random.

        Parameters
        ----------
        jobs_of
            Jobs on each link, by link.
        trained
            Model and GPUs of each job.
        capacities
            Gb/s of each link.
        shifted
            Whether jobs are shifted at all.
        """
        graph = AffinityGraph(jobs_of)
        free = set(graph.links_of) - graph.looped if shifted else set()
        return {
            link: self.score(
                [trained[job] for job in jobs], capacities[link], shifted=free.issuperset(jobs)
            )
            for link, jobs in graph.jobs_of.items()
        }

    def score(self, trained: Iterable[Trained], capacity: float, *, shifted: bool) -> float:
        """Return the score of a link: with the best shifts, or the mean over random starts.

        Parameters
        ----------
        trained
            Model and GPUs of each job on the link.
        capacity
            Gb/s.
        shifted
            Whether the jobs are shifted.
        """
        key = tuple(sorted(trained)), capacity, shifted
        known = self._known.get(key)
        if known is None:
            if len(self._known) > REMEMBERED:
                self._known.clear()
            known = self._known[key] = self._asked(*key)
        return known

    def best(
        self,
        trained: Iterable[Trained],
        capacity: float,
        periods_s: Sequence[float] = (),
        *,
        tolerance: float | None = None,
    ) -> Compatibility:
        """Return how jobs on a link are shifted best, in the order of model and GPUs.

        Parameters
        ----------
        trained, capacity
            As of `score`.
        periods_s
            To which the jobs are paced, in that order, if they are.
        tolerance
            As of `compatibility`.
        """
        order = tuple(sorted(trained))
        key = order, capacity, tuple(periods_s), tolerance
        known = self._best.get(key)
        if known is None:
            if len(self._best) > REMEMBERED:
                self._best.clear()
            profiles = self._paced(order, periods_s)
            with warnings.catch_warnings():  # that a job alone wants more is no news here
                warnings.simplefilter("ignore", UserWarning)
                known = compatibility(
                    profiles, capacity, tolerance=tolerance, epoch_s=self._epoch_s
                )
            self._best[key] = known
        return known

    def paced(
        self,
        users: Mapping[Any, Sequence[Any]],
        trained: Mapping[Any, Trained],
        capacities: Mapping[Any, float],
    ) -> dict[Any, float] | None:
        """Return periods to which jobs are paced so that links carry everything, by job.

        ``None`` where none are found that stretch no iteration by more than the part `pace` and
        cost clearly less than random starts; arguments are those of `of_links`.
        """
        jobs = list(dict.fromkeys(job for on in users.values() for job in on))
        own = [self._profile(*trained[job]).period_s for job in jobs]
        if not self._pace:
            return None
        worst = dict.fromkeys(jobs, 1.0)
        for link, on in users.items():
            met = self.score([trained[job] for job in on], capacities[link], shifted=False)
            worst |= {job: min(worst[job], met) for job in on}
        for pacing in pacings(own, self._pace):
            if worth_pacing(pacing.stretch, list(worst.values())):
                found = dict(zip(jobs, pacing.periods_s, strict=True))
                if all(
                    self._fits(on, trained, found, capacities[link]) for link, on in users.items()
                ):
                    return found
        return None

    def _fits(
        self,
        jobs: Sequence[Any],
        trained: Mapping[Any, Trained],
        periods_s: Mapping[Any, float],
        capacity: float,
    ) -> bool:
        """Tell whether a link carries everything of jobs that are paced."""
        order = sorted(jobs, key=lambda job: (trained[job], periods_s[job]))
        kinds, paces = [trained[job] for job in order], [periods_s[job] for job in order]
        if jensen_bound(self._paced(kinds, paces), capacity) < 1 - EQUAL:
            return False
        return self.best(kinds, capacity, paces).score >= 1 - EQUAL

    def _paced(
        self, trained: Sequence[Trained], periods_s: Sequence[float]
    ) -> list[CommunicationProfile]:
        """Return profiles, of iterations as long as paced."""
        profiles = [self._profile(*each) for each in trained]
        if not periods_s:
            return profiles
        return [each.paced(paced_s) for each, paced_s in zip(profiles, periods_s, strict=True)]

    def _asked(self, trained: tuple[Trained, ...], capacity: float, shifted: bool) -> float:
        if not shifted:
            return random_score([self._profile(*each) for each in trained], capacity)
        best = self.best(trained, capacity).score
        if best >= 1 - EQUAL or not self._pace:
            return best
        kinds = dict(enumerate(trained))
        paced = self.paced({None: list(kinds)}, kinds, {None: capacity})
        if paced is None:
            return best
        longer = [paced[job] / self._profile(*each).period_s for job, each in kinds.items()]
        return max(best, 2 - max(longer))
