"""What the benchmarks share: a line of progress, a table in text, files."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import cvxpy

import apportion

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

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


def write_csv(table: pd.DataFrame, folder: Path | None, name: str) -> None:
    """Write a table into the folder of results, if there is one."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
        print(f"Written: {folder / f'{name}.csv'}")
