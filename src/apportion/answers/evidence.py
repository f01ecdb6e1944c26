"""How sure a difference is: over independent draws of a workload, or over resamples of one log.

The test of a race looks several times, at several policies, and shares its errors out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from apportion.checks import number
from apportion.errors import InputError
from apportion.experiments.sources import sources_of
from apportion.sim.drawn.resampling import block_length
from apportion.statistics import paired

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from apportion.experiments.sources import Source
    from apportion.types import Floats


MATTERS = 0.01
"""A smaller relative difference is none to speak of, however sure it is."""

TELLS = 10.0
"""An interval that holds 1 and whose ends are more than so many times apart says nothing."""


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

    @property
    def tells(self) -> bool:
        """Whether the interval says anything: where it does not, draws are too short or few."""
        return self.sure or not self.high > TELLS * self.low

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


LOOKS = (4, 8, 16, 32)
"""Draws after which losers are dropped."""

MOST_LOOKS = 8
"""Looks over which the chance of an error is shared out, however few of them are taken.

So whoever has seen an answer may go on with more draws: the levels are the same, and hold for all
looks together.
"""


def usual_looks(draws: int) -> list[int]:
    """Return when a race of so many draws is looked at."""
    return [*(each for each in LOOKS if each < draws), draws]


def read_looks(given: Sequence[int]) -> list[int]:
    """Return the numbers of draws.

    Raises
    ------
    InputError
        If they do not grow, are below 2, or more than `MOST_LOOKS`.
    """
    found = [int(number("A look", each, least=2)) for each in given]
    if not found or sorted(set(found)) != found:
        raise InputError(f"looks is {found}; it must be growing numbers of draws, as (4, 8, 16).")
    if len(found) > MOST_LOOKS:
        raise InputError(f"looks has {len(found)} numbers; a race has {MOST_LOOKS} at most.")
    return found


@dataclass
class SequentialTest:
    """Who is left of a race, by the test that `apportion.recommend` describes.

    Attributes
    ----------
    figure, level
        What it is about, and the level of all that it says.
    policies
        Who takes part.
    resampled
        Whether draws are resamples of one log.
    dropped
        By whom each loser was beaten, and at which look, from 1.
    """

    figure: str
    level: float
    policies: tuple[str, ...]
    resampled: bool
    dropped: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def level_of_pair(self) -> float:
        """The level at which two policies are compared at one look."""
        pairs = len(self.policies) * (len(self.policies) - 1) / 2
        return 1 - (1 - self.level) / (MOST_LOOKS * pairs)

    def difference(self, runs: pd.DataFrame, one: str, other: str) -> Difference:
        """Set one policy against another one, over the draws that both ran."""
        by_seed = {
            label: runs[runs["policy"] == label].set_index("seed")[self.figure]
            for label in (one, other)
        }
        blocks = blocks_of(runs) if self.resampled else 0
        return between(by_seed[one], by_seed[other], blocks=blocks, level=self.level_of_pair)

    def losers(self, runs: pd.DataFrame, labels: Sequence[str], look: int) -> set[str]:
        """Return who is worse than another one by more than chance, and remember it."""
        found: dict[str, tuple[str, int]] = {}
        for one, other in combinations(labels, 2):
            apart = self.difference(runs, one, other)
            if not apart.sure:
                continue
            worse, better = (one, other) if apart.ratio > 1 else (other, one)
            found.setdefault(worse, (better, look))
        self.dropped |= found
        return set(found)

    def same(self, runs: pd.DataFrame, labels: Sequence[str]) -> bool:
        """Whether those who are left have the same figure in every draw."""
        table = runs.pivot_table(index="seed", columns="policy", values=self.figure)
        return bool((table[list(labels)].nunique(axis=1) == 1).all())

    def alike(self, runs: pd.DataFrame, labels: Sequence[str]) -> bool:
        """Whether no two of those who are left differ by what matters, as far as is known."""
        return all(self.difference(runs, one, other).none for one, other in combinations(labels, 2))
