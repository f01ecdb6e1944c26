"""How long jobs will take: learnt from a log, and off as they were off at one of its moments."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.types import Bools, Floats, Ints

ENOUGH = 100
"""Ended jobs of one kind from which their durations are their own: five in each tail."""

MOMENTS = 300
"""Earlier moments at most, spread evenly over the jobs of a log."""

FEWEST = 20
"""Ended jobs from which a moment foretells anything."""

_MOST = 20.0
"""How many times the longest known duration a job takes at most."""


def kinds_of(gpus: Ints, user: Ints) -> Ints:
    """Return the kinds of jobs, narrowest first: of one user and size, of one user, of one size.

    Parameters
    ----------
    gpus, user
        Of each job, shape (jobs,); users by number, whoever is not told being one of them.

    Returns
    -------
    array
        Shape (jobs, 3). Jobs are of one kind if they are equal in a column; the first tells all.
    """
    both = user * (gpus.max(initial=0) + 1) + gpus
    return np.stack([both, user, gpus], axis=1)


class DurationLaw:
    r"""The law of durations by kind of job, of jobs that ended and of those that still run.

    The product limit of Kaplan and Meier (1958): who still runs is longer than it has run, and
    leaving it out would leave the short ones. With n jobs known, 1 / (n + 1) is kept for longer
    ones than any; beyond the longest known L the part that is longer than x falls as L / x, to 20
    times L. A job has the law of its narrowest kind of which 100 jobs have ended, else that of all.

    Parameters
    ----------
    duration_s
        Of the jobs, shape (jobs,); how long they have run for those that still do.
    ended
        Which have ended, shape (jobs,).
    kinds
        As `kinds_of` has them, or fewer columns, shape (jobs, columns).
    """

    def __init__(self, duration_s: Floats, ended: Bools, kinds: Ints) -> None:
        self._known = duration_s, ended, kinds
        self._steps: dict[tuple[int, ...], tuple[Floats, Floats, float]] = {}

    def longer(self, kinds: Ints, than_s: Floats) -> Floats:
        """Return the part of jobs that is longer, shape (jobs,)."""
        found = np.empty(len(kinds))
        for kind, rows in _alike(kinds):
            at, left, longest_s = self._law(kind)
            some_s = np.maximum(than_s[rows], 1e-9)
            within = left[np.searchsorted(at, some_s, side="right")]
            found[rows] = np.where(some_s > longest_s, left[-1] * longest_s / some_s, within)
        return found

    def duration(self, kinds: Ints, longer: Floats) -> Floats:
        """Return the durations that given parts of jobs are longer than: `longer`, turned round."""
        found = np.empty(len(kinds))
        for kind, rows in _alike(kinds):
            at, left, longest_s = self._law(kind)
            some = np.maximum(longer[rows], 1e-9)
            step = np.searchsorted(-left[1:], -some, side="left")
            beyond = longest_s * np.minimum(left[-1] / some, _MOST)
            found[rows] = np.where(some < left[-1], beyond, at[np.minimum(step, at.size - 1)])
        return found

    def _law(self, kind: tuple[int, ...]) -> tuple[Floats, Floats, float]:
        """Return durations, the part longer than none, one, ... of them, and the longest."""
        if kind not in self._steps:
            duration_s, ended, kinds = self._known
            for column, each in enumerate(kind):
                own = kinds[:, column] == each
                if np.count_nonzero(own & ended) >= ENOUGH:
                    duration_s, ended = duration_s[own], ended[own]
                    break
            order = np.argsort(duration_s, kind="stable")
            at, came = duration_s[order], ended[order]
            left = np.cumprod(np.where(came, 1 - 1 / np.arange(at.size, 0, -1), 1.0))
            kept = 1 - (1 - left[came]) * at.size / (at.size + 1)
            self._steps[kind] = at[came], np.concatenate([[1.0], kept]), float(at[-1])
        return self._steps[kind]


def _alike(kinds: Ints) -> Iterator[tuple[tuple[int, ...], Bools]]:
    """Go through jobs of one kind: the kind, and which they are."""
    _, first = np.unique(kinds[:, 0], return_index=True)
    for row in first.tolist():
        yield tuple(kinds[row].tolist()), kinds[:, 0] == kinds[row, 0]


class _Moment(NamedTuple):
    """The arrival of a job: the law as it was known, who ran, and the first who waited."""

    at_s: float
    law: DurationLaw
    ran: Ints
    first: int


class Durations:
    """Draws how long jobs take: by the law of today, off as at a moment of the past.

    Users change what they run, and jobs that come one after another are alike: what is foretold of
    many jobs is wrong of all at once. How wrong, and of how many, the log tells: at an earlier
    moment each job that ran or waited had a level, the part of the law of that moment, given how
    long the job had run, that it turned out to be below. A draw takes the levels of one moment,
    of who ran then for who runs now and of who waited, and came next, for who waits now, each in
    the order of arrival, and reads durations of these levels off the law of today. So draws hang
    together as jobs did, and are as far off as the log was in its time: empirical copulas of past
    forecasts, as in the Schaake shuffle (Clark, Gangopadhyay, Hay, Rajagopalan and Wilby, Journal
    of Hydrometeorology 2004), with levels as in conformal prediction.

    Parameters
    ----------
    arrival_s, start_s, end_s
        Of all jobs known, shape (jobs,); those who wait have a start of NaN, and those who have
        not ended an end of NaN.
    kinds
        Of all jobs known, as `DurationLaw` takes them.
    limit_s
        For how long each may run, NaN for ever.
    now_s
        The time, not before any end.
    """

    def __init__(
        self,
        arrival_s: Floats,
        start_s: Floats,
        end_s: Floats,
        kinds: Ints,
        limit_s: Floats,
        now_s: float,
    ) -> None:
        order = np.argsort(arrival_s, kind="stable")
        self._arrival_s, self._kinds, self._now_s = arrival_s[order], kinds[order], now_s
        self._start_s = np.where(np.isnan(start_s), np.inf, start_s)[order]
        self._end_s = np.where(np.isnan(end_s), np.inf, end_s)[order]
        self._limit_s = np.where(np.isnan(limit_s), np.inf, limit_s)[order]
        self._law = self._law_at(now_s)
        self._levels: dict[tuple[int, int, int], tuple[Floats, Bools]] = {}

    def draw(
        self,
        rng: np.random.Generator,
        kinds: Ints,
        had_s: Floats,
        runs: Bools,
        limit_s: Floats | float = np.inf,
    ) -> Floats:
        """Draw the durations of jobs in the order of arrival, seconds, shape (jobs,).

        Parameters
        ----------
        rng
            Of all draws.
        kinds
            Of each job, as those known have them.
        had_s
            For how long each has run; durations are a second longer at least.
        runs
            Which of them run; the others wait.
        limit_s
            For how long each may run, NaN for ever. Durations are those of the law that are
            shorter, or the limit where the law has none between `had_s` and it.
        """
        limit_s = np.where(np.isnan(limit_s), np.inf, limit_s)
        level = np.empty(len(kinds))
        waiting = int(np.count_nonzero(~runs))
        for some, levels in zip((runs, ~runs), self._drawn(waiting, rng), strict=True):
            count = int(np.count_nonzero(some))
            level[some] = np.resize(levels, count) if levels.size else rng.random(count)
        longer, most = self._within(self._law, kinds, had_s, np.broadcast_to(limit_s, level.shape))
        drawn_s = self._law.duration(kinds, longer + (most - longer) * level)
        drawn_s = np.where(most < longer, np.minimum(drawn_s, limit_s), limit_s)
        return np.maximum(drawn_s, had_s + 1.0)

    @staticmethod
    def _within(
        law: DurationLaw, kinds: Ints, had_s: Floats, limit_s: Floats
    ) -> tuple[Floats, Floats]:
        """Return the parts of a law that are longer than jobs have run, and than they may run."""
        longer = law.longer(kinds, had_s)
        return longer, np.minimum(law.longer(kinds, limit_s), longer)

    def _law_at(self, at_s: float) -> DurationLaw:
        """Return the law as it was known at a time."""
        ended = self._end_s <= at_s
        rows = np.flatnonzero(ended | (self._start_s < at_s))
        duration_s = np.minimum(self._end_s[rows], at_s) - self._start_s[rows]
        return DurationLaw(duration_s, ended[rows], self._kinds[rows])

    @cached_property
    def _moments(self) -> list[_Moment]:
        """Return arrivals, spread evenly over the jobs, by which some had ended."""
        found = []
        count = self._arrival_s.size
        for row in range(0, count, max(-(-count // MOMENTS), 1)):
            at_s = float(self._arrival_s[row])
            if at_s >= self._now_s or np.count_nonzero(self._end_s <= at_s) < FEWEST:
                continue
            here = (self._arrival_s <= at_s) & (self._end_s > at_s)
            ran = np.flatnonzero(here & (self._start_s < at_s))
            first = int(np.flatnonzero(here & (self._start_s >= at_s))[0])  # who came then waits
            found.append(_Moment(at_s, self._law_at(at_s), ran, first))
        return found

    def _drawn(self, waiting: int, rng: np.random.Generator) -> list[Floats]:
        """Draw a moment; return levels of who ran, from one of them on, and of who waited."""
        if not self._moments:
            return [np.empty(0), np.empty(0)]
        number = int(rng.integers(len(self._moments)))
        moment = self._moments[number]
        last = min(moment.first + waiting, len(self._kinds))
        found = []
        for rows in (moment.ran, np.arange(moment.first, last)):
            key = number, int(rows[0]) if rows.size else -1, rows.size
            if key not in self._levels:
                self._levels[key] = self._levels_of(moment, rows)
            least, known = self._levels[key]
            found.append(np.where(known, least, least + (1 - least) * rng.random(least.size)))
        return [np.roll(found[0], int(rng.integers(moment.ran.size + 1))), found[1]]

    def _levels_of(self, moment: _Moment, rows: Ints) -> tuple[Floats, Bools]:
        """Return the levels of jobs at a moment, and which are known: others are no lower."""
        start_s, end_s = self._start_s[rows], self._end_s[rows]
        had_s = np.maximum(moment.at_s - start_s, 0.0)
        took_s = np.maximum(np.minimum(end_s, self._now_s) - start_s, 0.0)
        kinds = self._kinds[rows]
        longer, most = self._within(moment.law, kinds, had_s, self._limit_s[rows])
        gone = longer - moment.law.longer(kinds, np.maximum(took_s, had_s))
        level = np.divide(gone, longer - most, out=np.ones(rows.size), where=most < longer)
        return np.minimum(level, 1.0), end_s <= self._now_s
