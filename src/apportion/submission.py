"""The order in which jobs were submitted: by arrival, those of one time by their ids."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Ints = NDArray[np.intp]

__all__ = ["order_of_submission"]

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
    by_id = _order_of_ids(ids)
    return by_id[np.argsort(arrival_s[by_id], kind="stable")]


def _order_of_ids(ids: pd.Index) -> Ints:
    """Return the positions of ids in their order."""
    if ids.dtype.kind in "iuf":
        return np.argsort(ids.to_numpy(), kind="stable")
    texts = [str(each).replace("\n", " ") for each in ids.tolist()]
    order = sorted(range(len(texts)), key=texts.__getitem__)  # tells 7 from 07
    keys = _NUMBER.sub(_by_value, "\n".join(texts)).split("\n")
    return np.array(sorted(order, key=keys.__getitem__), dtype=np.intp)


def _by_value(number: re.Match[str]) -> str:
    """Write a number so that texts compare by value: how long it is comes first."""
    digits = number[1]
    return f"\0{len(digits):06d}{digits}"
