"""How forecasts of earlier moments turned out, and how much wider it makes those of today."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from apportion.answers.durations import FEWEST
from apportion.answers.state import ClusterState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apportion.answers.drawn_futures import History
    from apportion.cluster import Cluster
    from apportion.types import Bools, Floats

    Foretells = Callable[[ClusterState, History], tuple[Floats, Floats]]

_STEP = 0.04
"""The part of all jobs that come from one moment to the next."""

_HALF_LIFE = 5
"""Moments after which one counts half."""

_AS_TOLD = 10.0
"""How many moments' weight the forecasts have that are taken to have held as told."""

_SAME_S = 1.0
"""Times closer than this are the same."""


class _Foretold(NamedTuple):
    """Who was here when a job came, and when they started and ended; NaN if they have not yet."""

    state: ClusterState
    history: History
    start_s: Floats
    end_s: Floats


class Hindsight:
    """Where in the forecasts of earlier moments lay what came to be.

    The log, and who is here now, tell who ran and waited when a job came; forecasts of that moment,
    from what had ended by then, are made as today's are. The level of a job's start is the part of
    the futures in which it started earlier, and so of its end: drawn evenly among those that are
    the same, and in the gap between two. Who still waits, or runs, has this level at least. The law
    of the levels is the product limit (Kaplan and Meier 1958): each moment has a weight that halves
    every five, shared by its jobs; even levels from 0 to 1, of the weight of ten moments, stand for
    forecasts that hold as told. Where the law has its part p, there lies the quantile that is told
    for p, if that is farther from the middle: recalibration (Kuleshov, Fenner and Ermon, ICML
    2018), and conformal prediction of the levels (Chernozhukov, Wuthrich and Zhu, PNAS 2021),
    weighted by age as jobs drift (Barber, Candes, Ramdas and Tibshirani, Annals of Statistics
    2023). It only widens.

    Attributes
    ----------
    moments
        How many were looked back at.
    why
        Why there are none, empty if there are some.
    """

    def __init__(self, why: str = "") -> None:
        self.moments, self.why = 0, why
        self._seen: dict[tuple[str, str], list[tuple[Floats, Bools, Floats]]] = {}

    @classmethod
    def of(
        cls,
        foretells: Foretells,
        state: ClusterState,
        history: History,
        cluster: Cluster,
        moments: int,
        seed: int,
    ) -> Hindsight:
        """Foretell earlier moments, and see.

        Parameters
        ----------
        foretells
            Makes the starts and ends, shape (jobs, futures), of a state, in its clock.
        state, history
            Of today.
        cluster
            Of one type of GPU; a log does not tell on which of several a job ran.
        moments
            How many at most.
        seed
            Of levels among equals.
        """
        why = "it was not asked for" if not moments else _lacking(history, cluster)
        found, now_s = cls(why), history.now_s(state)
        if why:
            return found
        rng = np.random.default_rng([seed, moments])
        for ago, moment in _earlier(state, history, cluster, moments):
            told = foretells(moment.state, moment.history)
            runs = (moment.state.jobs["state"] == "running").to_numpy()
            for what, came_s, told_s in zip(
                ("start", "end"), (moment.start_s, moment.end_s), told, strict=True
            ):
                level, known = _levels(told_s, came_s, now_s, rng)
                for name, rows in (("running", runs), ("waiting", ~runs)):
                    weight = np.full(level.size, 0.5 ** (ago / _HALF_LIFE) / max(rows.sum(), 1))
                    seen = level[rows], known[rows], weight[rows]
                    found._seen.setdefault((name, what), []).append(seen)
            found.moments += 1
        if not found.moments:
            found.why = "at none of its moments enough had ended, or more ran than the cluster has"
        return found

    def part(self, state: str, what: str, part: float) -> float:
        """Return the part of the futures by which so many jobs had started, or ended.

        Parameters
        ----------
        state
            ``running`` or ``waiting``.
        what
            ``start`` or ``end``.
        part
            Of jobs.
        """
        seen = self._seen.get((state, what))
        if seen is None or part == 0.5:
            return part
        even = (np.arange(20) + 0.5) / 20
        seen = [*seen, (even, np.ones(20, bool), np.full(20, _AS_TOLD / 20))]
        level, known, weight = (np.concatenate(each) for each in zip(*seen, strict=True))
        order = np.lexsort((~known, level))
        level, known, weight = level[order], known[order], weight[order]
        here = np.cumsum(weight[::-1])[::-1]
        left = np.cumprod(np.where(known, 1 - weight / here, 1.0))
        place = int(np.searchsorted(1 - left, part - 1e-9))
        found = float(level[place]) if place < level.size else 1.0
        return min(found, part) if part < 0.5 else max(found, part)

    def held(self, state: str, what: str, part: float) -> float:
        """Return how many of the jobs whose start or end is known lay in the middle part."""
        seen = self._seen[state, what]
        level, known, weight = (np.concatenate(each) for each in zip(*seen, strict=True))
        inside = np.abs(level - 0.5) <= part / 2
        told = known | (level > 0.5 + part / 2)
        whole = weight[told].sum()
        return float(weight[told & inside].sum() / whole) if whole else float("nan")


def _lacking(history: History, cluster: Cluster) -> str:
    """Say why a log does not tell who ran and waited earlier; empty if it does."""
    if len(cluster.gpus) > 1:
        return "it does not tell on which type of GPU a job ran"
    if not (history.start_s > history.arrival_s).any():
        return "nobody in it waited, or it tells no starts"
    return ""


def _earlier(
    state: ClusterState, history: History, cluster: Cluster, moments: int
) -> Iterator[tuple[int, _Foretold]]:
    """Give moments at which jobs came, the last first, and how many moments ago they were."""
    jobs = _everyone(state, history)
    submit_s, start_s, end_s = (
        jobs[name].to_numpy(float) for name in ("submit_s", "start_s", "end_s")
    )
    for ago in range(1, moments + 1):
        row = len(jobs) - round(ago * _STEP * len(jobs)) - 1
        if row < 0:
            return
        at_s = float(submit_s[row])
        if at_s >= history.now_s(state) or np.count_nonzero(history.end_s <= at_s) < FEWEST:
            continue
        rows = np.flatnonzero((submit_s <= at_s) & ~(end_s <= at_s))
        here, runs = jobs.iloc[rows], start_s[rows] < at_s
        if here["gpus"].to_numpy()[runs].sum() > sum(cluster.gpus.values()):
            continue
        told = here.drop(columns="end_s").assign(
            state=np.where(runs, "running", "waiting"),
            start_s=np.where(runs, start_s[rows], np.nan),
        )
        past = history.until(at_s)
        yield ago, _Foretold(ClusterState(at_s, told), past, start_s[rows], end_s[rows])


def _everyone(state: ClusterState, history: History) -> pd.DataFrame:
    """Return the jobs of the log and of the state, as those of a state, and when they ended."""
    moved_s = history.now_s(state) - state.now_s
    told = {
        "gpus": history.gpus,
        "submit_s": history.arrival_s,
        "start_s": history.start_s,
        "end_s": history.end_s,
    }
    names = [f"past-{number:08d}" for number in range(history.gpus.size)]
    own = history.told.set_axis(names).drop(columns=[*told], errors="ignore")
    past = pd.DataFrame(told, index=pd.Index(names, name="job")).join(own).assign(accelerator="")
    if "time_limit_s" not in past:
        past["time_limit_s"] = np.nan
    here = state.jobs.drop(columns="state").assign(
        submit_s=state.jobs["submit_s"] + moved_s,
        start_s=state.jobs["start_s"] + moved_s,
        end_s=np.nan,
    )
    return pd.concat([past[history.fits], here]).sort_values("submit_s", kind="stable")


def _levels(
    told_s: Floats, came_s: Floats, now_s: float, rng: np.random.Generator
) -> tuple[Floats, Bools]:
    """Return the level of each time among those foretold, and which are known."""
    known = came_s <= now_s
    at_s = np.where(known, came_s, now_s)[:, None]
    below = np.count_nonzero(told_s < at_s - _SAME_S, axis=1)
    same = np.count_nonzero(np.abs(told_s - at_s) <= _SAME_S, axis=1)
    within = np.where(known, rng.random(known.size) * (same + 1), 0.0)
    return (below + within) / (told_s.shape[1] + 1), known
