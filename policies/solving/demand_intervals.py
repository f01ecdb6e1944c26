"""Jobs that differ only in how many steps/s they need: those with nearly equal needs are one row.

What a job that needs d steps/s costs at least, at whatever prices, is the lower convex hull of its
options' (steps/s, price) and of (0, 0), read at d. The hull bends only where d is the throughput
of an option. So the costs of two jobs of one class (equal throughputs, equal usage) whose needs
lie between the same two neighbours among those throughputs lie on one straight line, and so does
what the time that they have left is worth to the class: such jobs may be replaced by as many that
need their mean. Whatever the number of jobs, (2 * options) rows a class are enough.

The reduction is exact at the needs by which it was made. At others it is a relaxation (Jensen's
inequality), so a level that it reaches is a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.chunks import chunks
from apportion.policies.solving.rows import group_identical

if TYPE_CHECKING:
    from apportion.policies.instance import Instance
    from apportion.types import Floats, Ints


ROWS_TO_MERGE = 256
"""Fewest jobs that are worth a look."""
_ALIKE = 4
"""Jobs per class, on average, from which on it pays to merge those of like demands."""
_AT = 1e-9
"""A need that lies above a throughput by no more than this part of it is taken to be equal."""


def worth_merging(instance: Instance) -> DemandIntervals | None:
    """Return the classes by which jobs can be merged, where there are enough jobs in them."""
    if instance.jobs < ROWS_TO_MERGE:
        return None
    intervals = DemandIntervals(instance)
    return intervals if intervals.classes * _ALIKE <= instance.jobs else None


@dataclass(frozen=True, eq=False)
class DemandIntervals:
    """The classes of an instance, and between which throughputs the needs of their jobs may lie.

    Parameters
    ----------
    instance
        A problem whose rows are single jobs.
    """

    instance: Instance

    @cached_property
    def _classes(self) -> tuple[Instance, Ints]:
        return group_identical(self.instance, ("scale_factor",))

    @property
    def classes(self) -> int:
        """Number of different (throughputs, usage)."""
        return self._classes[0].jobs

    @cached_property
    def _ends(self) -> Floats:
        """Zero and the throughputs of each class in rising order, shape (classes, options + 1)."""
        speed = np.sort(self._classes[0].throughput, axis=1)
        return np.hstack([np.zeros((speed.shape[0], 1)), speed])

    def bins(self, demand: Floats) -> Bins:
        """Merge the jobs of a class whose demands lie in one interval.

        Those at its end are apart: prices may be different on the two sides of it.

        Parameters
        ----------
        demand
            Steps/s that each job needs, none above its fastest throughput; shape (jobs,).
        """
        representative, class_of = self._classes
        ends, options = self._ends, self.instance.options
        key = np.empty(demand.size, dtype=np.intp)
        for chunk in chunks(demand.size):
            key[chunk] = self._keys(class_of[chunk], demand[chunk])
        there = np.bincount(key, minlength=2 * representative.jobs * options) > 0
        used, bin_of = np.flatnonzero(there), (np.cumsum(there) - 1)[key]
        of_class, interval = np.divmod(used // 2, options)
        weight = self.instance.count
        count = np.asarray(np.bincount(bin_of, weights=weight), dtype=float)
        mean = np.bincount(bin_of, weights=weight * demand) / count
        return Bins(
            instance=representative.subset(of_class, count),
            demand=mean,
            bin_of=bin_of,
            of_jobs=demand,
            weight=weight,
            low=ends[of_class, interval],
            high=ends[of_class, interval + 1],
        )

    def _keys(self, class_of: Ints, demand: Floats) -> Ints:
        """Return a number for class, interval, and whether a demand is its end, shape (jobs,)."""
        below = np.zeros(demand.size, dtype=np.intp)
        at_end = np.zeros(demand.size, dtype=bool)
        for end in self._ends[:, 1:].T:
            least = end[class_of]
            below += least * (1 + _AT) < demand
            at_end |= np.abs(least - demand) <= _AT * least
        options = self.instance.options
        return (class_of * options + np.minimum(below, options - 1)) * 2 + at_end


@dataclass(frozen=True, eq=False)
class Bins:
    """One row for the jobs of a class whose demands lie in one interval, and the way back.

    Attributes
    ----------
    instance
        The reduced problem, its ``count`` the jobs of each bin.
    demand
        Mean of the demands of a bin, steps/s, shape (bins,).
    bin_of
        Bin of each job, shape (jobs,).
    of_jobs, weight
        Demand of each job, steps/s, and how many jobs it stands for, shape (jobs,).
    low, high
        Ends of the interval of each bin, steps/s.
    """

    instance: Instance
    demand: Floats
    bin_of: Ints
    of_jobs: Floats
    weight: Floats
    low: Floats
    high: Floats

    @cached_property
    def part(self) -> Floats:
        """Where each demand lies between the two ends of its interval, from 0 to 1, (jobs,)."""
        width = np.maximum(self.high - self.low, np.finfo(float).tiny)
        away = (self.of_jobs - self.low[self.bin_of]) / width[self.bin_of]
        return np.clip(away, 0.0, 1.0)

    @cached_property
    def mean_part(self) -> Floats:
        """Mean of `part` over the jobs of each bin, shape (bins,)."""
        weights = self.weight * self.part
        return np.bincount(self.bin_of, weights=weights) / self.instance.count

    def expand(self, X: Floats) -> Floats:
        """Return shares of the jobs that have the mean `X` in each bin and meet every demand.

        A bin's X is a mixture of one allocation that reaches the lower end of its interval and
        one that reaches the upper end. Each job has these two in the proportion of its own demand.
        """
        least, most = self._ends_of_mixture(X)
        shares = np.empty((self.part.size, X.shape[1]))
        for chunk in chunks(self.part.size):
            bin_of, part = self.bin_of[chunk], self.part[chunk, None]
            shares[chunk] = least[bin_of] * (1 - part) + most[bin_of] * part
        return shares

    def _ends_of_mixture(self, X: Floats) -> tuple[Floats, Floats]:
        """Split X into shares for a job at the lower and for one at the upper end of each bin.

        The slowest part of the time, of the size of the first one's weight, makes no more than
        the lower end; the rest at least the upper end. As much of X itself is mixed in as leaves
        the second one at the upper end, so that jobs differ no more than they have to.
        """
        speed, second = self.instance.throughput, self.mean_part
        first = 1.0 - second
        made = (speed * X).sum(axis=1)
        slowest = self._slowest(X, first) / np.maximum(first, 1e-300)[:, None]
        spread = made - (speed * slowest).sum(axis=1)
        missing = second * (self.high - made)
        apart = np.zeros_like(made)
        wide = (missing > 0) & (first * spread > 0)
        apart[wide] = np.minimum(missing[wide] / (first * spread)[wide], 1.0)
        least = apart[:, None] * slowest + (1 - apart)[:, None] * X
        most = (X - first[:, None] * least) / np.maximum(second, 1e-300)[:, None]
        return least, np.where(second[:, None] > 0, np.maximum(most, 0.0), X)

    def _slowest(self, X: Floats, mass: Floats) -> Floats:
        """Take the slowest `mass` of the time of each row, idle time first; shape of X.

        Of options that are equally fast the same part is taken: none comes before the other.
        """
        speed = self.instance.throughput
        slower = np.maximum(1.0 - X.sum(axis=1), 0.0)[:, None] + np.zeros_like(X)
        as_fast = np.zeros_like(X)
        for other, time in zip(speed.T, X.T, strict=True):
            slower += (other[:, None] < speed) * time[:, None]
            as_fast += (other[:, None] == speed) * time[:, None]
        taken = np.clip(mass[:, None] - slower, 0.0, as_fast)
        part = np.divide(taken, as_fast, out=np.zeros_like(X), where=as_fast > 0)
        return np.asarray(X * part, dtype=float)
