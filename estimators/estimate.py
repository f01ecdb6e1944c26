"""What an estimator would know of an oracle of which only a share was measured, and how wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.annotations import checked
from apportion.checks import is_number, listed, number, whole
from apportion.checks import seed as check_seed
from apportion.errors import InputError
from apportion.estimators.interference import InterferenceEstimator
from apportion.pairs import PairThroughputs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.types import Floats, Ints


_MOST_NOISE = 10.0
"""Most standard deviations of a logarithm: beyond it, measurements say nothing."""


@checked
def estimate_pairs(
    oracle: PairThroughputs,
    references: int | Iterable[tuple[str, int]],
    measured_share: float,
    seed: int = 0,
    *,
    estimator: InterferenceEstimator | None = None,
    noise: float = 0.0,
) -> PairThroughputs:
    """Replace the pair throughputs of an oracle by estimates from a share of its cells.

    A job of any type comes as a new job, those of the references too, as in Gavel's simulations.

    Parameters
    ----------
    oracle
        The truth. Pairs of unequal scale factors are left out: 0.
    references
        How many job types of each scale factor to draw as references, or their keys.
    measured_share
        Probability that a new job was measured beside a reference on an accelerator.
    seed
        Draws references and measurements; a larger share measures the same cells and more.
    estimator
        `InterferenceEstimator` with its defaults if left out.
    noise
        Standard deviation of the logarithm of measurements.

    Returns
    -------
    PairThroughputs
        The keys, accelerators and isolated throughputs of the oracle.

    Raises
    ------
    InputError
        For a share outside [0, 1] and references that are not in the oracle or too few.
    """
    number("measured_share", measured_share, most=1.0)
    number("noise", noise, most=_MOST_NOISE)
    check_seed(seed)
    estimator = InterferenceEstimator() if estimator is None else estimator
    count, given = 0, None
    if is_number(references):
        count = whole("references", references, 1)
    else:
        keys = listed("references", references, "a number, or keys (job type, scale factor)")
        given = oracle.keys.isin(oracle.select(keys).keys)
    normalized = oracle.normalized()
    estimate = np.zeros_like(normalized)
    gangs = oracle.keys.get_level_values(1).to_numpy()
    for gang in np.unique(gangs):
        rng = np.random.default_rng([seed, int(gang)])
        rows = np.flatnonzero(gangs == gang)
        if given is None:
            known = np.sort(rng.permutation(rows.size)[:count])
        else:
            known = np.flatnonzero(given[rows])
        if not known.size:
            raise InputError(f"There is no reference job type with scale factor {gang}.")
        block = np.ix_(rows, rows)
        estimate[block] = estimate_normalized(
            normalized[block], known, measured_share, rng, estimator, noise
        )
    runs = oracle.alone > 0
    own = estimate * oracle.alone[:, None] * (runs[:, None] & runs[None, :])
    return PairThroughputs(own, oracle.alone, oracle.keys, oracle.accelerators)


def estimate_normalized(
    truth: Floats,
    references: Ints,
    measured_share: float,
    rng: np.random.Generator,
    estimator: InterferenceEstimator,
    noise: float = 0.0,
) -> Floats:
    """Estimate normalised pair throughputs from a share of their cells; fits the estimator.

    Parameters
    ----------
    truth
        Normalised pair throughputs, shape (job types, job types, accelerators).
    references
        Positions of the references.
    measured_share, rng, estimator, noise
        As in `estimate_pairs`.

    Returns
    -------
    NDArray[np.float64]
        Estimates, the shape of `truth`.
    """
    own, other = draw_measurements(truth, references, measured_share, rng, noise)
    estimator.fit(truth[np.ix_(references, references)], own, other)
    return estimator.predict()[references.size :, references.size :]


def draw_measurements(
    truth: Floats,
    references: Ints,
    share: float,
    rng: np.random.Generator,
    noise: float = 0.0,
) -> tuple[Floats, Floats]:
    """Draw which cells of a new job of each type are measured, and what is read there.

    Parameters
    ----------
    truth
        Normalised pair throughputs, shape (job types, job types, accelerators).
    references
        Positions of the references.
    share
        Probability that a cell (new job, reference, accelerator) is measured.
    rng
        Source of randomness.
    noise
        Standard deviation of the logarithm of what is read.

    Returns
    -------
    own, other
        What is read of the new job and of the reference, shape (job types, references,
        accelerators); NaN where not measured.
    """
    number("The measured share", share, most=1.0)
    number("noise", noise, most=_MOST_NOISE)
    own = truth[:, references]
    other = truth[references].transpose(1, 0, 2)
    measured = rng.random(own.shape) < share
    factor = np.exp(noise * rng.standard_normal((2, *own.shape)))
    return (
        np.where(measured, own * factor[0], np.nan),
        np.where(measured, other * factor[1], np.nan),
    )


def interference_errors(estimate: Floats, truth: Floats) -> dict[str, float]:
    """Errors of normalised pair throughputs, over ordered pairs and accelerators.

    Returns
    -------
    dict
        ``mae`` and ``rmse``, mean absolute and root mean square error; ``pack_agreement``, the
        share of cells where estimate and truth agree on whether sharing beats taking turns (the
        sum of both members is above 1).
    """
    if np.shape(estimate) != np.shape(truth) or np.ndim(truth) != 3:
        raise InputError(
            f"Estimate {np.shape(estimate)} and truth {np.shape(truth)} must have one shape, "
            f"(keys, keys, accelerators)."
        )
    error = estimate - truth
    packs = [values + values.transpose(1, 0, 2) > 1.0 for values in (estimate, truth)]
    return {
        "mae": float(np.mean(np.abs(error))),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "pack_agreement": float(np.mean(packs[0] == packs[1])),
    }
