"""Orders that hang on what is sorted alone, never on its rows or on rounding.

Numbers that differ by rounding only are equal, and jobs of one time come in the order of their ids.
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import is_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd
    from numpy.typing import NDArray

    from apportion.types import Floats, Ints


RELATIVE = 1e-7
"""Numbers of a schedule that differ by less, relatively, are equal: far more than the rounding of
sums of seconds and what solvers leave open, far less than anybody would notice."""

EXACT = 1e-9
"""The same for numbers that no solver had a hand in.

Times, progress and keys of orders are sums of up to some million floats, which leaves them some 10
of their 16 digits at worst, and what sums in another order differ by is far below the ninth. What
jobs really differ by is far above: a second in thirty years.
"""

SHARE = 1e-7
"""Shares of time that differ by less are equal: solvers leave that much open."""

OWED_S = 1e-3
"""Seconds owed to jobs, or had by them, that differ by less are equal: long sums of shares."""


def order_of(values: Floats, *, absolute: float = 0.0) -> Ints:
    """Return the positions of values in ascending order; equal ones stay in the order given.

    Neighbours in the sorted order are equal if they differ by no more than `RELATIVE` times the
    larger size, or `absolute`. Rounding each value to some digits would not do: two that differ
    in the last bit may lie on two sides of a step, as 1/1024 does at nine decimals.

    Parameters
    ----------
    values
        Numbers that are not NaN, shape (n,).
    absolute
        A difference that is none.
    """
    order = values.argsort(kind="stable")
    differs = _differs(values[order], absolute)
    if not (~differs & (order[1:] < order[:-1])).nonzero()[0].size:
        return order
    group = np.zeros(values.size, dtype=np.intp)
    group[1:] = differs.cumsum()
    return order[np.lexsort((order, group))]


def ranks(values: Floats, *, absolute: float = 0.0, relative: float = RELATIVE) -> Ints:
    """Return the rank of each value, 0 for the smallest; equal ones, as in `order_of`, share it.

    Parameters
    ----------
    values
        Numbers that are not NaN, infinite ones included, shape (n,).
    absolute, relative
        Differences that are none, the latter as a part of the larger size.
    """
    order = values.argsort(kind="stable")
    rank, ascending = np.zeros(values.size, dtype=np.intp), values[order]
    if values.size and ascending[0] < ascending[-1]:
        rank[order[1:]] = _differs(ascending, absolute, relative).cumsum()
    return rank


def first_of(keys: Iterable[Floats], *, absolute: float = 0.0, relative: float = RELATIVE) -> int:
    """Return the position that comes first: by the first key, of equal ones by the next, and so on.

    Of those that are equal by all keys, the first position. It is the first of the order by `ranks`
    of all keys, but for values that only a third one between them makes equal.

    Parameters
    ----------
    keys
        Numbers that are not NaN, each of shape (n,), n > 0; the most significant first.
    absolute, relative
        Differences that are none, the latter as a part of the larger size.
    """
    first = np.zeros(1, dtype=np.intp)
    for place, key in enumerate(keys):
        values = key[first] if place else key
        if values.size == 1:
            break
        alike = _least(values, absolute, relative)
        first = first[alike] if place else alike
    return int(first.min())


def _least(values: Floats, absolute: float, relative: float) -> Ints:
    """Return the positions of the least of some values, and of those that are equal to it."""
    least = float(values[values.argmin()])  # of numpy, infinite ones would warn
    near = (values <= least + 4 * (absolute + relative * abs(least))).nonzero()[0]
    # What is not near differs from all that is: nothing hangs on how equal values lie in a row.
    if near.size == 1 or (values[near] == least).nonzero()[0].size == near.size > 0:
        return near
    order = values.argsort(kind="stable")
    ends = _differs(values[order], absolute, relative).nonzero()[0]
    return order[: ends[0] + 1] if ends.size else order


def significant(value: float) -> float:
    """Round a number to nine significant digits, far above what sums in another order differ by."""
    return float(f"{value:.9g}")


def _differs(ascending: Floats, absolute: float, relative: float = RELATIVE) -> NDArray[np.bool_]:
    """Tell which of some sorted values differ from the one before, shape (n - 1,)."""
    differs: NDArray[np.bool_]
    before, after = ascending[:-1], ascending[1:]
    least = relative * np.maximum(after, -before)  # the larger size of both, as they are sorted
    if absolute:
        least = np.maximum(least, absolute)
    if not after.size or (ascending[0] > -np.inf and ascending[-1] < np.inf):
        differs = after - before > least
        return differs
    with np.errstate(invalid="ignore"):
        apart = after - before  # equal infinities are NaN apart
    differs = (apart > least) | (apart == np.inf)
    return differs


_NUMBER = re.compile(r"0*([1-9][0-9]*|0)")


def order_of_submission(ids: pd.Index, arrival_s: NDArray[np.float64]) -> Ints:
    """Return the positions of jobs, first submitted first.

    Jobs of one time come in the order of their ids, so that it belongs to the jobs, whatever row
    they stand in: numbers by value, texts with the numbers in them by value, ``job-2`` before
    ``job-10``, numbers before letters. Ids of several kinds are compared as texts.

    Parameters
    ----------
    ids
        Ids of the jobs.
    arrival_s
        When they came, seconds.
    """
    order = np.argsort(arrival_s, kind="stable")
    if bool((np.diff(arrival_s[order]) > 0).all()):
        return order
    by_id = _order_of_ids(ids)
    return by_id[np.argsort(arrival_s[by_id], kind="stable")]


def _order_of_ids(ids: pd.Index) -> Ints:
    """Return the positions of ids in their order."""
    if ids.dtype.kind in "iuf":
        return np.argsort(ids.to_numpy(), kind="stable")
    texts = [*map(str, ids.tolist())]
    numbers = _numbers_behind_one_text(texts)
    if numbers is not None:
        return np.argsort(numbers, kind="stable")
    keys = [*map(key_of_id, texts)]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)


def key_of_id(job: Any) -> tuple[Any, ...]:
    """Return what ids of one kind are sorted by: numbers by value, in texts as well."""
    if not isinstance(job, str) and is_number(job):
        return 0, job
    parts = _NUMBER.split(str(job))  # every other one a number
    parts[1::2] = [f"\0{len(digits):06d}{digits}" for digits in parts[1::2]]  # longer is larger
    return 1, "".join(parts), str(job)  # tells 7 from 07


def _numbers_behind_one_text(texts: list[str]) -> Ints | None:
    """Return the numbers of texts such as ``job-7``, alike before them; None for any others."""
    first, last = min(texts, default=""), max(texts, default="")
    differ = (
        place for place, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1
    )
    start = len(first[: next(differ, len(first))].rstrip(string.digits))
    digits = [each[start:] for each in texts]
    together = "".join(digits)
    if not (together.isascii() and together.isdecimal() and all(digits)):
        return None
    lengths = np.fromiter(map(len, digits), dtype=np.intp, count=len(digits))
    padded = any(each[0] == "0" for each in digits) and bool((lengths != lengths[0]).any())
    if padded or lengths.max() > _MOST_DIGITS:
        return None
    return np.fromiter(map(int, digits), dtype=np.int64, count=len(digits))


_MOST_DIGITS = 18
"""Digits of numbers that fit into 64 bits."""
