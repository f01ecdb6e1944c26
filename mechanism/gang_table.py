"""The rows of rounds: jobs and pairs of jobs, the shares that they want, and the time they had."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.priorities import preferences, time_at_start, wanted_shares
from apportion.mechanism.repetition import add_repeatedly
from apportion.mechanism.scheduler import NOBODY
from apportion.ties import EXACT, OWED_S, SHARE, order_of, ranks

if TYPE_CHECKING:
    from apportion.mechanism.shares import Shares
    from apportion.types import Bools, Floats, Ints

# A share of so little less than all is all: it leaves no time to speak of for anything else.
_ALMOST = 0.01
# Who runs on a type goes on until another wants it so many times as much: for two jobs that share
# one GPU in halves that is some changes in all, and not one at every solve.
_STAYING = 2.0
_MOST_JOBS = 2**31
_OF_ROWS = ("first", "second", "gang", "gpus", "served_s", "running")
_OF_CELLS = ("target", "speed", "received_s", "owed_s")


class GangTable:
    """Rows of jobs, and of pairs that have a share or still run; columns are options.

    An option is a tier of an accelerator type, or a type as a whole. Rows are sorted by job, in the
    order of submission, pairs right behind their first one; ties are broken by row.

    Parameters
    ----------
    capacity
        GPUs of each type, shape (types,).
    by_name
        Place of each type in the order of names, shape (types,).
    tiers
        Options of each type, side by side: its tiers, or 1.
    round_s
        Length of a round, seconds.
    carry_over
        Whether a new target begins with what rows are owed from the one before.

    Attributes
    ----------
    kind
        Type of each option, shape (options,).
    first, second
        Jobs of each row, shape (rows,) as the next four; the same one twice for a single job.
    gang, gpus
        Its name at the devices, and its GPUs.
    served_s, running
        Seconds that it ever ran, and the option at which it runs, -1 for none.
    target, speed, received_s, owed_s
        Share of time wanted; steps/s or any measure of it, 0 where it cannot run; seconds had since
        the last target, on top of what it began with; seconds that earlier targets have left open.
        Shape (rows, options).
    """

    def __init__(
        self, capacity: Ints, by_name: Ints, tiers: int, round_s: float, *, carry_over: bool
    ) -> None:
        self.capacity, self.tiers, self.round_s = capacity, tiers, round_s
        self._carry_over = carry_over
        self.kind = np.repeat(np.arange(capacity.size), tiers)
        self._by_name = (by_name[:, None] * tiers + np.arange(tiers)).ravel()
        self.elapsed_s, self._named = 0.0, 0
        self.first = self.second = self.gang = self.gpus = self.running = NOBODY
        self.served_s: Floats = np.empty(0)
        none = np.empty((0, self.kind.size))
        self.target = self.speed = self.received_s = self.owed_s = none

    def add(self, first: Ints, second: Ints, gpus: Ints, speed: Floats) -> None:
        """Add rows that have no share yet; ``speed`` is of shape (rows, options)."""
        count, blank = first.size, np.zeros(speed.shape)
        names = self._named + np.arange(count)
        self._named += count
        rows = first, second, names, gpus, np.zeros(count), np.full(count, -1)
        cells = blank, speed, blank + self.round_s / 2, blank
        own = vars(self)
        for name, values in zip((*_OF_ROWS, *_OF_CELLS), (*rows, *cells), strict=True):
            own[name] = np.concatenate((own[name], values))
        self._forget()
        if self.has_pairs:
            self.take(np.lexsort((self.second, self.first)))

    def take(self, rows: Ints) -> None:
        """Keep these rows, in this order."""
        own = vars(self)
        for name in (*_OF_ROWS, *_OF_CELLS):
            own[name] = own[name].take(rows, axis=0)
        self._forget()

    @property
    def single(self) -> Bools:
        """Which rows are of one job, shape (rows,)."""
        return np.asarray(self.first == self.second)

    @cached_property
    def has_pairs(self) -> bool:
        """Whether there are rows of pairs."""
        return not self.single.all()

    def rows_of(self, first: Ints, second: Ints) -> Ints:
        """Return the row of each of some jobs (the same one twice), or pairs; -1 for none."""
        if not self.first.size:
            return np.full(first.size, -1)
        own, asked = self.first * _MOST_JOBS + self.second, first * _MOST_JOBS + second
        places = np.minimum(np.searchsorted(own, asked), own.size - 1)
        return np.where(own[places] == asked, places, -1)

    def aim(self, active: Ints, shares: Shares) -> None:
        """Set the shares of the active jobs and of pairs of them; count the time received anew."""
        pairs = np.sort(active[shares.pairs], axis=1)
        if len(pairs) or self.has_pairs:
            self._keep_pairs(pairs)
        target, rows = np.zeros(self.target.shape), self.rows_of(*pairs.T)
        target[self.single], target[rows] = shares.alone, shares.together
        self.speed[rows] = shares.together > 0
        half = self.round_s / 2
        due = self.target * self.elapsed_s - (self.received_s - half)
        # Time received begins with what was owed, so it is in the balance already.
        self.owed_s = due if self._carry_over else self.owed_s + due
        self.received_s = np.full(target.shape, half)
        if self._carry_over:
            self.received_s = time_at_start(self.owed_s, self.round_s)
        self.target, self.elapsed_s = target, 0.0
        self._forget()

    def _keep_pairs(self, pairs: Ints) -> None:
        """Have rows of these pairs, and of those that still run."""
        stay = self.single | (self.running >= 0)
        known = self.rows_of(*pairs.T)
        stay[known[known >= 0]] = True
        self.take(stay.nonzero()[0])
        new = pairs[self.rows_of(*pairs.T) < 0]
        gpus = self.gpus[self.rows_of(new.ravel(), new.ravel())].reshape(new.shape)
        blank = np.zeros((len(new), self.kind.size))
        self.add(new[:, 0], new[:, 1], gpus.max(axis=1, initial=0), blank)
        self.speed[~self.single] = 0.0

    def correct(self, jobs: Ints, speed: Floats) -> None:
        """Set where some jobs can run and how fast, shape (jobs, options)."""
        self.speed[self.rows_of(jobs, jobs)] = speed
        self._forget()

    def book(self, rows: Ints, options: Ints, seconds: Floats, times: int = 1) -> None:
        """Book how long each gang of a round has run, seconds; with `times`, of so many."""
        longest = float(seconds.max()) if seconds.size else self.round_s
        received = self.received_s[rows, options]
        self.received_s[rows, options] = add_repeatedly(received, seconds, times)
        self.served_s[rows] = add_repeatedly(self.served_s[rows], seconds, times)
        self.elapsed_s = float(add_repeatedly(self.elapsed_s, longest, times))

    @cached_property
    def wanted(self) -> tuple[Ints, Ints, Floats]:
        """Rows and options with a share, and it, see `wanted_shares`."""
        return wanted_shares(self.target, self.speed, self.owed_s, self.preference)

    @cached_property
    def preference(self) -> Ints:
        """Which of its options each row takes first where priorities are equal."""
        return preferences(self.speed, self.first, self._by_name)

    def by_priority(self, *, behind_only: bool = False) -> tuple[Ints, Ints]:
        """Sort rows and options by share wanted over time received, highest first.

        Gavel's priority (Narayanan et al., OSDI 2020, section 5): the share of time wanted over the
        share received since the target was set, whose common divisor does not matter. (Gavel's
        code divides by the time received by all jobs on the type instead, so that a job alone on
        several types stays on one of them for good.) With half a round to begin with, one type
        alone is apportioned as seats are by Webster's method.

        With `behind_only`, only rows stay that without the next round would have had less than
        their share at its end.
        """
        rows, options, share = self.wanted
        own = self.received_s[rows, options]
        order = order_of(-share / own)
        if behind_only:
            had = own - self.round_s / 2
            behind = share * (self.elapsed_s + self.round_s) > had * (1 + EXACT)
            order = order[behind[order]]
        return rows[order], options[order]

    def one_type_after_the_other(self) -> tuple[Ints, Ints]:
        """Sort such that a row has the types of its shares in turn, the slowest first.

        For shares of all the time until a deadline, which need not be had in equal parts of it. A
        row goes on where it runs as long as it has a share there, and begins on the slowest of its
        types, since time on a fast one does for more than its own. Before all that come rows whose
        whole time is on one type, and types whose GPUs are all spoken for, which must not stand
        idle now: there the largest share comes first, that of who runs there counting for more.
        """
        rows, options, share = self.wanted
        speed, kinds = self.speed[rows, options], self.kind[options]
        held = np.bincount(kinds, share * self.gpus[rows], self.capacity.size)
        full = (held >= self.capacity * (1 - _ALMOST))[kinds]
        here = self.running[rows] == options
        slowest = np.full(self.first.size, np.inf)
        np.minimum.at(slowest, rows, speed)
        first = [share >= 1 - _ALMOST, full, here, speed <= slowest[rows]]
        claim = share * np.where(here, _STAYING, 1.0)
        # Claims that solvers leave apart by rounding are equal; then the row decides.
        ranked = ranks(-claim, absolute=SHARE)
        order = np.lexsort((rows, ranked, np.select(first, [0, 1, 2, 3], 4)))
        return rows[order], options[order]

    def to_lend(self, waiting: Bools) -> tuple[Ints, Ints]:
        """List rows for idle GPUs, the least served first, and their types, the fastest first.

        Of the tiers of a type, the widest at which a row can run: it takes what is left.
        """
        rows = waiting.nonzero()[0]
        rows = rows[order_of(self.served_s[rows], absolute=OWED_S)]
        able = (self.speed[rows] > 0).reshape(rows.size, -1, self.tiers)
        wider = able[:, :, ::-1].cumsum(axis=2)[:, :, ::-1]
        widest = (able & (wider == 1)).reshape(rows.size, -1)
        liked = self.preference[rows].argsort(axis=1)
        line, place = np.take_along_axis(widest, liked, axis=1).nonzero()
        return rows[line], liked[line, place]

    @cached_property
    def all_fit(self) -> bool:
        """Whether each row holds one job, wants one option, and there are GPUs for all of them."""
        rows, options, _ = self.wanted
        each_once = rows.size == self.first.size == np.unique(rows).size
        needed = np.bincount(self.kind[options], self.gpus[rows], self.capacity.size)
        return bool(each_once and not self.has_pairs and (needed <= self.capacity).all())

    def _forget(self) -> None:
        """Drop what follows from target, speed and rows."""
        for name in ("has_pairs", "wanted", "preference", "all_fit"):
            vars(self).pop(name, None)
