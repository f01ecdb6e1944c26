"""How rows that are measured bit by bit are completed: by the prior, or by any other model."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_NUMBER
from apportion.errors import InputError, written
from apportion.estimators.speeds.model import SpeedModel
from apportion.estimators.speeds.posterior import posterior
from apportion.estimators.speeds.prior import SpeedPrior, learn_prior
from apportion.estimators.speeds.tables import CompletesTables

if TYPE_CHECKING:
    from apportion.estimators.speeds.columns import SpeedColumns
    from apportion.types import Floats


class Completion(Protocol):
    """Completes rows of logarithms of speeds."""

    def fit(self, rows: Floats) -> None:
        """Learn from rows, NaN where not measured."""
        ...

    def estimate(self, logs: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of rows of which some cells were measured so many times."""
        ...

    def state(self) -> Any:
        """Return what was learnt, for JSON."""
        ...

    def restore(self, state: Any) -> None:
        """Take up a state of `state`; KeyError, TypeError or ValueError if it is none."""
        ...


def completion_by(model: Any, columns: SpeedColumns, noise: float) -> Completion:
    """Return the completion by a model with the calls of `SpeedModel`.

    Raises
    ------
    InputError
        For what has no `fit` and `predict`.
    """
    if model is None or isinstance(model, SpeedModel):
        return _ByPrior(columns, noise)
    if isinstance(model, type) or not (hasattr(model, "fit") and hasattr(model, "predict")):
        raise InputError(
            f"model is {written(model)}; it must have fit and predict as SpeedModel() has, such "
            f"as ImputedSpeeds() or ColumnMeans()."
        )
    return _ByModel(model, columns, noise)


class _ByPrior:
    """The model of `SpeedModel`, measured cells weighed by how often they were measured."""

    _prior: SpeedPrior

    def __init__(self, columns: SpeedColumns, noise: float) -> None:
        self._columns, self._noise = columns, noise

    def fit(self, rows: Floats) -> None:
        self._prior = learn_prior(rows, self._columns, self._noise)

    def estimate(self, logs: Floats, counts: Floats) -> tuple[Floats, Floats]:
        return posterior(self._prior, logs, counts)

    def state(self) -> Any:
        return self._prior.state()

    def restore(self, state: Any) -> None:
        self._prior = SpeedPrior.of_state(state, len(self._columns), self._noise)


class _ByModel:
    """Any other model: measured cells are what they are, and the rest has no deviation."""

    def __init__(self, model: Any, columns: SpeedColumns, noise: float) -> None:
        self._model, self._columns, self._noise = model, columns, noise

    def fit(self, rows: Floats) -> None:
        self._rows, self._fitted = rows, self._fit(rows)

    def estimate(self, logs: Floats, counts: Floats) -> tuple[Floats, Floats]:
        measured = counts > 0
        if not len(logs):
            return logs, logs
        model, scale = self._fitted
        guess = self._predicted(model, np.where(measured, logs, np.nan))
        guess = guess + np.where(measured.any(axis=1, keepdims=True), 0.0, scale)
        sd = np.where(measured, self._noise / np.sqrt(np.maximum(counts, 1e-12)), 0.0)
        return np.where(measured, logs, guess), sd

    def state(self) -> Any:
        rows = [[None if np.isnan(cell) else cell for cell in row] for row in self._rows.tolist()]
        return {"rows": rows}

    def restore(self, state: Any) -> None:
        self.fit(np.array(state["rows"], dtype=np.float64).reshape(-1, len(self._columns)))

    def _fit(self, rows: Floats) -> tuple[Any, float]:
        """Return a model of rows, and their mean scale: that of rows that nobody measured."""
        model = deepcopy(self._model)
        model.fit(self._table(rows))
        rest = rows - self._predicted(model, np.full((1, len(self._columns)), np.nan))
        known = ~np.isnan(rest)
        of_rows = np.where(known, rest, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        return model, float(of_rows[known.any(axis=1)].mean())

    def _predicted(self, model: Any, logs: Floats) -> Floats:
        """Logarithms of what the model predicts of rows."""
        # Models of the package take arrays too, which is much quicker.
        rows = np.exp(logs) if isinstance(model, CompletesTables) else self._table(logs)
        filled = np.asarray(model.predict(rows), dtype=np.float64)
        return np.log(np.maximum(filled, 1.0 / LARGEST_NUMBER))

    def _table(self, logs: Floats) -> pd.DataFrame:
        return pd.DataFrame(np.exp(logs), columns=self._columns.index())
