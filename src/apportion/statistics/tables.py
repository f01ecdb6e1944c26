"""Tables of figures for papers: intervals behind what they are about, LaTeX and Markdown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.checks import whole
from apportion.errors import InputError, written
from apportion.statistics.intervals import half_width
from apportion.statistics.typeset import HumanTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


@checked
def to_latex(table: pd.DataFrame, digits: int = 3) -> str:
    """Return a table of figures as a LaTeX tabular with rules of booktabs.

    Parameters
    ----------
    table
        Any; where ``low`` and ``high`` follow a column of figures, they are shown behind it:
        ``1.93 [1.71, 2.15]``. An index with a name is a column.
    digits
        Significant ones of each figure.
    """
    return _typeset(table, digits).to_latex()


@checked
def to_markdown(table: pd.DataFrame, digits: int = 3) -> str:
    """Return a table of figures in Markdown; `table` and `digits` as for `to_latex`."""
    return _typeset(table, digits).to_markdown()


def _typeset(table: pd.DataFrame, digits: int) -> HumanTable:
    """Write each cell; texts to the left come first."""
    whole("digits", digits, least=1, most=17)
    named = any(name is not None for name in table.index.names)
    table = table.reset_index() if named else table
    names = [str(name) for name in table.columns]
    header: list[str] = []
    columns: list[list[str]] = []
    figures: list[bool] = []
    place = 0
    while place < len(names):
        values = table.iloc[:, place].tolist()
        if columns and names[place : place + 2] == ["low", "high"]:
            ends = zip(values, table.iloc[:, place + 1].tolist(), strict=True)
            written = [_interval(*each, digits) for each in ends]
            columns[-1] = [text + end for text, end in zip(columns[-1], written, strict=True)]
            place += 2
            continue
        header.append(names[place])
        columns.append([_cell(value, digits) for value in values])
        figures.append(pd.api.types.is_numeric_dtype(table.dtypes.iloc[place]))
        place += 1
    keys = figures.index(True) if True in figures else len(columns)
    empty = ("",) * len(columns)
    cells = tuple(zip(*columns, strict=True))
    return HumanTable(tuple(header), empty, cells, (empty,) * len(cells), keys=keys)


def _interval(low: Any, high: Any, digits: int) -> str:
    """Write the ends of an interval; nothing where there is none."""
    return (
        "" if pd.isna(low) or pd.isna(high) else f" [{_cell(low, digits)}, {_cell(high, digits)}]"
    )


def _cell(value: Any, digits: int) -> str:
    """Write a number with its significant digits, a dash for none, and texts as they are."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if not isinstance(value, float) or math.isinf(value):
        return str(value)
    rounded = float(f"{value:.{digits - 1}e}")
    return f"{value:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{value:#.{digits}g}"


_LEVEL = 0.05
"""Probability that noise makes a best one out of equals, at most about."""


def marks_of(replicates: NDArray[np.float64], *, low: bool = True) -> list[str]:
    """Mark the best of some policies, and those that noise may have put behind it.

    The difference of each from the best is one number per replicate, as all have seen the same jobs
    there. It is noise where Student's interval about its mean includes 0, at a level of 5 % over
    all of them together (Bonferroni).

    Parameters
    ----------
    replicates
        Shape (policies, replicates).
    low
        Whether less is better.

    Returns
    -------
    list of str
        ``"*"`` for the best, if the others are worse by more than noise; else ``"~"`` for the best
        and for each that is worse by noise; nothing for the others. Nothing for all where a figure
        is not known, where there is nothing to compare, and where replicates do not differ.
    """
    if np.ndim(replicates) != 2:
        raise InputError(f"replicates is {written(replicates)}; it has a row for each policy.")
    policies, count = replicates.shape
    none = [""] * policies
    if policies < 2 or count < 2 or not np.isfinite(replicates).all():
        return none
    if not np.ptp(replicates, axis=1).any() or not np.ptp(replicates, axis=0).any():
        return none
    means = replicates.mean(axis=1) * (1 if low else -1)
    best = int(means.argmin())
    apart = (replicates - replicates[best]) * (1 if low else -1)
    near = apart.mean(axis=1) <= half_width(apart, 1 - _LEVEL / (policies - 1))
    if near.sum() == 1:
        return ["*" if row == best else "" for row in range(policies)]
    return ["~" if each else "" for each in near]
