"""Columns of jobs beside those of a queue: what the state tells of who is here, and the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.errors import InputError
from apportion.jobs import JOB_COLUMNS, TOLD_BY_RUNS

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULTS = {"weight": 1.0, "deadline_s": np.nan}
"""What holds of a job of which one of these columns is not told."""

_SHARED = (*DEFAULTS, "entity")


def may_be_told(name: str) -> bool:
    """Whether a column is one of which a state and a log tell: one's own, weight and the like."""
    return name in _SHARED or not (name in JOB_COLUMNS or name in TOLD_BY_RUNS)


def told_columns(
    here: pd.DataFrame, log: pd.DataFrame, reads: Iterable[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the columns that futures have beside those of a queue, of who is here and of the log.

    They are those of which both tell for all jobs, where that is known without them `DEFAULTS`.

    Parameters
    ----------
    here
        Jobs of the state, with further columns as its entries have them; NaN where one has none.
    log
        Jobs of the log.
    reads
        Columns that the policy needs.

    Raises
    ------
    InputError
        For a column that the policy needs and the log, or a job of the state, does not have.
    """
    names = [str(name) for name in log.columns if may_be_told(str(name))]
    needed = [name for name in reads if may_be_told(name) and name not in DEFAULTS]
    names = list(dict.fromkeys([*names, *[each for each in DEFAULTS if each in here], *needed]))
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for name in names:
        of = [_filled(table, name) for table in (here, log)]
        lacks = of[0].isna().to_numpy() if name not in DEFAULTS else np.zeros(len(here), bool)
        if name in needed and lacks.any():
            raise InputError(
                f"Job {here.index[int(np.argmax(lacks))]} of the state has no {name!r}, which the "
                f"policy needs; give each of its jobs this key."
            )
        if name in needed and name not in log:
            raise InputError(
                f"The policy needs the column {name!r}, which jobs of the log do not have; jobs "
                f"that come later are drawn from it, so give it this column."
            )
        if name in here and not lacks.any():
            for each, values in zip(found, of, strict=True):
                each[name] = values
    return pd.DataFrame(found[0], index=here.index), pd.DataFrame(found[1], index=log.index)


def _filled(table: pd.DataFrame, name: str) -> pd.Series[Any]:
    """Return a column, with its default where it is not told."""
    values = table[name] if name in table else pd.Series(np.nan, index=table.index)
    return values.fillna(DEFAULTS[name]) if name in DEFAULTS else values
