"""Texts in csv files that spreadsheets would run as formulas.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return is a formula to a
spreadsheet: ``=HYPERLINK(...)`` as the name of a job sends what stands beside it away at a click.
Such texts are written with an apostrophe before them, which spreadsheets take for "text" and do not
show, and are read without it. A text that begins with apostrophes and one of those signs has one
more apostrophe in the file, so that every text comes back as it was. Numbers stay as they are.
So is a text that begins with a blank: readers leave out blanks between a comma and a cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Hashable

WHOLE = r"0|-?[1-9][0-9]{0,17}"
"""How ids are written that are numbers, if all of a table are."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MARKED = (*_FORMULA, " ")


def guarded(text: Any) -> Any:
    """Return a cell as it is written: what looks like a formula or is blank first is marked."""
    if isinstance(text, str) and text.lstrip("'").startswith(_MARKED):
        return f"'{text}"
    return text


def restored(cells: pd.Series) -> pd.Series:
    """Return a column of texts as they were before they were written."""
    marked = cells.str.startswith("'") & cells.str.lstrip("'").str.startswith(_MARKED)
    return cells.where(~marked, cells.str.slice(1)) if marked.any() else cells


def to_csv(table: pd.DataFrame, *, index: bool = True) -> str:
    """Return a table as csv, its texts guarded: cells, row labels and names of columns.

    Parameters
    ----------
    table
        Any table.
    index
        Whether row labels are written.
    """
    columns = {
        place: values.map(guarded) if values.dtype.kind == "O" else values
        for place, (_, values) in enumerate(table.items())
    }
    safe = pd.DataFrame(columns, index=table.index)
    safe.columns = _labels(table.columns)
    if index:
        safe.index = _labels(table.index)
    return safe.to_csv(index=index, lineterminator="\n")


def _labels(index: pd.Index) -> pd.Index:
    """Guard labels, level by level."""

    def safe(label: Hashable) -> Hashable:
        return tuple(map(guarded, label)) if isinstance(label, tuple) else guarded(label)

    if not any(safe(label) != label for label in index):
        return index
    if isinstance(index, pd.MultiIndex):
        levels = [index.get_level_values(level).map(guarded) for level in range(index.nlevels)]
        return pd.MultiIndex.from_arrays(levels, names=index.names)
    return pd.Index([safe(label) for label in index], name=index.name)
