"""How forecasts of earlier moments turned out, and how much wider it makes those of today."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.answers.durations import FEWEST
from apportion.answers.levels import levels
from apportion.answers.state import ClusterState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apportion.answers.history import History
    from apportion.cluster import Cluster
    from apportion.types import Bools, Floats, Ints

    Foretells = Callable[["Moment"], tuple[Floats, Floats]]

_AS_TOLD = 5.0
"""How many moments' weight the forecasts have that are taken to have held as told."""


@dataclass(frozen=True, eq=False)
class Moment:
    """The arrival of a job: who was here, and when they started and ended; NaN for not yet.

    Attributes
    ----------
    at_s
        When it was.
    submit_s, start_s, end_s
        Of those who were here, shape (jobs,).
    everyone, rows
        All jobs, and which of them were here.
    log
        From which the history is taken when somebody wants it.
    """

    at_s: float
    submit_s: Floats
    start_s: Floats
    end_s: Floats
    everyone: pd.DataFrame
    rows: Ints
    log: History

    @property
    def runs(self) -> Bools:
        """Who ran, shape (jobs,)."""
        return self.start_s < self.at_s

    @property
    def key(self) -> bytes:
        """What tells it from others, as long as the log is the same."""
        begun_s = np.where(self.runs, self.start_s, -1.0)
        return np.concatenate([[self.at_s], self.submit_s, begun_s]).tobytes()

    def state(self) -> ClusterState:
        """Return it as a state."""
        told = (
            self.everyone.iloc[self.rows]
            .drop(columns="end_s")
            .assign(
                state=np.where(self.runs, "running", "waiting"),
                start_s=np.where(self.runs, self.start_s, np.nan),
            )
        )
        return ClusterState(self.at_s, told)

    def history(self) -> History:
        """Return what of the log was known."""
        return self.log.until(self.at_s)


class Hindsight:
    """Where in the forecasts of earlier moments lay what came to be.

    The log, and who is here now, tell who ran and waited when a job came; forecasts of that moment,
    from what had ended by then, are made as today's are. The level of a job's start is the part of
    the futures in which it started earlier, and so of its end (`levels`). Who still waits, or
    runs, has this level at least. The law of the levels is the product limit (Kaplan and Meier
    1958): moments, evenly spread over the log, count alike, each shared by its jobs; even levels
    from 0 to 1, of the weight of five moments, stand for forecasts that hold as told. Where the
    law has its part p, there lies the quantile that is told for p: recalibration (Kuleshov, Fenner
    and Ermon, ICML 2018), and conformal prediction of the levels (Chernozhukov, Wuthrich and Zhu,
    PNAS 2021). Each p is read off by itself, so that "90 % by" is right, or not, by itself.

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
        self._laws: dict[tuple[str, str], tuple[Floats, Floats]] = {}

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
            Makes the starts and ends, shape (jobs, futures), of a moment, in its clock.
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
        for moment in _earlier(state, history, cluster, moments):
            told, runs = foretells(moment), moment.runs
            for what, came_s, told_s in zip(
                ("start", "end"), (moment.start_s, moment.end_s), told, strict=True
            ):
                level, known = levels(told_s, moment.at_s, came_s, now_s, rng)
                for name, rows in (("running", runs), ("waiting", ~runs)):
                    weight = np.full(level.size, 1 / max(rows.sum(), 1))
                    seen = level[rows], known[rows], weight[rows]
                    found._seen.setdefault((name, what), []).append(seen)
            found.moments += 1
        if not found.moments:
            found.why = "at none of its moments enough had ended, or more ran than the cluster has"
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
        if (state, what) not in self._seen or (state, what) == ("running", "start"):
            return part
        level, reached = self._law(state, what)
        place = int(np.searchsorted(reached, part - 1e-9))
        return float(level[place]) if place < level.size else 1.0

    def _law(self, state: str, what: str) -> tuple[Floats, Floats]:
        """Return levels in order, and the part of the jobs that was not above each."""
        if (state, what) not in self._laws:
            even = (np.arange(20) + 0.5) / 20
            seen = [*self._seen[state, what], (even, np.ones(20, bool), np.full(20, _AS_TOLD / 20))]
            level, known, weight = (np.concatenate(each) for each in zip(*seen, strict=True))
            order = np.lexsort((~known, level))
            level, known, weight = level[order], known[order], weight[order]
            here = np.cumsum(weight[::-1])[::-1]
            left: Floats = np.where(known, 1 - weight / here, 1.0)
            self._laws[state, what] = level, 1 - left.cumprod()
        return self._laws[state, what]

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
) -> Iterator[Moment]:
    """Give moments at which jobs came: every so many jobs, a power of 2, from the first on."""
    jobs = _everyone(state, history)
    submit_s, start_s, end_s = (
        jobs[name].to_numpy(float) for name in ("submit_s", "start_s", "end_s")
    )
    gpus = jobs["gpus"].to_numpy()
    # So that a moment stays one as the log grows, and need not be foretold again.
    step = 2 ** max(math.ceil(math.log2(len(jobs) / moments)), 0)
    for row in range(0, len(jobs), step):
        at_s = float(submit_s[row])
        if at_s >= history.now_s(state) or np.count_nonzero(history.end_s <= at_s) < FEWEST:
            continue
        rows = np.flatnonzero((submit_s <= at_s) & ~(end_s <= at_s))
        runs = start_s[rows] < at_s
        if gpus[rows][runs].sum() > sum(cluster.gpus.values()):
            continue
        times = submit_s[rows], start_s[rows], end_s[rows]
        yield Moment(at_s, *times, jobs, rows, history)


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
