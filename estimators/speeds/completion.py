r"""How rows that are measured bit by bit are completed: by the prior, or by any other model.

References of a row's family tell of it before it is measured. Deviations are those of the family
and the row's own, :math:`f = a + g` with :math:`a \sim N(0, \lambda S)` and :math:`g \sim N(0, (1 -
\lambda) S)`. Where n references of the family have the mean deviation :math:`\bar f`, a further row
of it has

.. math:: f \sim N\Bigl(q \bar f,\; (1 - \lambda q) S\Bigr), \qquad
    q = \frac{n \lambda}{n \lambda + 1 - \lambda},

in place of N(0, S), and its references are those of the family. :math:`\lambda` is chosen by the
likelihood of every reference given the others of its family.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_NUMBER
from apportion.errors import InputError, written
from apportion.estimators.speeds.model import SpeedModel
from apportion.estimators.speeds.posterior import posterior
from apportion.estimators.speeds.prior import (
    SpeedPrior,
    deviations_of,
    learn_prior,
    log_density,
    referred_to,
)
from apportion.estimators.speeds.tables import CompletesTables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.estimators.speeds.columns import SpeedColumns
    from apportion.types import Bools, Floats, Ints


ANY = ""
"""Family of rows of which it is not known."""


class Completion(Protocol):
    """Completes rows of logarithms of speeds."""

    def fit(self, rows: Floats, families: Sequence[str], imitated: Bools | None = None) -> None:
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

    def fit(self, rows: Floats, families: Sequence[str], imitated: Bools | None = None) -> None:
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

    def fit(self, rows: Floats, families: Sequence[str], imitated: Bools | None = None) -> None:
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


_ALIKE = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)
_USUALLY_ALIKE = 0.6
"""Share of the variance that families have in common, where no family has two references."""

_CELLS_OF_RATIO = 2


def priors_of_families(
    prior: SpeedPrior, rows: Floats, families: Sequence[str], imitated: Bools | None = None
) -> dict[str, SpeedPrior]:
    """Return the prior of a row of each family.

    Parameters
    ----------
    prior
        That of a row of which the family is not known, learnt from the rows.
    rows
        Logarithms of speeds, NaN where not measured; shape (rows, columns).
    families
        Of each row.
    imitated
        As for `apportion.estimators.speeds.prior.learn_prior`.
    """
    used = np.count_nonzero(~np.isnan(rows), axis=1) >= _CELLS_OF_RATIO
    names = np.array(list(families), dtype=object)
    known, named = rows[used], names[used]
    deviations, _ = deviations_of(known, prior.mean, prior.covariance, prior.noise)
    members = {
        str(name): np.flatnonzero(named == name) for name in sorted(set(named.tolist()), key=str)
    }
    alike = _most_likely_share(prior, known, deviations, members)
    imitable = names[referred_to(rows, imitated)]
    found = {}
    for name, places in members.items():
        shift, share = _expected(deviations, places, alike)
        own = np.zeros((0, rows.shape[1]))
        if len(prior.references):
            own = prior.references[imitable == name] - shift
        found[name] = replace(
            prior,
            mean=prior.mean + shift,
            covariance=share * prior.covariance,
            references=own,
            closeness=min(prior.closeness / share, 1.0),
            scale=float(np.nanmean(known[places] - prior.mean - shift, axis=1).mean()),
        )
    return found


def _expected(deviations: Floats, members: Ints, alike: float) -> tuple[Floats, float]:
    """Mean deviation of a further row of a family, and the share of S that is left in doubt."""
    count = members.size
    told = count * alike / (count * alike + 1.0 - alike)
    return told * deviations[members].mean(axis=0), 1.0 - alike * told


def _most_likely_share(
    prior: SpeedPrior, rows: Floats, deviations: Floats, members: dict[str, Ints]
) -> float:
    r"""Choose :math:`\lambda`; the smallest where several are as likely."""
    larger = [places for places in members.values() if places.size > 1]
    if not larger:
        return _USUALLY_ALIKE
    total = np.zeros(len(_ALIKE))
    for places in larger:
        for row in places.tolist():
            known = ~np.isnan(rows[row : row + 1])
            rest = np.where(known, rows[row : row + 1] - prior.mean, 0.0)
            for index, alike in enumerate(_ALIKE):
                shift, share = _expected(deviations, places[places != row], alike)
                covariance = share * prior.covariance
                total[index] += log_density(rest, shift[None], known, covariance, prior.noise)[0, 0]
    # Equal up to rounding, whatever the order of the rows.
    best = np.flatnonzero(total >= total.max() - 1e-9 * (1 + abs(total.max())))
    return _ALIKE[int(best[0])]
