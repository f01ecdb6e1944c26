from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from apportion.estimators.speeds.prior import SpeedPrior, posterior

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def drawn_prior(rng: np.random.Generator, columns: int) -> SpeedPrior:
    factors = rng.normal(size=(columns, 3))
    covariance = 0.1 * factors @ factors.T + 0.02 * np.eye(columns)
    return SpeedPrior(rng.normal(size=columns), covariance, 2.5, 0.07)


def from_the_definition(prior: SpeedPrior, row: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Condition one row on differences of its measurements.

    The scale is in no difference. Every cell is wanted relative to the first measured one, which
    holds its own error.
    """
    size, seen = len(row), np.flatnonzero(counts)
    first = seen[0]
    # Unknowns: deviations of all cells, then errors of the measured ones.
    differences = np.zeros((len(seen) - 1, size + len(seen)))
    for line, cell in enumerate(seen[1:]):
        differences[line, [cell, first]] = 1.0, -1.0
        differences[line, size + line + 1], differences[line, size] = 1.0, -1.0
    wanted = np.hstack([np.eye(size), np.zeros((size, len(seen)))])
    wanted[:, first] -= 1.0
    wanted[:, size] -= 1.0
    errors = np.diag(prior.noise**2 / counts[seen])
    own, ratios = prior.covariance, prior.mean
    joint = np.block([[own, np.zeros((size, len(seen)))], [np.zeros((len(seen), size)), errors]])
    inner = differences @ joint @ differences.T
    across = wanted @ joint @ differences.T
    surprise = row[seen[1:]] - row[first] - (ratios[seen[1:]] - ratios[first])
    gain = np.linalg.solve(inner, across.T).T if len(surprise) else across
    mean = row[first] + ratios - ratios[first] + gain @ surprise
    return mean, np.sqrt(np.diag(wanted @ joint @ wanted.T - gain @ across.T))


@pytest.mark.thorough
def test_equals_brute_force_conditioning_over_random_masks() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        columns = int(rng.integers(2, 13))
        prior = drawn_prior(rng, columns)
        rows = rng.normal(size=(6, columns)) + 10 * rng.normal(size=(6, 1))
        many = np.where(rng.random(rows.shape) < 0.5, rng.integers(1, 4, rows.shape), 0)
        # A mask that several rows share, and one with every cell.
        many[1], many[2] = many[0], rng.integers(1, 3, columns)
        counts = many.astype(float)
        mean, sd = posterior(prior, rows, counts)
        for row in np.flatnonzero((counts > 0).sum(axis=1) >= 2):
            expected = from_the_definition(prior, rows[row], counts[row])
            np.testing.assert_allclose(mean[row], expected[0], atol=1e-9)
            np.testing.assert_allclose(sd[row], expected[1], atol=1e-7)


def test_one_measurement_tells_the_scale_and_no_ratio() -> None:
    prior = drawn_prior(np.random.default_rng(1), 5)
    counts = np.array([[0.0, 0, 2, 0, 0]])
    mean, sd = posterior(prior, np.full((1, 5), 7.0), counts)
    np.testing.assert_allclose(mean[0], 7.0 + prior.mean - prior.mean[2], atol=1e-12)
    own = prior.covariance
    apart = np.diag(own) + own[2, 2] - 2 * own[2] + prior.noise**2 / 2
    np.testing.assert_allclose(sd[0], np.sqrt(apart))


def test_without_a_measurement_the_references_scale_stands_in() -> None:
    prior = drawn_prior(np.random.default_rng(2), 4)
    mean, sd = posterior(prior, np.zeros((2, 4)), np.zeros((2, 4)))
    np.testing.assert_allclose(mean, np.tile(prior.mean + 2.5, (2, 1)))
    np.testing.assert_allclose(sd, np.tile(np.sqrt(np.diag(prior.covariance)), (2, 1)))


@pytest.mark.parametrize("count", [0, 1, 300])
def test_rows_do_not_hang_on_each_other(count: int) -> None:
    rng = np.random.default_rng(4)
    prior = drawn_prior(rng, 8)
    rows, counts = rng.normal(size=(count, 8)), rng.integers(0, 3, (count, 8)).astype(float)
    mean, sd = posterior(prior, rows, counts)
    assert mean.shape == sd.shape == rows.shape
    for row in range(0, count, 50):
        alone = posterior(prior, rows[row : row + 1], counts[row : row + 1])
        np.testing.assert_allclose(mean[row], alone[0][0], atol=1e-12)
        np.testing.assert_allclose(sd[row], alone[1][0], atol=1e-9)
