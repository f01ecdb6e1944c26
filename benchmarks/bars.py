"""A table as a picture: a panel of bars for each figure, a bar for each row.

Rows are called by their first columns, as many as tell them apart; what all rows have in common
stands above. An interval in a cell, ``0.9 [0.8, 1.1]``, is a line on its bar.
"""

from __future__ import annotations

from math import isnan
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDE = 100
"""From how many times the median the largest bar is on, a linear axis would show no other."""

_NUMBER = r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?|-?\.\d+"
_MOST = 4


class Bars(NamedTuple):
    """Figures by row, with the ends of their intervals (missing ones are NaN), and words."""

    values: pd.DataFrame
    low: pd.DataFrame
    high: pd.DataFrame
    common: str


def bars_of(table: pd.DataFrame) -> Bars | None:
    """Find names and figures of the rows of a table; None if it has no figures."""
    if table.empty:
        return None
    cells = table.map(_text).set_axis([str(name) for name in table.columns], axis=1)
    return _of_rows(cells, _told_apart_by(cells)) or _of_rows(cells, [0])


def _of_rows(cells: pd.DataFrame, keys: list[int]) -> Bars | None:
    """Find the figures behind the columns that rows are called by."""
    varies = [place for place in keys if cells.iloc[:, place].nunique() > 1] or keys[-1:]
    named = [_called(cells, place) for place in keys]
    rows = [
        ", ".join(filter(None, words)) for words in zip(*(named[at] for at in varies), strict=True)
    ]
    common = ", ".join(filter(None, (named[at][0] for at in keys if at not in varies)))
    found: dict[str, pd.DataFrame] = {}
    for place in range(len(keys), cells.shape[1]):
        column = cells.iloc[:, place].str
        ends = column.extract(rf"\[(?P<low>{_NUMBER}), (?P<high>{_NUMBER})\]")
        parts = ends.assign(value=column.extract(rf"^({_NUMBER})")[0])
        numbers = parts.apply(lambda each: pd.to_numeric(each.str.replace(",", ""), "coerce"))
        if numbers["value"].notna().mean() > 0.5:
            found[cells.columns[place]] = numbers.set_axis(rows)
    telling = {name: each for name, each in found.items() if each["value"].nunique() > 1}
    shown = dict(list((telling or found).items())[:_MOST])
    if not shown:
        return None
    values, low, high = (
        pd.DataFrame({name: each[part] for name, each in shown.items()})
        for part in ("value", "low", "high")
    )
    return Bars(values, low, high, common)


def _told_apart_by(cells: pd.DataFrame) -> list[int]:
    """Give the places of the first columns, as many as tell the rows apart; fill their gaps."""
    for place in range(cells.shape[1] - 1):
        column = cells.iloc[:, place].replace("", pd.NA).ffill().fillna("")
        cells.isetitem(place, column.tolist())
        if not cells.iloc[:, : place + 1].duplicated().any():
            return list(range(place + 1))
    return [0]


def _called(cells: pd.DataFrame, place: int) -> list[str]:
    """Write what the cells of a column say of their rows: numbers behind the head."""
    head, column = cells.columns[place], cells.iloc[:, place]
    number = column.str.fullmatch(_NUMBER) & (head != "")
    return [f"{head} {text}" if plain else text for text, plain in zip(column, number, strict=True)]


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return "" if isnan(cell) else f"{cell:.6g}"
    return str(cell)


def draw(figure: Figure, bars: Bars) -> None:
    """Draw a panel of bars for each figure."""
    count = len(bars.values)
    panels: Any = figure.subplots(1, bars.values.shape[1], sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, bars.values, strict=True):
        values = bars.values[name].to_numpy()
        ends = np.stack([values - bars.low[name], bars.high[name] - values])
        ends = np.maximum(ends, 0.0)
        drawn = axes.barh(range(count), np.nan_to_num(values), xerr=ends, ecolor="#444444")
        axes.bar_label(drawn, [_short(value) for value in values], padding=3, fontsize=6)
        axes.margins(x=0.2)
        axes.set_title(fill(str(name), 90 // (len(panels) + 1)), fontsize="small")
        axes.set(ylim=(count - 0.5, -0.5))
        if np.nanmax(values) > _WIDE * np.nanmedian(np.abs(values)) > 0:
            axes.set_xscale("symlog", linthresh=np.nanmedian(np.abs(values)))
        axes.set_yticks(range(count), [fill(str(row), 60) for row in bars.values.index], fontsize=6)
        axes.grid(visible=False, axis="y")
    if bars.common:
        figure.suptitle(bars.common, fontsize="small", x=0.01, ha="left")


def _short(value: float) -> str:
    if isnan(value):
        return ""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
