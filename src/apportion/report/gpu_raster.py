"""States of GPUs over time, as numbers on a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["loans_begun", "spent"]


def spent(states: pd.DataFrame, names: Sequence[str], gpus: int, edges_s: Floats) -> Floats:
    """Return the seconds that each GPU spends in each state between edges of time.

    Parameters
    ----------
    states
        Columns gpu, state, from_s and to_s; a GPU is in one state at a time.
    names
        States; others are left out.
    gpus
        How many.
    edges_s
        Ascending.

    Returns
    -------
    ndarray
        Seconds, shape (states, GPUs, edges - 1).
    """
    found = np.zeros((len(names), gpus, edges_s.size - 1))
    place = {name: number for number, name in enumerate(names)}
    known = states[states["state"].isin(list(names))].sort_values("from_s")
    for _, ordered in known.groupby(["gpu", "state"]):
        gpu, name = int(ordered["gpu"].iloc[0]), str(ordered["state"].iloc[0])
        begin, end = ordered["from_s"].to_numpy(), ordered["to_s"].to_numpy()
        until = np.cumsum(end - begin)
        # Time in the state up to a time is linear between where stretches begin and end.
        when = np.column_stack([begin, end]).ravel()
        total = np.column_stack([until - (end - begin), until]).ravel()
        found[place[name], gpu] = np.diff(np.interp(edges_s, when, total))
    return np.maximum(found, 0.0)


def loans_begun(states: pd.DataFrame) -> Floats:
    """Return when GPUs are lent: the beginnings of loans that do not go on from another, s."""
    loaned = states[states["state"] == "loaned"].sort_values(["gpu", "from_s"])
    begin, end = loaned["from_s"].to_numpy(), loaned["to_s"].to_numpy()
    gpu = loaned["gpu"].to_numpy()
    goes_on = np.zeros(begin.size, dtype=bool)
    goes_on[1:] = (gpu[1:] == gpu[:-1]) & (begin[1:] <= end[:-1])
    return np.asarray(begin[~goes_on], dtype=np.float64)
