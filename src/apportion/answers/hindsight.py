"""How forecasts of earlier moments turned out, and whether those of today are to be told."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from apportion.answers.durations import FEWEST
from apportion.answers.state import ClusterState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from apportion.answers.history import History
    from apportion.cluster import Cluster
    from apportion.types import Bools, Floats

    _ByKind = dict[tuple[str, str], list["Levels"]]
    Foretells = Callable[[ClusterState, History], tuple[Floats, Floats]]

_SAME_S = 1.0
"""Times closer than this are the same."""

_AS_TOLD = 5.0
"""How many moments' weight the forecasts have that are taken to have held as told."""

WITHIN = 0.05
"""How far the part that came by the time told for a part may be from it."""

ENOUGH = 40
"""Moments from which it is told: 90 % of so many, were they independent, are so to 5 points."""

STRETCHES = 10
"""Of moments, for the margin of a share."""


class Moment(NamedTuple):
    """The arrival of a job: who was here, what was known, and when they started and ended.

    The latter of shape (jobs,), NaN for not yet.
    """

    state: ClusterState
    history: History
    start_s: Floats
    end_s: Floats


class Levels(NamedTuple):
    """Levels of what came, by a time, which are known, and those that have passed; (jobs,)."""

    level: Floats
    known: Bools
    passed: Floats


class Hindsight:
    """Where in the forecasts of earlier moments lay what came to be.

    The log, and who is here now, tell who ran and waited when a job came; forecasts of that moment,
    from what had ended by then, are made as today's are. The level of a job's start is the part of
    the futures in which it started earlier, and so of its end (`levels`); what all futures have at
    one time is left out. Who still waits, or runs, has this level at least. The law of the levels
    is the product limit (Kaplan and Meier 1958): moments, evenly spread over the log, count alike,
    each shared by its jobs; even levels from 0 to 1, of the weight of five moments, stand for
    forecasts that hold as told. Where the law has its part p, there lies the quantile that is told
    for p: recalibration (Kuleshov, Fenner and Ermon, ICML 2018), and conformal prediction of the
    levels (Chernozhukov, Wuthrich and Zhu, PNAS 2021).

    Whether that holds is tried on the later half of the moments, with the law of the earlier half
    as it was known by then: of the times that were told and have passed, how many held.

    Attributes
    ----------
    moments
        How many were looked back at.
    why
        Why there are none, empty if there are some.
    """

    def __init__(self, why: str = "") -> None:
        self.moments, self.why = 0, why
        self._seen: _ByKind = {}
        self._earlier: _ByKind = {}
        self._later: _ByKind = {}

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
            Makes starts and ends, shape (jobs, futures), of a state and what was known of the log.
        state, history
            Of today.
        cluster
            Of one type of GPU; a log does not tell on which of several a job ran.
        moments
            How many at most.
        seed
            Of levels among equals.
        """
        why = "earlier moments were not asked for" if not moments else _lacking(history, cluster)
        found, now_s = cls(why), history.now_s(state)
        if why:
            return found
        seen = _earlier(state, history, cluster, moments)
        told = [  # without what was known of the log, once for each
            (each._replace(history=history), foretells(each.state, each.history)) for each in seen
        ]
        found.moments, half = len(told), len(told) // 2
        if not told:
            found.why = "at no moment of the log enough had ended, or more ran than the cluster has"
            return found
        rng = np.random.default_rng([seed, moments])
        found._seen = _seen(told, now_s, rng)
        found._earlier = _seen(told[:half], told[half][0].state.now_s, rng)
        found._later = _seen(told[half:], now_s, rng)
        return found

    def part(self, state: str, what: str, part: float) -> float:
        """Return the level below which so many jobs had started, or ended.

        Parameters
        ----------
        state
            ``running`` or ``waiting``.
        what
            ``start`` or ``end``.
        part
            Of jobs.
        """
        return _part(self._seen.get((state, what), []), part)

    def coverage(self, state: str, what: str, part: float) -> tuple[float, float, int]:
        """Return how many started, or ended, by the time told for a part: on the later moments.

        Returns
        -------
        float, float, int
            The mean over moments; half of Student's interval of 95 % over ten stretches of them, as
            neighbours share jobs; and at how many moments a time that was told has passed.
        """
        level_told = _part(self._earlier.get((state, what), []), part)
        held = []
        for level, known, passed in self._later.get((state, what), []):
            if (due := passed >= level_told).any():
                held.append(float((known & (level <= level_told))[due].mean()))
        if len(held) < 2 * STRETCHES:
            return float("nan"), float("nan"), len(held)
        spread = np.std([part.mean() for part in np.array_split(held, STRETCHES)], ddof=1)
        margin = stats.t.ppf(0.975, STRETCHES - 1) * spread / STRETCHES**0.5
        return float(np.mean(held)), float(margin), len(held)

    def doubt(self, state: str, what: str, part: float, futures: int) -> str:
        """Say why no time is told for a part of today's futures; empty if one is."""
        if self.why:
            return self.why
        share, margin, count = self.coverage(state, what, part)
        if count < ENOUGH:
            return f"times told at {count} earlier moments have passed, and {ENOUGH} are the fewest"
        if abs(share - part) > WITHIN:
            low, high = max(share - margin, 0.0), min(share + margin, 1.0)
            return (
                f"of the log's later half {share:.0%} [{low:.0%}, {high:.0%}] came by the time "
                f"told for {part:.0%}"
            )
        if self.part(state, what, part) * (futures + 1) > futures:
            return f"the log came later than {futures} futures reach"
        return ""


def _seen(
    told: Sequence[tuple[Moment, tuple[Floats, Floats]]], now_s: float, rng: np.random.Generator
) -> _ByKind:
    """Return by state and what it is about, of each moment, what was known of it by a time."""
    found: _ByKind = {}
    for moment, (starts_s, ends_s) in told:
        runs = (moment.state.jobs["state"] == "running").to_numpy()
        for what, came_s, told_s in (
            ("start", moment.start_s, starts_s),
            ("end", moment.end_s, ends_s),
        ):
            seen, differ = levels(told_s, came_s, now_s, rng), np.ptp(told_s, axis=1) > _SAME_S
            for name, rows in (("running", runs & differ), ("waiting", ~runs & differ)):
                if rows.any():
                    some = Levels(seen.level[rows], seen.known[rows], seen.passed[rows])
                    found.setdefault((name, what), []).append(some)
    return found


def levels(told_s: Floats, came_s: Floats, now_s: float, rng: np.random.Generator) -> Levels:
    """Return levels of times that came, NaN for not yet, among those foretold, (jobs, futures).

    Of F futures that place their times in order, the k-th has level k / (F + 1). Times that are the
    same have a level that is drawn evenly between those beside them; so has what lies between two,
    before all and after all. What is not known yet has the level of now, at least.
    """
    known, futures = came_s <= now_s, told_s.shape[1]
    came_s = np.where(known, came_s, now_s)
    below = np.count_nonzero(told_s < came_s[:, None] - _SAME_S, axis=1)
    same = np.count_nonzero(np.abs(told_s - came_s[:, None]) <= _SAME_S, axis=1)
    within = np.where(known, rng.random(known.size) * (same + 1), 0.0)
    past = np.count_nonzero(told_s <= now_s, axis=1)
    passed = np.where(past == futures, 1.0, past / (futures + 1))
    return Levels((below + within) / (futures + 1), known, passed)


def _part(seen: Sequence[Levels], part: float) -> float:
    """Return the least level by which the product limit of levels has a part."""
    if not seen:
        return part
    even = (np.arange(20) + 0.5) / 20
    weights = [np.full(each.level.size, 1 / each.level.size) for each in seen]
    level = np.concatenate([*(each.level for each in seen), even])
    known = np.concatenate([*(each.known for each in seen), np.ones(20, bool)])
    weight = np.concatenate([*weights, np.full(20, _AS_TOLD / 20)])
    order = np.lexsort((~known, level))
    level, known, weight = level[order], known[order], weight[order]
    here = np.cumsum(weight[::-1])[::-1]
    left: Floats = np.where(known, 1 - weight / here, 1.0)
    place = int(np.searchsorted(1 - left.cumprod(), part - 1e-9))
    return float(level[place]) if place < level.size else 1.0


def _lacking(history: History, cluster: Cluster) -> str:
    """Say why a log does not tell who ran and waited earlier; empty if it does."""
    if len(cluster.gpus) > 1:
        return "the log does not tell on which type of GPU a job ran"
    if not (history.start_s > history.arrival_s).any():
        return "nobody in the log waited, or it tells no starts"
    return ""


def _earlier(
    state: ClusterState, history: History, cluster: Cluster, moments: int
) -> Iterator[Moment]:
    """Give moments at which jobs came: every so many jobs, a power of 2, from the first on."""
    jobs = _everyone(state, history)
    submit_s, start_s, end_s = (
        jobs[name].to_numpy(float) for name in ("submit_s", "start_s", "end_s")
    )
    step = 2 ** max(math.ceil(math.log2(len(jobs) / moments)), 0)  # the same ones as the log grows
    for row in range(0, len(jobs), step):
        at_s = float(submit_s[row])
        if at_s >= history.now_s(state) or np.count_nonzero(history.end_s <= at_s) < FEWEST:
            continue
        rows = np.flatnonzero((submit_s <= at_s) & ~(end_s <= at_s))
        runs, here = start_s[rows] < at_s, jobs.iloc[rows].drop(columns="end_s")
        if here["gpus"][runs].sum() > sum(cluster.gpus.values()):
            continue
        told = here.assign(
            state=np.where(runs, "running", "waiting"), start_s=here["start_s"].where(runs)
        )
        known = history.until(at_s)
        yield Moment(ClusterState(at_s, told), known, start_s[rows], end_s[rows])


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
