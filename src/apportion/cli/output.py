"""Tables on the terminal: rich where a person looks, aligned plain text in pipes."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from apportion.report.tables import HumanTable, aligned_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["print_summary", "print_table"]


def print_summary(table: HumanTable) -> None:
    """Print the table of a comparison, best values marked."""
    if not _rich_terminal():
        print(table)
        print(f"* best. {table.legend}")
        return
    header = [f"{name}\n{unit}" for name, unit in zip(table.header, table.units, strict=True)]
    cells = [
        [f"[bold green]{text}[/]" if best else text for text, best in zip(row, marks, strict=True)]
        for row, marks in zip(table.cells, table.best, strict=True)
    ]
    _print_rich(header, cells)
    print(f"Green: best. {table.legend}")


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)
) -> None:
    """Print a table; the columns `left` are texts, the others numbers."""
    if _rich_terminal():
        _print_rich(header, [[cell.replace("[", r"\[") for cell in row] for row in rows], left)
    else:
        print(aligned_text([list(header), *map(list, rows)], left=left))


def _rich_terminal() -> bool:
    return sys.stdout.isatty() and find_spec("rich") is not None


def _print_rich(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)
) -> None:
    """Print with rich; cells are its markup."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    for place, name in enumerate(header):
        table.add_column(name, justify="left" if place in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table)
