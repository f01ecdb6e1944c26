"""Samples of traffic as tables and files have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import file_path, label
from apportion.errors import InputError, written
from apportion.sim.network.samples.boxes import Readings
from apportion.whole_files import restored

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.types import Floats


GAP = 1.5
"""Times the usual distance between two samples, above which samples between them are missing."""

HEADER = "a column 'time' and one of Gb/s for each job, or the columns 'time', 'job' and 'gbps'"


def counts_of(samples: pd.DataFrame | str | Path) -> dict[str, Readings]:
    """Return the mean rates of each job and the intervals that they are of.

    Raises
    ------
    InputError
        For a file that cannot be read, columns that are missing, and cells that are no time or no
        rate; it names file and line.
    """
    if isinstance(samples, pd.DataFrame):
        name, first = "samples", 0
        table = samples.rename(columns=str)
    else:
        name, first = str(samples), 2
        table = _read(file_path("The samples", samples), name)
    table = table.rename(columns={each: each.strip() for each in table.columns})
    twice = table.columns[table.columns.duplicated()].tolist()
    if twice:
        raise InputError(f"{name} has two columns {twice[0]!r}; each job has one.")
    if "time" not in table.columns:
        shown = ", ".join(map(repr, table.columns[:8]))
        raise InputError(f"{name} has no column 'time' (it has {shown}); it needs {HEADER}.")
    time_s = _times(name, table["time"], first)
    jobs = [each for each in table.columns if each != "time"]
    if {"job", "gbps"} & set(jobs):
        if set(jobs) != {"job", "gbps"}:
            raise InputError(f"{name} has the columns {', '.join(jobs)}; it needs {HEADER}.")
        return _long(name, table, time_s, first)
    if not jobs:
        raise InputError(f"{name} has no column of a job; it needs {HEADER}.")
    lines = np.arange(len(table)) + first
    return {
        label("job", job): _counts(name, job, time_s, _rates(name, job, table[job], first), lines)
        for job in jobs
    }


def _read(file: Path, name: str) -> pd.DataFrame:
    try:
        return pd.read_csv(
            file, dtype=str, skipinitialspace=True, keep_default_na=False, encoding="utf-8-sig"
        )
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"Cannot read the samples {name!r}: {str(error).strip()}.") from error


def _long(name: str, table: pd.DataFrame, time_s: Floats, first: int) -> dict[str, Readings]:
    texts = restored(table["job"].astype(str))
    rates = _rates(name, "gbps", table["gbps"], first)
    lines = np.arange(len(table)) + first
    return {
        label("job", job): _counts(name, job, time_s[rows], rates[rows], lines[rows])
        for job, rows in (
            (each, np.flatnonzero(texts.to_numpy() == each)) for each in dict.fromkeys(texts)
        )
    }


def _times(name: str, cells: pd.Series, first: int) -> Floats:
    """Seconds: of numbers as they are, of dates since the first of them."""
    numbers = pd.to_numeric(cells, errors="coerce")
    if numbers.notna().all():
        found = numbers.to_numpy(float)
    else:
        dates = pd.to_datetime(cells, errors="coerce", format="ISO8601", utc=True)
        if dates.notna().any() and numbers.notna().sum() < dates.notna().sum():
            numbers = dates
        wrong = np.flatnonzero(numbers.isna())
        if wrong.size:
            shown = written(cells.iloc[wrong[0]])
            raise InputError(
                f"{name}, {_line(wrong[0] + first, first)}: the time is {shown}; it must be "
                "seconds, or a date with a time like 2026-01-31T12:00:00.25, as in all lines."
            )
        found = (dates - dates.min()).dt.total_seconds().to_numpy(float)
    wrong = np.flatnonzero(~np.isfinite(found))
    if wrong.size:
        raise InputError(f"{name}, {_line(wrong[0] + first, first)}: the time is not finite.")
    return np.asarray(found, dtype=float)


def _rates(name: str, column: str, cells: pd.Series, first: int) -> Floats:
    """Gb/s, NaN where a cell is empty."""
    empty = cells.isna() | cells.astype(str).str.strip().isin(("", "nan", "NaN", "NA", "null"))
    numbers = pd.to_numeric(cells.where(~empty), errors="coerce").to_numpy(float)
    wrong = np.flatnonzero(~empty.to_numpy() & ~(np.isfinite(numbers) & (numbers >= 0)))
    if wrong.size:
        raise InputError(
            f"{name}, {_line(wrong[0] + first, first)}: {column!r} is "
            f"{written(cells.iloc[wrong[0]])}; it must be Gb/s, 0 or more (empty if missing)."
        )
    return numbers


def _counts(name: str, job: str, time_s: Floats, gbps: Floats, lines: Any) -> Readings:
    """Put samples in order; each is of the time since the one before, if none is missing there."""
    there = np.isfinite(gbps)
    time_s, gbps, lines = time_s[there], gbps[there], lines[there]
    order = np.argsort(time_s, kind="stable")
    time_s, gbps, lines = time_s[order], gbps[order], lines[order]
    apart = np.diff(time_s)
    if (apart <= 0).any():
        twice = int(np.argmax(apart <= 0))
        raise InputError(
            f"{name}: the job {job!r} has two samples at {time_s[twice]:g} s (row {lines[twice]} "
            f"and {lines[twice + 1]}); one time has one rate."
        )
    if not apart.size:
        return Readings(time_s - 1.0, time_s, gbps)
    usual_s = float(np.median(apart))
    length_s = np.concatenate([[usual_s], apart])
    length_s[length_s > GAP * usual_s] = usual_s
    return Readings(time_s - length_s, time_s, gbps)


def _line(place: int, first: int) -> str:
    return f"line {place}" if first else f"row {place}"
