"""How sure a difference is: over independent draws of a workload, or over resamples of one log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from apportion.experiments.sources import sources_of
from apportion.sim.drawn.resampling import block_length
from apportion.statistics import paired

if TYPE_CHECKING:
    import pandas as pd

    from apportion.experiments.sources import Source
    from apportion.types import Floats


MATTERS = 0.01
"""A smaller relative difference is none to speak of, however sure it is."""


class Difference(NamedTuple):
    """By what factor a figure is another one, with an interval.

    Attributes
    ----------
    ratio, low, high
        The geometric mean of paired ratios, and the ends of its interval.
    pairs
        On which it rests.
    """

    ratio: float
    low: float
    high: float
    pairs: int

    @property
    def sure(self) -> bool:
        """Whether the interval leaves out 1, and the ratio is 1 % from it at least."""
        return (self.low > 1 or self.high < 1) and not self.within(self.ratio, self.ratio)

    @property
    def none(self) -> bool:
        """Whether the whole interval is within 1 % of 1: no difference, and that is known."""
        return self.within(self.low, self.high)

    @staticmethod
    def within(low: float, high: float) -> bool:
        """Whether a range of ratios is within 1 % of 1."""
        return low > 1 / (1 + MATTERS) and high < 1 + MATTERS

    def __str__(self) -> str:
        return f"x {self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}]"


def between(
    one: pd.Series | Floats, other: pd.Series | Floats, *, blocks: int, level: float
) -> Difference:
    """Set one figure against another, paired.

    With d the logarithms of the ratios of n pairs, s their standard deviation and t Student's
    quantile, the logarithm of the ratio lies within::

        independent draws            mean(d) +- t s / sqrt(n)          n - 1 degrees of freedom
        resamples of a log's blocks  mean(d) +- t s sqrt(1 + 1 / n)    min(n, blocks) - 1

    Draws of a generator are draws of what is asked about, so that more of them say more. Resamples
    of a log are not: their spread is how far a log of as many jobs may be off by chance (the
    standard error by bootstrap, Efron 1979), which more of them measure, and do not lessen. It is
    no better known than a spread of as many blocks as were resampled (`apportion.resample`).

    Parameters
    ----------
    one, other
        Figures > 0, paired by index or place; pairs of which one is unknown are left out.
    blocks
        Of the log that was resampled, `blocks_of`; 0 for independent draws.
    level
        Of the interval.
    """
    with np.errstate(divide="ignore"):
        logs = (
            np.log(_rounded(one)),
            np.log(_rounded(other)),
        )  # 0 has none: such a pair says nothing
    found = paired(*logs, level=level)
    half = (found.high - found.low) / 2
    if blocks:
        half *= _wider(found.pairs, blocks, level)
    ends = found.estimate + half * np.array([-1.0, 1.0])
    with np.errstate(over="ignore"):  # of two draws: anything may be
        low, high = np.exp(ends).tolist()
    return Difference(math.exp(found.estimate), low, high, found.pairs)


def _rounded(values: pd.Series | Floats) -> Floats | pd.Series:
    """Leave out digits in which sums differ that were added in another order."""
    digits = 12 - np.floor(np.log10(np.where(values > 0, values, 1.0)))
    power = 10.0**digits
    return np.round(values * power) / power


def _wider(pairs: int, blocks: int, level: float) -> float:
    """Return how much wider an interval of resamples is than Student's of a mean."""
    if min(pairs, blocks) < 2:
        return math.nan
    own, fewer = stdtrit(np.array([pairs, min(pairs, blocks)]) - 1, (1 + level) / 2)
    return float(fewer / own * math.sqrt(pairs + 1))  # sqrt(1 + 1/n) in place of 1 / sqrt(n)


def spread_of(values: Floats, *, blocks: int, level: float) -> tuple[float, float, float]:
    """Return a mean with its interval, as `between` does of logarithms of ratios.

    What is below 0 by it is 0: it is for times and counts.
    """
    count, mean = values.size, float(values.mean())
    if count < 2:
        return mean, math.nan, math.nan
    half = float(stdtrit(count - 1, (1 + level) / 2) * values.std(ddof=1)) / math.sqrt(count)
    reach = half * (_wider(count, blocks, level) if blocks else 1.0)
    return mean, max(mean - reach, 0.0), mean + reach


def one_source(workload: Any) -> tuple[Source, bool]:
    """Return where a workload comes from, and whether it is one log, to be resampled.

    A mapping without ``path`` are arguments of a generator: each seed is a draw of its own.

    Raises
    ------
    InputError
        As `apportion.sweep`, and for several workloads.
    """
    (source,) = sources_of([workload])
    return source, not (isinstance(workload, Mapping) and "path" not in workload)


def blocks_of(runs: pd.DataFrame) -> int:
    """Return of how many stretches the resampled jobs of runs consist (`Sweep.table`)."""
    jobs = int(runs["jobs"].min())
    return -(-jobs // block_length(jobs))
