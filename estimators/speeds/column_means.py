"""The plainest prediction of speeds: what references make in the mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from apportion.estimators.speeds.of_tables import CompletesTables, nothing_to_learn

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import NDArray

    from apportion.estimators.speeds.tables import SpeedTable

    Floats = NDArray[np.float64]

__all__ = ["ColumnMeans"]


class ColumnMeans(CompletesTables):
    """Predict for every row the geometric mean of each column over the references.

    Nothing of a row changes what is predicted for its other cells: this is what `SpeedModel` is to
    be compared with. A column that no reference was measured on gets 0.8 ln g above the mean.

    Parameters
    ----------
    columns
        Labels of the columns, see `SpeedModel`.
    """

    def __init__(self, columns: Iterable[Hashable] | None = None) -> None:
        self.columns = columns

    def fit(self, table: Any, y: None = None) -> Self:
        """Learn from reference jobs, see `SpeedModel.fit`.

        Raises
        ------
        InputError
            For what is no table of finite numbers >= 0, and a table without a number.
        """
        read = self._read_table(table)
        known = ~np.isnan(read.logs)
        if not known.any():
            raise nothing_to_learn()
        count, total = known.sum(axis=0), np.where(known, read.logs, 0.0).sum(axis=0)
        usual = read.columns.usual
        level = np.where(known, read.logs - usual, 0.0).sum() / known.sum()
        self._mean = np.where(count > 0, total / np.maximum(count, 1), usual + level)
        self._learnt(read.columns)
        return self

    def _guess(self, read: SpeedTable) -> Floats:
        return np.asarray(np.exp(self._mean), dtype=float)
