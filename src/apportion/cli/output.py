"""Tables on the terminal: rich where a person looks, aligned plain text in pipes."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from importlib.util import find_spec
from typing import TYPE_CHECKING

from apportion.statistics.typeset import HumanTable, aligned_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_WIDTH_OF_PIPES = 100
_STYLES = {"*": "bold green", "~": "green", "": ""}


def width() -> int:
    """Return how many characters fit in a line: of the terminal or COLUMNS, or 100 in pipes."""
    if not _has_width():
        return _WIDTH_OF_PIPES
    return shutil.get_terminal_size((_WIDTH_OF_PIPES, 0)).columns


def say(text: str, indent: str = "") -> None:
    """Print a sentence in lines that fit, those behind the first indented; words stay whole."""
    lines = textwrap.fill(
        text, width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    print(lines)


def _has_width() -> bool:
    """Whether somebody says how wide lines may be."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def print_summary(table: HumanTable) -> None:
    """Print the table of a comparison, best values marked; in blocks where it is too wide."""
    if not _rich_terminal():
        print("\n\n".join(map(str, table.blocks(width()) if _has_width() else [table])))
        _say_legend(table)
        return
    for block in table.blocks(width()):
        header = [f"{name}\n{unit}" for name, unit in zip(block.header, block.units, strict=True)]
        cells = [
            [(_STYLES[mark], text + mark) for text, mark in zip(row, marks, strict=True)]
            for row, marks in zip(block.cells, block.marks, strict=True)
        ]
        _print_rich(header, cells)
    _say_legend(table)


def _say_legend(table: HumanTable) -> None:
    if table.legend:
        say(table.legend)


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)
) -> None:
    """Print a table; the columns `left` are texts, the others numbers."""
    if _rich_terminal():
        _print_rich(header, [[("", cell) for cell in row] for row in rows], left)
    else:
        print(aligned_text([list(header), *map(list, rows)], left=left))


def _rich_terminal() -> bool:
    return sys.stdout.isatty() and find_spec("rich") is not None


def _print_rich(
    header: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]], left: Collection[int] = (0,)
) -> None:
    """Print with rich; cells are pairs of style and text, and none is ever cut."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    for place, name in enumerate(header):
        table.add_column(Text(name), justify="left" if place in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(text, style=style) for style, text in row))
    # Measured where there is room for anything: rich makes what it measures fit its console.
    needed = Console(width=100_000).measure(table).maximum
    Console(highlight=False, width=max(needed, width())).print(table)
