"""Levels: where among foretold times another one lies, and which time has a level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Bools, Floats

_MOST = 20.0
"""How many times the latest future a time is told at most."""

_SAME_S = 1.0
"""Times closer than this are the same."""


def levels(
    told_s: Floats, at_s: float, came_s: Floats, now_s: float, rng: np.random.Generator
) -> tuple[Floats, Bools]:
    """Return the level of each time among those foretold, and which are known.

    Of F futures that place their times in order, the k-th has level k / (F + 1). Times that are the
    same have a level that is drawn evenly between those beside them; so has what lies between two.
    Beyond the latest the part that is later falls as 1 / (time from the moment on); before the
    earliest the part that is earlier is in proportion to it. What is not known yet has the level of
    now, at least.

    Parameters
    ----------
    told_s
        Foretold at a moment, shape (jobs, futures).
    at_s
        That moment.
    came_s
        What came to be, shape (jobs,); NaN for what has not.
    now_s
        Now.
    rng
        Of levels among equals.
    """
    known = came_s <= now_s
    came_s = np.where(known, came_s, now_s)
    below = np.count_nonzero(told_s < came_s[:, None] - _SAME_S, axis=1)
    same = np.count_nonzero(np.abs(told_s - came_s[:, None]) <= _SAME_S, axis=1)
    within = np.where(known, rng.random(known.size) * (same + 1), 0.0)
    count = told_s.shape[1]
    level = (below + within) / (count + 1)
    first_s, last_s, after_s = told_s.min(axis=1) - at_s, told_s.max(axis=1) - at_s, came_s - at_s
    late, early = (below == count), (below + same == 0) & (first_s > 0)
    level[late] = 1 - np.maximum(last_s, 0)[late] / after_s[late] / (count + 1)
    level[early] = np.maximum(after_s, 0)[early] / first_s[early] / (count + 1)
    return level, known


def at_level(told_s: Floats, at_s: float, level: float) -> Floats:
    """Return the time of each job that has a level among those foretold: `levels`, turned round.

    Parameters
    ----------
    told_s
        Foretold, shape (jobs, futures).
    at_s
        When.
    level
        From 0 to 1. No time is later than 20 times the latest future, from `at_s` on.
    """
    count = told_s.shape[1]
    found: Floats = np.quantile(told_s, level, axis=1, method="weibull")
    first_s: Floats = told_s.min(axis=1)
    last_s: Floats = told_s.max(axis=1)
    if level * (count + 1) > count:
        more = min(1 / (count + 1) / max(1 - level, 1e-9), _MOST)
        found = last_s + np.maximum(last_s - at_s, 0) * (more - 1)
    if level * (count + 1) < 1:
        found = first_s - np.maximum(first_s - at_s, 0) * (1 - level * (count + 1))
    return found
