"""What the benchmarks share: a line of progress, a table in text, files."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import cvxpy
import numpy as np
from scipy.stats import t as student

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


def paired_ratio(one: pd.Series, other: pd.Series) -> dict[str, float]:
    """Return the ratio of two ways of which each pair (by the index) was run on the same jobs.

    Returns
    -------
    dict
        Geometric mean, its 95 % interval (Student's t of the logarithms), the least and the most,
        in how many pairs the first is less, and how many pairs there are. Pairs of which either
        is 0 have no ratio and are left out.
    """
    logs = np.log((one / other).replace([0.0, np.inf], np.nan).dropna().to_numpy(float))
    if not logs.size:
        nothing = dict.fromkeys(("ratio", "low", "high", "least", "most"), float("nan"))
        return {**nothing, "wins": 0, "pairs": 0}
    half = float("nan")
    if logs.size > 1:
        half = float(student.ppf(0.975, logs.size - 1)) * logs.std(ddof=1) / np.sqrt(logs.size)
    middle = float(logs.mean())
    named = {"ratio": middle, "low": middle - half, "high": middle + half}
    named |= {"least": logs.min(), "most": logs.max()}
    figures = {name: float(np.exp(value)) for name, value in named.items()}
    return {**figures, "wins": int((logs < 0).sum()), "pairs": logs.size}
