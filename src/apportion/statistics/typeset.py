"""A table of text: header, units, cells and marks, as plain text, Markdown and LaTeX."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import pandas as pd


MARKS: Mapping[str, str] = MappingProxyType(
    {
        "*": "* best, by more than noise.",
        "~": "~ best within noise: paired 95 % intervals include 0.",
    }
)
"""What marks stand for."""

LEGEND: Mapping[str, str] = MappingProxyType(
    {
        "mean JCT": "JCT: completion minus arrival.",
        "max FTF": "FTF: JCT over the time in an isolated 1/n share.",
        "in time": "In time: deadlines that were met.",
        "Jain": "Jain: index of the shares, 1 where all are equal.",
        "weighted": "Weighted: the same of share over weight.",
        "p95 wait": "Wait: time without GPUs.",
        "comm.": "Comm.: mean exposed communication.",
        "p99 delay": "Delay: of a request, until it has a GPU.",
        "given away": "Given away: GPU time with a job, a request or a loaded service.",
        "in use": "In use: without pauses.",
        "computing": "Computing: without what is only kept loaded.",
        "iteration": "Iteration: mean time of one over that of one that has the links for itself.",
        "loops": "Loops: candidate placements that would make a loop of jobs and links.",
    }
)
"""What the abbreviations in a header stand for, by the column that they belong to."""


@dataclass(frozen=True)
class HumanTable:
    """A table of text ready to print: header, units, cells, and marks of the best ones.

    A mark is ``"*"`` for the best value of its column, ``"~"`` for those that cannot be told from
    it, and empty for others. The first `keys` columns say what a row is about. `doubt` names the
    rows whose figures rest on solves that were not certified.
    """

    header: tuple[str, ...]
    units: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    marks: tuple[tuple[str, ...], ...]
    keys: int = 1
    doubt: str = ""

    @property
    def legend(self) -> str:
        """What marks and the abbreviations in the header stand for, and what is in doubt."""
        there = {mark for row in self.marks for mark in row}
        marks = [text for mark, text in MARKS.items() if mark in there]
        named = [text for name, text in LEGEND.items() if name in self.header]
        return " ".join([*marks, *named, *filter(None, [self.doubt])])

    def blocks(self, width: int, gap: int = 2) -> list[HumanTable]:
        """Part the columns into tables no wider than a terminal, each with the columns of keys.

        A block has one column of figures at least, however narrow the terminal is.

        Parameters
        ----------
        width
            Of the terminal, characters.
        gap
            Characters beside each column.
        """
        texts = zip(*(self.header, self.units, *self.cells), strict=True)
        widths = [gap + max(map(len, column)) for column in texts]
        room = width - sum(widths[: self.keys])
        parts: list[list[int]] = [[]]
        for column in range(self.keys, len(widths)):
            if parts[-1] and sum(widths[each] for each in [*parts[-1], column]) > room:
                parts.append([])
            parts[-1].append(column)
        return [self._with([*range(self.keys), *part]) for part in parts]

    def _with(self, columns: Sequence[int]) -> HumanTable:

        def chosen(row: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(row[column] for column in columns)

        return HumanTable(
            header=chosen(self.header),
            units=chosen(self.units),
            cells=tuple(map(chosen, self.cells)),
            marks=tuple(map(chosen, self.marks)),
            keys=self.keys,
        )

    def to_markdown(self) -> str:
        """Return the table in Markdown, units behind the names, and the legend below."""
        names = [
            f"{name} ({unit})" if unit else name
            for name, unit in zip(self.header, self.units, strict=True)
        ]
        sides = ["---" if place < self.keys else "---:" for place in range(len(names))]
        escaped = ([_markdown(text) for text in row] for row in self._marked())
        rows = ["| " + " | ".join(row) + " |" for row in [names, sides, *escaped]]
        return "\n".join([*rows, "", _markdown(self.legend)]).rstrip() + "\n"

    def to_latex(self) -> str:
        """Return the table as a LaTeX tabular with rules of booktabs, and the legend below."""
        sides = "".join("l" if place < self.keys else "r" for place in range(len(self.header)))
        head = [self.header, *[self.units] * any(self.units)]
        lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule"]
        lines += [*map(_latex_row, head), r"\midrule", *map(_latex_row, self._marked())]
        lines += [r"\bottomrule", r"\end{tabular}"]
        return "\n".join([*lines, *[_latex(self.legend)] * bool(self.legend)]) + "\n"

    def _marked(self) -> list[list[str]]:
        return [
            [text + mark for text, mark in zip(row, marks, strict=True)]
            for row, marks in zip(self.cells, self.marks, strict=True)
        ]

    def __str__(self) -> str:
        """Aligned plain text, with the marks behind the values."""
        rows = [
            [name, *(text + (mark or " ") for text, mark in zip(row, marks, strict=True))]
            for (name, *row), (_, *marks) in zip(self.cells, self.marks, strict=True)
        ]
        header = [[name, *(f"{text} " for text in row)] for name, *row in (self.header, self.units)]
        return aligned_text([*header, *rows], gap=1)


_MARKDOWN = str.maketrans({each: f"\\{each}" for each in "|*~\\"})


def _markdown(text: str) -> str:
    """Escape what Markdown takes for edges of cells and for emphasis."""
    return text.translate(_MARKDOWN)


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{each: rf"\{each}" for each in "&%$#_{}"},
    }
)


def _latex(text: str) -> str:
    """Escape what LaTeX takes for commands."""
    return text.translate(_LATEX)


def _latex_row(cells: Iterable[str]) -> str:
    row = " & ".join(map(_latex, cells)) + r" \\"
    return "{}" * row.startswith("[") + row  # or it would be an option of the line break before it


def aligned_text(rows: list[list[str]], *, left: Collection[int] = (0,), gap: int = 2) -> str:
    """Join rows of cells into lines; the columns `left` to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((" " * gap).join(cells).rstrip())
    return "\n".join(lines)


_MOST_ROWS = 12


def as_html(text: str, table: pd.DataFrame | Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence and a table as HTML; what users named is escaped, a long table is cut.

    Parameters
    ----------
    text
        Stands above.
    table
        With its index; or rows, of which an index would say nothing.
    """
    import pandas as pd

    def number(value: float) -> str:
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"

    own = isinstance(table, pd.DataFrame)
    written = pd.DataFrame(table).to_html(
        max_rows=_MOST_ROWS, float_format=number, index=own, border=0, na_rep="-"
    )
    return f"<p>{escape(text)}</p>{written}"
