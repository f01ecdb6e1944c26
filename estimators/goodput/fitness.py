"""One number for the speed-ups of all jobs: their power mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.checks import as_float
from apportion.errors import InputError, written

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def fitness(speedups: ArrayLike, p: float = -1.0) -> float:
    r"""Power mean of speed-ups, :math:`(\frac{1}{J} \sum_j s_j^p)^{1/p}` (Pollux's FITNESS).

    Parameters
    ----------
    speedups
        Of each job, >= 0, at least one.
    p
        At most 1: 1 is the plain mean, 0 the geometric one, -1 the harmonic one, and minus infinity
        the worst job's speed-up.

    Returns
    -------
    float
        0 where a job has no speed-up and p <= 0.

    Raises
    ------
    InputError
        For p above 1, which would reward giving everything to whoever is fastest already, and for
        speed-ups that are no numbers >= 0.
    """
    power = as_float(p)
    if not power <= 1:
        raise InputError(
            f"p is {written(p)}; it must be a number <= 1: above 1, FITNESS grows by taking GPUs "
            f"from the jobs that are worst off."
        )
    values = np.asarray(speedups, dtype=np.float64).ravel()
    if not values.size or not np.all((values >= 0) & np.isfinite(values)):
        raise InputError("FITNESS needs at least one speed-up, all of them numbers >= 0.")
    least, most = float(values.min()), float(values.max())
    if power == -np.inf or least == most or (least == 0 and power <= 0):
        return least
    if power == 0:
        return float(np.exp(np.mean(np.log(values))))
    # Relative to the largest term: powers of speed-ups overflow under a p far below 0.
    scale = least if power < 0 else most
    return float(scale * np.mean((values / scale) ** power) ** (1.0 / power))
