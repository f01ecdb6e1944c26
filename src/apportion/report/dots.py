"""Paired differences or ratios with their intervals: a row of dots for each, and a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.report.style import line_styles, new_figure, plotting_style, tell
from apportion.statistics.typeset import HumanTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

_ROW = 0.24
"""Inches of a row."""


class Dot(NamedTuple):
    """An estimate with the ends of its interval, NaN where there is none.

    Attributes
    ----------
    keys
        What it is of; the first has a colour.
    estimate, low, high
        In the units that are shown.
    """

    keys: tuple[str, ...]
    estimate: float
    low: float
    high: float


Dots = dict[str, list[Dot]]
"""Dots by the figure that they are of; those of each figure in the same order."""


def dots_figure(dots: Mapping[str, Sequence[Dot]], nothing: float, axis: str) -> Figure:
    """Draw one column for each figure, and a row for each key.

    Parameters
    ----------
    dots
        By figure.
    nothing
        What says that there is no difference: 0, or a ratio of 1.
    axis
        What numbers mean.

    Raises
    ------
    ApportionError
        If matplotlib is not installed.
    """
    rows = [", ".join(dot.keys) for dot in next(iter(dots.values()))]
    styles = line_styles(list(dict.fromkeys(dot.keys[0] for dot in next(iter(dots.values())))))
    with plotting_style():
        figure = new_figure(2.4 + 3.0 * len(dots), 1.1 + _ROW * len(rows))
        panels = figure.subplots(1, len(dots), sharey=True, squeeze=False)[0]
        for axes, (name, each) in zip(panels, dots.items(), strict=True):
            axes.axvline(nothing, color="#666666", linewidth=0.8)
            for row, dot in enumerate(each):
                _draw(axes, row, dot, f"{', '.join(dot.keys)}: {name}", styles)
            axes.set(title=name, xlabel=axis)
            axes.grid(visible=False, axis="y")
        panels[0].set_yticks(range(len(rows)), rows)
        panels[0].set_ylim(len(rows) - 0.5, -0.5)
    return figure


def _draw(axes: Any, row: int, dot: Dot, what: str, styles: Mapping[str, Any]) -> None:
    colour = styles[dot.keys[0]]["color"]
    (line,) = axes.plot([dot.low, dot.high], [row, row], color=colour, linewidth=2.0, alpha=0.55)
    (point,) = axes.plot([dot.estimate], [row], "o", color=colour, markersize=5)
    said = f"{what} {dot.estimate:.4g}"
    for artist in (line, point):
        tell(artist, f"{said} [{dot.low:.4g}, {dot.high:.4g}]")


def dots_table(
    dots: Mapping[str, Sequence[Dot]], keys: Sequence[str], units: str, form: str
) -> HumanTable:
    """Return the same as a table: the ends of an interval behind each estimate.

    Parameters
    ----------
    dots
        By figure.
    keys
        What the keys of a dot are, above their columns.
    units
        Of all numbers.
    form
        How numbers are written, ``"+,.2f"``.
    """
    names = [dot.keys for dot in next(iter(dots.values()))]
    cells = [list(each) for each in names]
    for each in dots.values():
        for row, dot in zip(cells, each, strict=True):
            row += ["-" if number != number else format(number, form) for number in dot[1:]]
    header = [column for name in dots for column in (name, "from", "to")]
    return HumanTable(
        (*keys, *header),
        (*[""] * len(keys), *[units] * len(header)),
        tuple(map(tuple, cells)),
        tuple(("",) * len(row) for row in cells),
        keys=len(keys),
    )
