"""How sure a difference is: over independent draws of a workload, or over resamples of one log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from apportion.experiments.sources import sources_of
from apportion.statistics import paired

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from apportion.experiments.sources import Source

    Floats = NDArray[np.float64]

__all__ = ["Difference", "between", "one_source", "spread_of"]


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
        """Whether the interval leaves out 1."""
        return self.low > 1 or self.high < 1

    def __str__(self) -> str:
        return f"x {self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}]"


def between(
    one: pd.Series | Floats, other: pd.Series | Floats, *, resampled: bool, level: float
) -> Difference:
    """Set one figure against another, paired.

    With d the logarithms of the ratios of n pairs, s their standard deviation and t Student's
    quantile, the logarithm of the ratio lies within::

        independent draws      mean(d) +- t s / sqrt(n)
        resamples of one log   mean(d) +- t s sqrt(1 + 1 / n)

    Draws of a generator are draws of what is asked about, so that more of them say more. Resamples
    of a log are not: their spread is how far a log of as many jobs may be off by chance (the
    standard error by bootstrap, Efron 1979), which more of them measure, and do not lessen.

    Parameters
    ----------
    one, other
        Figures > 0, paired by index or place; pairs of which one is unknown are left out.
    resampled
        Whether the pairs are resamples of one log.
    level
        Of the interval.
    """
    found = paired(_rounded(one), _rounded(other), ratio=True, level=level)
    if found.pairs < 2:
        return Difference(found.estimate, math.nan, math.nan, found.pairs)
    if not resampled:
        return Difference(found.estimate, found.low, found.high, found.pairs)
    wider = math.sqrt(found.pairs + 1)  # sqrt(1 + 1/n) in place of 1 / sqrt(n)
    reach = math.log(found.high / found.low) / 2 * wider
    low, high = found.estimate * math.exp(-reach), found.estimate * math.exp(reach)
    return Difference(found.estimate, low, high, found.pairs)


def _rounded(values: pd.Series | Floats) -> Floats | pd.Series:
    """Leave out digits in which sums differ that were added in another order."""
    digits = 12 - np.floor(np.log10(np.where(values > 0, values, 1.0)))
    power = 10.0**digits
    return np.round(values * power) / power


def spread_of(values: Floats, *, resampled: bool, level: float) -> tuple[float, float, float]:
    """Return a mean with its interval, as `between` does of logarithms of ratios.

    What is below 0 by it is 0: it is for times and counts.
    """
    count, mean = values.size, float(values.mean())
    if count < 2:
        return mean, math.nan, math.nan
    by = math.sqrt(1 + 1 / count) if resampled else 1 / math.sqrt(count)
    reach = float(stdtrit(count - 1, (1 + level) / 2)) * float(values.std(ddof=1)) * by
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
