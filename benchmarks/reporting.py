"""What the benchmarks share: a line of progress, a table in text, files."""

from __future__ import annotations

import os
import platform
import re
import sys
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import cvxpy
import pandas as pd

import apportion
from benchmarks.bars import bars_of, draw
from benchmarks.experiment import drawing

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_PACKAGES = ("highspy", "clarabel", "numpy")


def progress(text: str) -> None:
    """Replace the line of progress; nothing is shown where no person watches."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def machine() -> str:
    """Name what the figures depend on."""
    # Of the first two the version is in the package: a checkout need not be installed, and cvxpy
    # has two names.
    solver = cvxpy.__version__  # pyright: ignore[reportPrivateImportUsage]
    ours = f"apportion {apportion.__version__}, cvxpy {solver}"
    packages = ", ".join([ours, *(f"{name} {version(name)}" for name in _PACKAGES)])
    python = platform.python_version()
    return f"{os.cpu_count()} CPUs ({platform.machine()}), Python {python}, {packages}"


def show(table: pd.DataFrame, digits: int = 3) -> None:
    """Print a table; cells without a figure are a dash."""
    text = table.to_string(
        index=False, na_rep="-", float_format=lambda value: f"{value:.{digits}g}"
    )
    print(text, flush=True)


def write_csv(table: pd.DataFrame, folder: Path | None, name: str, *, bars: bool = False) -> None:
    """Write a table into the folder of results, if there is one.

    With `bars` also a picture of it, see `benchmarks.bars`.
    """
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
    print(f"Written: {folder / f'{name}.csv'}")
    if bars and (found := bars_of(table)) is not None:
        with drawing(folder, name, 9.0, 1.5 + 0.22 * len(table)) as figure:
            if figure is not None:
                draw(figure, found)


def add_out(parser: argparse.ArgumentParser) -> None:
    """Add where csv files and pictures go."""
    parser.add_argument("--out", type=Path, metavar="DIR", help="write csv files and pictures")


@contextmanager
def kept(folder: Path | None, name: str) -> Iterator[None]:
    """Write every table that is printed meanwhile, as csv and as bars; it is printed all the same.

    Tables are those that Markdown has: a line of heads, one of dashes, and a row a line.
    """
    if folder is None:
        yield
        return
    told = _Both(sys.stdout)
    with redirect_stdout(told):
        yield
    for number, table in enumerate(tables_in("".join(told.written)), start=1):
        write_csv(table, folder, f"{name}_{number}", bars=True)


class _Both(StringIO):
    """Keeps what is written, and writes it on."""

    def __init__(self, other: TextIO) -> None:
        super().__init__()
        self.other = other
        self.written: list[str] = []

    def write(self, text: str) -> int:
        self.written.append(text)
        return self.other.write(text)

    def flush(self) -> None:
        self.other.flush()


def tables_in(text: str) -> list[pd.DataFrame]:
    """Read the Markdown tables of a text; cells stay texts."""
    tables = []
    for block in re.findall(r"^\|.*\|\n\|[-|: ]+\|\n(?:\|.*\|(?:\n|$))*", text, flags=re.M):
        lines = [re.split(r"(?<!\\)\|", line.strip()[1:-1]) for line in block.splitlines()]
        heads, _, *rows = [[cell.strip() for cell in line] for line in lines]
        tables.append(pd.DataFrame([row for row in rows if len(row) == len(heads)], columns=heads))
    return tables
