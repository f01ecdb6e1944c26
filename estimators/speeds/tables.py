"""Tables of measured speeds: read, checked, and returned with their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_NUMBER
from apportion.errors import InputError, unknown_name, written
from apportion.estimators.speeds.columns import SpeedColumns
from apportion.table_checks import as_floats, check_unique, float_array

if TYPE_CHECKING:
    from collections.abc import Hashable

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
