"""How sure a difference is: over independent draws of a workload, or over resamples of one log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from apportion.experiments.sources import sources_of
from apportion.sim.generators.resampling import block_length
from apportion.statistics import paired

if TYPE_CHECKING:
    import pandas as pd

    from apportion.experiments.sources import Source
    from apportion.statistics import Paired
    from apportion.types import Floats

_TELLS = 10.0
"""An interval that holds 1 and whose ends are more than so many times apart says nothing."""


def in_words(ratio: float, low: float, high: float) -> str:
    """Write a ratio with its interval, where there is one."""
    if math.isnan(low):
        return f"x {ratio:.3f}"
    if low < 1 < high and high > _TELLS * low:
        return f"x {ratio:.3f} (an interval over {_TELLS:g} times wide)"
    return f"x {ratio:.3f} [{low:.3f}, {high:.3f}]"


def rests_on(draws: int, *, resampled: bool) -> str:
    """Say what intervals are over."""
    if resampled:
        chance = "how far a log like it may be off by chance"
        return f"{draws} resamples of stretches of one log, the same for all; {chance}"
    return f"{draws} draws of the workload, the same for all"


def between(
    one: pd.Series | Floats, other: pd.Series | Floats, *, blocks: int, level: float
) -> Paired:
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
    with np.errstate(over="ignore"):  # of two draws: anything may be
        found = paired(_rounded(one), _rounded(other), ratio=True, level=level)
        if not blocks:
            return found
        reach = np.log(found.high / found.estimate) * _wider(found.pairs, blocks, level)
        low, high = (found.estimate * np.exp([-reach, reach])).tolist()
    return found._replace(low=low, high=high)


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
