"""Scores of links by what is trained over them, for schedulers that ask again and again."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.time_shifts.affinity import AffinityGraph
from apportion.mechanism.time_shifts.circle import EPOCH_S, EQUAL, TOLERANCE, pacings
from apportion.mechanism.time_shifts.link_compatibility import compatibility, random_score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from apportion.mechanism.time_shifts.link_compatibility import Compatibility
    from apportion.mechanism.time_shifts.profile import CommunicationProfile

    Trained = tuple[str, int]
    Paced = tuple[str, int, float]

REMEMBERED = 100_000
"""Links that are known by heart."""

MARGIN = 0.5
"""Part of what random starts are reckoned to lose by the law of the score that pacing may cost."""


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

    Raises
    ------
    InputError
        If the profile is no function.
    """

    def __init__(
        self,
        profile: Callable[[str, int], CommunicationProfile],
        pace: float = 0.0,
        epoch_s: float = EPOCH_S,
    ) -> None:
        if not callable(profile):
            valid = "a function of a model and a number of GPUs"
            raise InputError(f"profile is {written(profile)}; valid: {valid}.")
        self._pace, self._epoch_s = pace, epoch_s
        self._profile = lru_cache(maxsize=REMEMBERED)(profile)
        self._score = lru_cache(maxsize=REMEMBERED)(self._score_of)
        self._best = lru_cache(maxsize=REMEMBERED)(self._best_of)

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
        return self._score(tuple(sorted(trained)), capacity, shifted)

    def best(
        self, paced: Iterable[Paced], capacity: float, tolerance: float | None = None
    ) -> Compatibility:
        """Return how jobs on a link are shifted best, in the ascending order of `paced`.

        Parameters
        ----------
        paced
            Model and GPUs of each job, and the seconds to which it is paced; 0 if it is not.
        capacity, tolerance
            As of `compatibility`.
        """
        return self._best(tuple(sorted(paced)), capacity, tolerance)

    def paced(
        self,
        users: Mapping[Any, Iterable[Any]],
        trained: Mapping[Any, Trained],
        capacities: Mapping[Any, float],
    ) -> dict[Any, float] | None:
        """Return periods to which jobs are paced so that links carry everything, by job.

        ``None`` where none are found that stretch no iteration by more than the part `pace` and
        cost clearly less than random starts; arguments are those of `of_links`.
        """
        if not self._pace:
            return None
        worst: dict[Any, float] = {}
        for link, jobs in users.items():
            met = self.score([trained[job] for job in jobs], capacities[link], shifted=False)
            worst |= {job: min(worst.get(job, 1.0), met) for job in jobs}
        own = [self._profile(*trained[job]).period_s for job in worst]
        most = max(MARGIN * (1 - np.mean([*worst.values()])), TOLERANCE)
        for periods_s in pacings(own, self._pace):
            if np.maximum(1.0, np.divide(periods_s, own)).mean() - 1 <= most:
                found = dict(zip(worst, periods_s, strict=True))
                paced = {
                    link: [(*trained[job], found[job]) for job in jobs]
                    for link, jobs in users.items()
                }
                if all(self._fits(on, capacities[link]) for link, on in paced.items()):
                    return found
        return None

    def _fits(self, paced: Iterable[Paced], capacity: float) -> bool:
        """Tell whether a link carries everything of jobs that are paced."""
        profiles = self._profiles(paced)
        if sum(each.mean_gbps for each in profiles) > capacity * (1 + EQUAL):
            return False
        return self.best(paced, capacity).score >= 1 - EQUAL

    def _profiles(self, paced: Iterable[Paced]) -> list[CommunicationProfile]:
        """Return profiles, of iterations as long as paced."""
        own = [(self._profile(model, gpus), to_s) for model, gpus, to_s in paced]
        return [each.paced(to_s) if to_s else each for each, to_s in own]

    def _best_of(
        self, paced: tuple[Paced, ...], capacity: float, tolerance: float | None
    ) -> Compatibility:
        profiles = self._profiles(paced)
        with warnings.catch_warnings():  # that a job alone wants more is no news here
            warnings.simplefilter("ignore", UserWarning)
            return compatibility(profiles, capacity, tolerance=tolerance, epoch_s=self._epoch_s)

    def _score_of(self, trained: tuple[Trained, ...], capacity: float, shifted: bool) -> float:
        if not shifted:
            return random_score([self._profile(*each) for each in trained], capacity)
        best = self.best([(*each, 0.0) for each in trained], capacity).score
        if best >= 1 - EQUAL:
            return best
        kinds = dict(enumerate(trained))
        paced = self.paced({None: list(kinds)}, kinds, {None: capacity})
        if paced is None:
            return best
        longer = [paced[job] / self._profile(*each).period_s for job, each in kinds.items()]
        return max(best, 2 - max(longer))
