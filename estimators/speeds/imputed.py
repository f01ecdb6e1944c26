"""Speeds completed by an imputer of matrices, or by means of columns, called as `SpeedModel`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from apportion.checks import LARGEST_NUMBER
from apportion.errors import InputError, written
from apportion.estimators.gaussian import MixtureImputer
from apportion.estimators.imputer import BaseImputer
from apportion.estimators.speeds.tables import CompletesTables, nothing_to_learn
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from apportion.estimators.speeds.tables import SpeedTable
    from apportion.types import Floats


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


_SWEEPS = 50


class ImputedSpeeds(CompletesTables):
    r"""Predict steps/s by a scale for every row, a ratio for every column, and an imputer.

    Logarithms of speeds are :math:`b_i + \mu_c` by least squares, and what is left of them is
    completed by the imputer. `SpeedModel` is more exact nearly everywhere (see the documentation);
    this is what it is to be compared with.

    Parameters
    ----------
    imputer
        A `BaseImputer`, `MixtureImputer` by default; ``"additive"`` for none: what is left is 0.
    columns
        Labels of the columns, see `SpeedModel`.
    """

    def __init__(
        self,
        imputer: BaseImputer | str | None = None,
        columns: Iterable[Hashable] | None = None,
    ) -> None:
        self.imputer = imputer
        self.columns = columns

    @one_thread
    def fit(self, table: Any, y: None = None) -> Self:
        """Learn from reference jobs, see `SpeedModel.fit`.

        Raises
        ------
        InputError
            For what is no table of finite numbers >= 0, and a table without a number.
        """
        imputer = MixtureImputer() if self.imputer is None else self.imputer
        plain = isinstance(imputer, str) and imputer == "additive"
        if not (plain or isinstance(imputer, BaseImputer)):
            raise InputError(
                f"imputer is {written(imputer)}; it must be an imputer of this package such as "
                f"MixtureImputer(), or 'additive'."
            )
        read = self._read_table(table)
        rows = read.logs[~np.isnan(read.logs).all(axis=1)]
        if not len(rows):
            raise nothing_to_learn()
        self._ratios = _ratios(rows, read.columns.usual)
        self._imputer = imputer if isinstance(imputer, BaseImputer) else None
        if self._imputer is not None:
            rest = rows - self._ratios
            rest = rest - np.nanmean(rest, axis=1, keepdims=True)
            # References with holes are as the ratios say there: mixtures need complete rows.
            mixed = isinstance(imputer, MixtureImputer)
            self._imputer.fit(np.nan_to_num(rest) if mixed else rest)
        self._learnt(read.columns)
        return self

    def _guess(self, read: SpeedTable) -> Floats:
        rest = read.logs - self._ratios
        many = np.count_nonzero(~np.isnan(rest), axis=1)
        scale = np.nan_to_num(rest).sum(axis=1, keepdims=True) / np.maximum(many, 1)[:, None]
        guess = np.broadcast_to(scale + self._ratios, rest.shape)
        if self._imputer is not None and len(rest):
            guess = guess + self._imputer.transform(rest - scale)
        return np.asarray(np.exp(np.minimum(guess, np.log(LARGEST_NUMBER))), dtype=float)


def _ratios(rows: Floats, usual: Floats) -> Floats:
    """Ratios between columns by least squares; the usual ones for columns nobody measured."""
    known = ~np.isnan(rows)
    filled, count = np.where(known, rows, 0.0), known.sum(axis=0)
    ratios = usual
    for _ in range(_SWEEPS):
        scale = np.where(known, filled - ratios, 0.0).sum(axis=1) / known.sum(axis=1)
        total = np.where(known, filled - scale[:, None], 0.0).sum(axis=0)
        ratios = np.where(count > 0, total / np.maximum(count, 1), usual)
    return np.asarray(ratios, dtype=np.float64)
