"""How rows that are measured bit by bit are completed: by the prior, or by any other model."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_NUMBER
from apportion.errors import InputError, written
from apportion.estimators.speeds.families import priors_of_families
from apportion.estimators.speeds.model import SpeedModel
from apportion.estimators.speeds.of_tables import CompletesTables
from apportion.estimators.speeds.posterior import posterior
from apportion.estimators.speeds.prior import SpeedPrior, learn_prior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.estimators.speeds.columns import SpeedColumns
    from apportion.types import Floats

    Mask = NDArray[np.bool_]

ANY = ""
"""Family of rows of which it is not known."""


class Completion(Protocol):
    """Completes rows of logarithms of speeds."""

    def fit(self, rows: Floats, families: Sequence[str], imitated: Mask | None = None) -> None:
        """Learn from rows, NaN where not measured; of those imitated others may be copies."""
        ...

    def estimate(self, logs: Floats, counts: Floats, family: str = ANY) -> tuple[Floats, Floats]:
        """Mean and standard deviation of rows of which some cells were measured so many times.

        They are rows of one family; of one that was never seen, or "", nothing is known before.
        """
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

    _priors: dict[str, SpeedPrior]

    def __init__(self, columns: SpeedColumns, noise: float) -> None:
        self._columns, self._noise = columns, noise

    def fit(self, rows: Floats, families: Sequence[str], imitated: Mask | None = None) -> None:
        prior = learn_prior(rows, self._columns, self._noise, imitated)
        self._priors = {ANY: prior}
        if any(families):
            self._priors |= priors_of_families(prior, rows, families, imitated)

    def estimate(self, logs: Floats, counts: Floats, family: str = ANY) -> tuple[Floats, Floats]:
        return posterior(self._priors.get(family, self._priors[ANY]), logs, counts)

    def state(self) -> Any:
        return {name: prior.state() for name, prior in self._priors.items()}

    def restore(self, state: Any) -> None:
        size = len(self._columns)
        self._priors = {
            name: SpeedPrior.of_state(prior, size, self._noise) for name, prior in state.items()
        }


class _ByModel:
    """Any other model: measured cells are what they are, and the rest has no deviation.

    Of a family it learns from the rows of the family alone.
    """

    def __init__(self, model: Any, columns: SpeedColumns, noise: float) -> None:
        self._model, self._columns, self._noise = model, columns, noise

    def fit(self, rows: Floats, families: Sequence[str], imitated: Mask | None = None) -> None:
        self._rows, self._families = rows, list(families)
        named = np.array(self._families, dtype=object)
        self._fitted = {ANY: self._fit(rows)}
        for name in sorted({*self._families} - {ANY}):
            own = rows[named == name]
            if not np.isnan(own).all():
                self._fitted[name] = self._fit(own)

    def estimate(self, logs: Floats, counts: Floats, family: str = ANY) -> tuple[Floats, Floats]:
        measured = counts > 0
        if not len(logs):
            return logs, logs
        model, scale = self._fitted.get(family, self._fitted[ANY])
        guess = self._predicted(model, np.where(measured, logs, np.nan))
        guess = guess + np.where(measured.any(axis=1, keepdims=True), 0.0, scale)
        sd = np.where(measured, self._noise / np.sqrt(np.maximum(counts, 1e-12)), 0.0)
        return np.where(measured, logs, guess), sd

    def state(self) -> Any:
        rows = [[None if np.isnan(cell) else cell for cell in row] for row in self._rows.tolist()]
        return {"rows": rows, "families": self._families}

    def restore(self, state: Any) -> None:
        rows = np.array(state["rows"], dtype=np.float64).reshape(-1, len(self._columns))
        self.fit(rows, state["families"])

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
