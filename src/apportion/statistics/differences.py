"""How two ways differ over the same cases: differences or ratios, intervals, wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.errors import InputError, unknown_name
from apportion.statistics.intervals import bootstrap, check_level, half_width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from apportion.types import Floats


class Paired(NamedTuple):
    """How one of two ways differs from the other over the same cases.

    Attributes
    ----------
    estimate, low, high
        The mean difference, or the geometric mean of ratios, and the ends of its interval, NaN
        where there are not two pairs.
    least, most
        Of all pairs.
    wins, ties, pairs
        In how many pairs the first has less, in how many both have as much, and how many there are.
    nothing
        What says that there is no difference: 0, or a ratio of 1.
    """

    estimate: float
    low: float
    high: float
    least: float
    most: float
    wins: int
    ties: int
    pairs: int
    nothing: float

    @property
    def sure(self) -> bool:
        """Whether the interval leaves out that there is no difference."""
        return self.low > self.nothing or self.high < self.nothing

    def __str__(self) -> str:
        interval = f" [{self.low:.4g}, {self.high:.4g}]" if self.pairs > 1 else ""
        return f"{self.estimate:.4g}{interval}, less in {self.wins} of {self.pairs}"


@checked
def paired(
    one: pd.Series | ArrayLike,
    other: pd.Series | ArrayLike,
    *,
    ratio: bool = False,
    level: float = 0.95,
    method: Literal["student", "bootstrap"] = "student",
) -> Paired:
    """Compare two ways of which each pair was run on the same jobs.

    ::

        difference: mean(one - other)        ratio: exp(mean(log(one / other)))

    Parameters
    ----------
    one, other
        A figure of each, such as the mean completion time at several seeds: two series, paired by
        their index, or two rows of equal length. Pairs without a number are left out, and of
        ratios those of which either is 0.
    ratio
        Whether it is about one over the other, and not one less the other.
    level
        Of the interval.
    method
        Student's, which takes differences (logarithms of ratios) as nearly normal, or by
        resampling pairs (`bootstrap`, seed 0).

    Raises
    ------
    InputError
        For rows of unequal length, a level that is not between 0 and 1, and ratios of numbers
        below 0.
    """
    check_level(level)
    first, second = _by_pair(one, other)
    if ratio and ((first < 0) | (second < 0)).any():
        raise InputError("A ratio needs figures >= 0; give ratio=False for differences.")
    known = np.isfinite(first) & np.isfinite(second)
    if ratio:
        known &= (first > 0) & (second > 0)
    first, second = first[known], second[known]
    apart = np.log(first / second) if ratio else first - second
    nothing = 1.0 if ratio else 0.0
    if not apart.size:
        return Paired(np.nan, np.nan, np.nan, np.nan, np.nan, 0, 0, 0, nothing)
    middle = float(apart.mean())
    if method == "bootstrap":
        _, low, high = bootstrap(apart, level=level)
    else:
        half = float(half_width(apart, level))
        low, high = middle - half, middle + half
    found = np.array([middle, low, high, apart.min(), apart.max()])
    middle, low, high, least, most = (np.exp(found) if ratio else found).tolist()
    less, ties = int((first < second).sum()), int((first == second).sum())
    return Paired(middle, low, high, least, most, less, ties, apart.size, nothing)


def _by_pair(one: pd.Series | ArrayLike, other: pd.Series | ArrayLike) -> tuple[Floats, Floats]:
    """Return two rows of figures, the same place in both for one case."""
    if isinstance(one, pd.Series) and isinstance(other, pd.Series):
        one, other = one.align(other, join="inner")
    first, second = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    if first.ndim != 1 or first.shape != second.shape:
        raise InputError(
            f"Pairs need two rows of equal length; these have the shapes {first.shape} and "
            f"{second.shape}."
        )
    return first, second


def differences_of(
    figures: Mapping[str, NDArray[np.float64]],
    policies: Sequence[str],
    against: str,
    level: float = 0.95,
) -> pd.DataFrame:
    """Return by how much policies differ from one of them, with paired intervals.

    Parameters
    ----------
    figures
        By name, shape (policies, replicates).
    policies, against
        Labels of the rows, and the one that the others are set against.
    level
        Of each interval by itself: Student's, about the mean of the differences.

    Returns
    -------
    DataFrame
        A row per figure and other policy: ``figure``, ``policy``, ``difference`` (its mean less
        that of `against`), ``low`` and ``high``, ``less``, the share of replicates in which it has
        less, and ``replicates``. Without an interval, for one replicate, ``low`` and ``high`` are
        NaN.

    Raises
    ------
    InputError
        For an unknown policy, and a level that is not between 0 and 1.
    """
    if against not in policies:
        raise unknown_name("policy that ran", against, policies)
    check_level(level)
    base = list(policies).index(against)
    rows = []
    for figure, values in figures.items():
        for row, policy in enumerate(policies):
            if row != base and values.shape[1]:
                found = paired(values[row], values[base], level=level)
                less = found.wins / found.pairs if found.pairs else np.nan
                rows.append((figure, policy, *found[:3], less, found.pairs))
    columns = ["figure", "policy", "difference", "low", "high", "less", "replicates"]
    return pd.DataFrame(rows, columns=columns)


def wins(values: Floats, policies: Sequence[str], *, low: bool = True) -> pd.DataFrame:
    """Count in how many replicates each policy is better than each other; ties count for nobody.

    Parameters
    ----------
    values
        Shape (policies, replicates).
    policies
        Labels of the rows.
    low
        Whether less is better.

    Returns
    -------
    DataFrame
        Indexed by policy, a column per policy that it is set against.
    """
    values = np.asarray(values, dtype=float) * (1 if low else -1)
    counts = (values[:, None] < values[None]).sum(axis=2)
    return pd.DataFrame(counts, index=list(policies), columns=list(policies))
