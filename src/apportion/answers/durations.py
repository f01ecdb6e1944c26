"""How long jobs will take, learnt from a log: samples of durations whose tails are kept honest."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right, insort
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm, rankdata

if TYPE_CHECKING:
    from apportion.types import Floats, Ints


TAIL = 0.05
"""Part of the jobs that is to be below, and above, what is foretold."""

ENOUGH = 100
"""Jobs of one number of GPUs from which their durations are their own: five in each tail."""

STEP = 0.05
"""By how much a miss moves a tail, in logarithms of seconds."""


class Durations:
    """Durations of jobs by their number of GPUs, with tails that follow what came true.

    A job's duration is drawn from those of ended jobs with as many GPUs (of all where these are
    fewer than 100). Users change what they run, so that the tails of the past are not those of the
    future: going through the log, each job is foretold from those that had ended when it came, and
    when it has ended itself, the tail quantile moves by ``STEP`` * (missed - 5 %). That keeps
    misses in the long run at 5 % on either side, whatever the jobs are: quantile tracking (Gibbs
    and Candès, Adaptive conformal inference, NeurIPS 2021; Angelopoulos, Candès and Tibshirani,
    Conformal PID control, NeurIPS 2023).

    Jobs that come one after another are alike, so that many of those that run now may be long
    together: draws of jobs in the order of arrival hang together as those of the log do, a normal
    copula whose scores are an autoregression of order one.

    Parameters
    ----------
    arrival_s, end_s, duration_s, gpus
        Of the jobs of a log, shape (jobs,). Ends before the last arrival count as they come.

    Attributes
    ----------
    shift
        By how much the tails have moved, in logarithms of seconds.
    likeness
        Correlation of the normal scores of two durations that came one after the other, >= 0.
    held
        Whether the duration of each job, in the order of arrival, lay within what was foretold of
        it when it came: 1 or 0, NaN where nobody had ended before, shape (jobs,).
    """

    def __init__(self, arrival_s: Floats, end_s: Floats, duration_s: Floats, gpus: Ints) -> None:
        self._all: list[float] = []
        self._by_gpus: dict[int, list[float]] = {}
        self._grids: dict[int, list[float]] = {}
        self.shift = [0.0, 0.0]
        held = np.full(arrival_s.size, np.nan)
        under_way: list[tuple[float, int, float, float]] = []
        order = np.lexsort((np.arange(arrival_s.size), arrival_s))
        log_s = np.log(duration_s)
        for job in order.tolist():
            while under_way and under_way[0][0] <= arrival_s[job]:
                self._end(heapq.heappop(under_way), log_s, gpus)
            low, high = self._tails(int(gpus[job]))
            heapq.heappush(under_way, (float(end_s[job]), job, low, high))
            if not math.isnan(low):
                held[job] = low <= log_s[job] <= high
        self.held = held[order]
        self.likeness = _likeness(duration_s[order], gpus[order])
        while under_way:
            self._end(heapq.heappop(under_way), log_s, gpus)

    def _end(self, ended: tuple[float, int, float, float], log_s: Floats, gpus: Ints) -> None:
        """Learn from a job that has ended."""
        _, job, low, high = ended
        value = float(log_s[job])
        if not math.isnan(low):
            self.shift[0] -= STEP * ((value < low) - TAIL)
            self.shift[1] += STEP * ((value > high) - TAIL)
        insort(self._all, value)
        insort(self._by_gpus.setdefault(int(gpus[job]), []), value)

    def _pool(self, gpus: int) -> list[float]:
        own = self._by_gpus.get(gpus, [])
        return own if len(own) >= ENOUGH else self._all

    def _tails(self, gpus: int) -> tuple[float, float]:
        """Return the logarithms of what 5 % and 95 % of the jobs are to be below."""
        pool = self._pool(gpus)
        if not pool:
            return math.nan, math.nan
        last = len(pool) - 1
        low = pool[int(TAIL * last)] + self.shift[0]
        return low, pool[math.ceil((1 - TAIL) * last)] + self.shift[1]

    def quantiles(self, gpus: int, at: Floats) -> Floats:
        """Return durations at given quantiles: of the pool, moved as the tails were.

        From 5 % to the median, and from there to 95 %, the move is linear; nothing is foretold
        beyond twice the longest job of the log, or half of the shortest.
        """
        pool = np.array(self._pool(gpus))
        points = np.array([TAIL, 0.5, 1 - TAIL])
        moved = np.interp(at, points, [self.shift[0], 0.0, self.shift[1]])
        ends = self._all[0] - math.log(2), self._all[-1] + math.log(2)
        return np.asarray(np.exp(np.clip(np.quantile(pool, at) + moved, *ends)), dtype=float)

    def levels(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw, of jobs in the order of arrival, at what part of all durations each is."""
        score = rng.standard_normal(count)
        rest = math.sqrt(1 - self.likeness**2)
        for job in range(1, count):
            score[job] = self.likeness * score[job - 1] + rest * score[job]
        return np.asarray(norm.cdf(score), dtype=float)

    def at(self, level: float, gpus: int, longer_than_s: float = 0.0) -> float:
        """Return the duration that a part of jobs is below of those that have run for some time.

        Where no job of the log ran as long, the longer one has run the longer it goes on: it is
        what it has run, over 1 - level, up to twenty times it (a Pareto tail of index 1).
        """
        known = self._known(gpus)
        first = bisect_right(known, longer_than_s)
        if first == len(known):
            return longer_than_s / (1 - 0.95 * level)
        return known[min(first + int(level * (len(known) - first)), len(known) - 1)] * (1 + 1e-9)

    def _known(self, gpus: int) -> list[float]:
        """Return durations at quantiles in equal steps, found once for each number of GPUs."""
        if gpus not in self._grids:
            grid = (np.arange(4 * ENOUGH) + 0.5) / (4 * ENOUGH)
            self._grids[gpus] = np.maximum.accumulate(self.quantiles(gpus, grid)).tolist()
        return self._grids[gpus]


def _likeness(duration_s: Floats, gpus: Ints) -> float:
    """Return the correlation of normal scores, each among jobs of as many GPUs, of neighbours."""
    if duration_s.size < ENOUGH:
        return 0.0
    score = np.empty(duration_s.size)
    for each in np.unique(gpus):
        own = gpus == each
        score[own] = norm.ppf(rankdata(duration_s[own]) / (np.count_nonzero(own) + 1))
    if min(score[1:].std(), score[:-1].std()) == 0:
        return 0.0
    return float(np.clip(np.corrcoef(score[1:], score[:-1])[0, 1], 0.0, 0.99))
