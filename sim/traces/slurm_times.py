"""Lengths of time as Slurm writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NOT_KNOWN", "seconds_of"]

NOT_KNOWN = ("Unknown", "None", "N/A", "INVALID")
"""What stands for a time that has not come."""

_ENDLESS = ("UNLIMITED", "Partition_Limit", "INFINITE", *NOT_KNOWN)
_LENGTH = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6})(?::(\d{1,2}(?:\.\d+)?))?")


def seconds_of(cells: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Read ``D-HH:MM:SS``, ``D-HH:MM``, ``D-HH``, ``HH:MM:SS``, ``MM:SS`` and ``MM``.

    Returns
    -------
    Series, Series
        Seconds, NaN where there is no limit and for blank cells; and which cells are none of these.
    """
    read = {cell: _seconds(str(cell)) for cell in cells.dropna().unique()}
    known = cells.map(read).astype(float)
    endless = cells.isna() | cells.isin(_ENDLESS)
    return known, known.isna() & ~endless


def _seconds(text: str) -> float:
    found = _LENGTH.fullmatch(text)
    if found is None:
        return np.nan
    days, first, second, third = found.groups()
    numbers = [float(each) for each in (first, second, third) if each is not None]
    if days is not None:
        hours, minutes, seconds = (*numbers, 0.0, 0.0)[:3]
        return 86400 * float(days) + 3600 * hours + 60 * minutes + seconds
    if first is not None and third is not None:
        return 3600 * numbers[0] + 60 * numbers[1] + numbers[2]
    return 60 * numbers[0] + (numbers[1] if len(numbers) > 1 else 0.0)
