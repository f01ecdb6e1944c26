"""What models of tables of speeds have in common: reading what they are given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError
from apportion.estimators.imputer import WithOptions
from apportion.estimators.speeds.columns import SpeedColumns
from apportion.estimators.speeds.tables import read_speeds
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from apportion.estimators.speeds.tables import SpeedTable
    from apportion.types import Floats


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
