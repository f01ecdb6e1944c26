"""Tables of measured speeds, read and checked, as all models of them are given them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_NUMBER
from apportion.errors import InputError, unknown_name, written
from apportion.estimators.imputer import WithOptions
from apportion.estimators.speeds.columns import SpeedColumns
from apportion.table_checks import as_floats, check_unique, float_array
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import NDArray

    from apportion.types import Floats


@dataclass(frozen=True, eq=False)
class SpeedTable:
    """Measured speeds, rows by columns.

    Attributes
    ----------
    speeds
        Steps/s, NaN where not measured, 0 where a row cannot run.
    columns
        What the columns are.
    rows
        Labels of the rows.
    order
        The columns as they stood in what was given, places in `columns`.
    frame
        Whether a DataFrame was given.
    """

    speeds: Floats
    columns: SpeedColumns
    rows: pd.Index
    order: NDArray[np.intp]
    frame: bool

    @property
    def logs(self) -> Floats:
        """Natural logarithm of the speeds, NaN where not measured and where a row cannot run."""
        runs = self.speeds > 0
        return np.log(self.speeds, out=np.full_like(self.speeds, np.nan), where=runs)

    def like_given(self, values: Floats) -> Any:
        """Return values as what was given: an array, or a DataFrame with its labels."""
        own = values[:, self.order]
        if not self.frame:
            return own
        labels = [self.columns.labels[place] for place in self.order]
        return pd.DataFrame(own, index=self.rows, columns=SpeedColumns.of(labels).index())


def read_speeds(name: str, given: Any, columns: SpeedColumns | None) -> SpeedTable:
    """Read steps/s: a DataFrame, or an array with the columns that are known.

    Parameters
    ----------
    name
        What it is, for errors.
    given
        NaN where not measured, 0 where a row cannot run.
    columns
        The columns wanted; those that a DataFrame lacks are not measured. None for its own.

    Raises
    ------
    InputError
        For what is no table of finite numbers >= 0 and NaN, labels that stand twice, columns that
        are not known, and an array whose columns nobody has named.
    """
    if isinstance(given, pd.DataFrame):
        return _of_frame(name, given, columns)
    speeds = float_array(name, given)
    if columns is None:
        raise InputError(
            f"The columns of {name} have no names; give a DataFrame, or name them with `columns`."
        )
    if speeds.size == 0 and speeds.ndim <= 2:
        speeds = speeds.reshape(0, len(columns))
    if speeds.ndim != 2 or speeds.shape[1] != len(columns):
        raise InputError(
            f"{name} has shape {speeds.shape}; expected rows with {len(columns)} columns."
        )
    rows = pd.RangeIndex(len(speeds))
    _check(name, speeds, rows, columns)
    return SpeedTable(speeds, columns, rows, np.arange(len(columns)), False)


def _of_frame(name: str, given: pd.DataFrame, columns: SpeedColumns | None) -> SpeedTable:
    check_unique(f"row of {name}", given.index)
    own = SpeedColumns.of(given.columns)
    columns = own if columns is None else columns
    place = {label: number for number, label in enumerate(columns.labels)}
    for label in own.labels:
        if label not in place:
            raise unknown_name(f"column of {name}", label, map(written, columns.labels))
    order = np.array([place[label] for label in own.labels], dtype=np.intp)
    cells = as_floats(given)
    wrong = np.isnan(cells) & ~given.isna().to_numpy(dtype=bool)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise _refused(name, given.index[row], own.labels[column], given.iloc[row, column])
    speeds = np.full((len(given), len(columns)), np.nan)
    speeds[:, order] = cells
    _check(name, speeds, given.index, columns)
    return SpeedTable(speeds, columns, given.index, order, True)


def _check(name: str, speeds: Floats, rows: pd.Index, columns: SpeedColumns) -> None:
    """Name the first number that is no speed."""
    wrong = ~np.isnan(speeds) & ~((speeds >= 0) & (speeds <= LARGEST_NUMBER))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise _refused(name, rows[row], columns.labels[column], speeds[row, column])


def _refused(name: str, row: Hashable, column: Hashable, value: object) -> InputError:
    return InputError(
        f"{name}: row {written(row)} on {written(column)} is {written(value)}; it must be a finite "
        f"number >= 0 (steps/s), 0 where it cannot run, or NaN where it was not measured."
    )


def read_counts(given: Any, table: SpeedTable) -> Floats:
    """How many measurements each cell is the mean of: 1 where a speed is, unless told."""
    measured = table.speeds > 0
    if given is None:
        return measured.astype(np.float64)
    if isinstance(given, pd.DataFrame):
        if not given.index.equals(table.rows):
            raise InputError("`counts` must have the rows of the table of speeds.")
        given = read_speeds("counts", given, table.columns).speeds
        counts = np.nan_to_num(given)
    else:
        counts = float_array("counts", given)
        if counts.shape == (len(table.rows), len(table.order)):
            own = np.zeros(table.speeds.shape)
            own[:, table.order] = counts
            counts = own
    if counts.shape != measured.shape:
        raise InputError(f"`counts` has shape {counts.shape}; expected {measured.shape}.")
    if not (np.isfinite(counts) & (counts >= 0)).all() or (measured & (counts == 0)).any():
        raise InputError("`counts` must be finite numbers > 0 where a speed was measured.")
    return np.where(measured, counts, 0.0)


class OfTables(WithOptions):
    """A model with ``fit(table)`` and ``predict(rows)``.

    Attributes
    ----------
    columns
        Labels of the columns as given, None for those of the table.
    columns_
        Labels of the columns, after `fit`.
    """

    columns: Iterable[Hashable] | None
    columns_: tuple[Hashable, ...]
    _columns: SpeedColumns

    def _read_table(self, table: Any) -> SpeedTable:
        """Read what is to be learnt from.

        Raises
        ------
        InputError
            For what is no table of finite numbers >= 0 on columns with names.
        """
        columns = None if self.columns is None else SpeedColumns.of(self.columns)
        return read_speeds("The table of speeds", table, columns)

    def _learnt(self, columns: SpeedColumns) -> None:
        """Note the columns of what was learnt: `fit` is through."""
        self._columns, self.columns_ = columns, columns.labels

    def _read_rows(self, rows: Any) -> SpeedTable:
        """Read what is to be completed.

        Raises
        ------
        InputError
            Before `fit`, for columns that it did not see, and values that are no speeds.
        """
        if not hasattr(self, "columns_"):
            name = type(self).__name__
            verb = "has" if name.endswith("Model") else "have"
            raise InputError(f"The {name} {verb} not been fitted yet: call fit first.")
        return read_speeds("The rows", rows, self._columns)


class CompletesTables(OfTables, ABC):
    """A model that guesses each speed and does not say how sure it is."""

    @one_thread
    def predict(self, rows: Any) -> Any:
        """Complete rows; what was measured, and what cannot run (0), is returned as it is.

        Raises
        ------
        InputError
            Before `fit`, for columns that it did not see, and values that are no speeds.
        """
        read = self._read_rows(rows)
        return read.like_given(np.where(np.isnan(read.speeds), self._guess(read), read.speeds))

    @abstractmethod
    def _guess(self, read: SpeedTable) -> Floats:
        """Guess the steps/s of all cells from those that are known; broadcast over the rows."""


def nothing_to_learn() -> InputError:
    """Return the error for a table without a number."""
    return InputError("Nothing to learn from: the table of speeds has no number in it.")
