"""Tables and labels from outside, checked in one place; see `apportion.checks`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import as_float, is_truth, read_number
from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from apportion.types import Floats

logger = logging.getLogger(__name__)


def table(name: str, value: Any, rows: str = "jobs") -> pd.DataFrame:
    """Return a DataFrame."""
    if not isinstance(value, pd.DataFrame):
        raise InputError(
            f"{name} must be a pandas DataFrame with a row for each of the {rows}, not "
            f"{type(value).__name__}."
        )
    return value


def array_of(name: str, values: Any, dimensions: int) -> Floats:
    """Return an array of numbers with so many dimensions."""
    array = float_array(name, values)
    if array.ndim != dimensions:
        shape = "a list of numbers" if dimensions == 1 else f"an array of {dimensions} dimensions"
        raise InputError(f"{name} must be {shape}; its shape is {array.shape}.")
    return array


def check_columns(name: str, value: Any, columns: Iterable[str]) -> pd.DataFrame:
    """Return a DataFrame that has some columns, or name the first that is not there."""
    given = table(name, value, "rows")
    for column in columns:
        if column not in given.columns:
            raise InputError(f"{name} has no column {column!r}; it needs {', '.join(columns)}.")
    return given


UNIX_S = 1e8
"""Arrivals from here on, March of 1973, are Unix times: no workload begins after three years."""


def from_the_first(what: str, arrival_s: Floats) -> Floats:
    """Return arrivals in seconds from the start: those since 1970 are counted from the first.

    Raises
    ------
    InputError
        For milliseconds since 1970.
    """
    first_s = float(arrival_s.min()) if arrival_s.size else 0.0
    if not first_s >= UNIX_S:
        return arrival_s
    if first_s >= 1000 * UNIX_S:
        raise InputError(
            f"{what} arrive from {first_s:g} on, which is milliseconds since 1970; arrival_s is in "
            f"seconds, from the start of the workload or since 1970."
        )
    logger.warning("%s arrive at Unix times; arrivals are counted from the first.", what)
    return arrival_s - first_s


def check_unique(what: str, index: pd.Index) -> None:
    """Raise if a label is missing, stands twice, or cannot be one (lists, mappings)."""
    try:
        unique = index.is_unique
    except TypeError as error:
        raise InputError(
            f"A {what} is a list or a mapping; it must be a text or number."
        ) from error
    if isinstance(index, pd.MultiIndex):  # which keeps a missing label as place -1
        absent = [np.asarray(code) < 0 for code in index.codes]
    else:
        absent = [np.asarray(index.isna())]
    for missing in absent:
        if missing.any():
            row = int(np.argmax(missing))
            raise InputError(f"The {what} number {row} (from 0) is missing (NaN or None).")
    if not unique:
        # Arrays as labels are equal to nothing, not even where they are counted as equal.
        twice = (index[index.duplicated()].tolist() or index.tolist())[0]
        raise InputError(f"Duplicate {what} {written(twice)}: every {what} may stand only once.")


def as_floats(
    values: pd.DataFrame | pd.Series | pd.Index | NDArray[Any], *, truths: bool = False
) -> Floats:
    """Return a column or a table as floats, NaN for whatever is no real number.

    Truth values, complex numbers, dates and times are no real numbers; texts are where they are
    written as one. Numbers that no float holds become infinite. With `truths`, True and False are 1
    and 0.
    """
    if isinstance(values, pd.DataFrame):
        if all(_plain(dtype) for dtype in values.dtypes):
            return values.to_numpy(dtype=np.float64)
        columns = [
            as_floats(values.iloc[:, column], truths=truths) for column in range(values.shape[1])
        ]
        return np.column_stack(columns) if columns else np.empty(values.shape)
    if _plain(values.dtype):
        return np.asarray(values, dtype=np.float64)
    if getattr(values.dtype, "kind", "O") in ("cmM" if truths else "bcmM"):
        return np.full(len(values), np.nan)

    def read(value: Any) -> float:
        if truths and is_truth(value):
            return float(value)
        return read_number(value) if isinstance(value, str) else as_float(value)

    return np.fromiter(map(read, values), dtype=np.float64, count=len(values))


def float_array(name: str, values: Any) -> Floats:
    """Return a copy of an array of numbers as floats; NaN and None stand for what is not known."""
    try:
        given = np.array(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` is no array of numbers: {error}.") from error
    cells = as_floats(given.ravel()).reshape(given.shape)
    if not _plain(given.dtype):
        wrong = np.isnan(cells) & ~np.asarray(pd.isna(given.astype(object)), dtype=bool)
        if wrong.any() or given.dtype.kind != "O":
            raise InputError(f"`{name}` holds something that is no number: {written(values)}.")
    return cells.copy()


def at_least_0(name: str, values: Any) -> Floats:
    """Return an array of finite numbers >= 0 as floats, or raise; arrays are not copied."""
    plain = isinstance(values, np.ndarray) and _plain(values.dtype)
    array = np.asarray(values, dtype=np.float64) if plain else float_array(name, values)
    wrong = ~((array >= 0) & (array < np.inf))
    if wrong.any():
        raise InputError(f"`{name}` holds {array[wrong][0]:g}; it must be a finite number >= 0.")
    return array


def _plain(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "iuf"


def check_numbers(kind: str, column: pd.Series, least: float, *, whole: bool = False) -> None:
    """Refuse a column with a number that is not finite, too small, or not whole as it should be.

    Parameters
    ----------
    kind
        What a row is, as messages call it.
    column
        The column, whose name and index messages tell.
    least
        The least that a number may be.
    whole
        Whether numbers must be whole.
    """
    values = as_floats(column)
    wrong = ~((values >= least) & np.isfinite(values)) | (whole & (values % 1 != 0))
    if wrong.any():
        row = column.index.tolist()[int(np.argmax(wrong))]
        raise InputError(
            f"{column.name} of {kind} {written(row)} is {written(column[wrong].iloc[0])}; it must "
            f"be a {'whole ' * whole}number >= {least:g}."
        )
