r"""What the references of a row's family say of it, before it is measured.

Deviations are those of the family and the row's own, :math:`f = a + g` with
:math:`a \sim N(0, \lambda S)` and :math:`g \sim N(0, (1 - \lambda) S)`. Where n references of the
family have the mean deviation :math:`\bar f`, a further row of it has

.. math:: f \sim N\Bigl(q \bar f,\; (1 - \lambda q) S\Bigr), \qquad
    q = \frac{n \lambda}{n \lambda + 1 - \lambda},

in place of N(0, S), and its references are those of the family. :math:`\lambda` is chosen by the
likelihood of every reference given the others of its family.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.estimators.speeds.prior import deviations_of, log_density, referred_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.estimators.speeds.prior import Mask, SpeedPrior
    from apportion.types import Floats, Ints

_ALIKE = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)
_USUALLY_ALIKE = 0.6
"""Share of the variance that families have in common, where no family has two references."""

_CELLS_OF_RATIO = 2


def priors_of_families(
    prior: SpeedPrior, rows: Floats, families: Sequence[str], imitated: Mask | None = None
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
