from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from tests.estimators.speeds.drawn import COLUMNS, drawn_covariance, drawn_rows, with_holes

from apportion.estimators.speeds import SpeedColumns
from apportion.estimators.speeds.prior import learn_prior

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NOISE = 0.05


def drawn_table(seed: int, count: int, share: float = 0.3) -> Floats:
    rng = np.random.default_rng(seed)
    columns = SpeedColumns.of(COLUMNS)
    covariance = np.tensordot([0.2, 0.02, 0.005, 0.01], columns.terms(), axes=1)
    _, rows = drawn_rows(rng, count, covariance, columns.usual, NOISE)
    return with_holes(rng, rows, share, least=3)


@pytest.mark.thorough
def test_the_covariance_is_where_its_posterior_is_highest() -> None:
    """Against the density itself: covariances nearby are less likely, 12 rows of prior included."""
    rng = np.random.default_rng(5)
    columns = SpeedColumns.of(COLUMNS[:5])
    structured = np.tensordot([0.1, 0.01, 0.01, 0.02], columns.terms(), axes=1)
    truth = drawn_covariance(rng, 5)
    _, rows = drawn_rows(rng, 200, truth, columns.usual, NOISE)
    rows = with_holes(rng, rows, 0.3, least=3)
    prior = learn_prior(rows, columns, NOISE)
    mean, covariance = prior.mean, prior.covariance / (1 + 1 / len(rows))

    def density(candidate: Floats) -> float:
        value = -6.0 * np.linalg.slogdet(candidate)[1]
        value -= 6.0 * np.trace(np.linalg.solve(candidate, structured))
        for row in rows:
            cells = np.flatnonzero(~np.isnan(row))
            step = np.eye(len(cells))[1:] - np.eye(len(cells))[:1]
            inner = candidate[np.ix_(cells, cells)] + NOISE**2 * np.eye(len(cells))
            normal = multivariate_normal(step @ mean[cells], step @ inner @ step.T)
            value += normal.logpdf(step @ row[cells])
        return float(value)

    highest = density(covariance)
    for _ in range(20):
        noise = rng.normal(size=(5, 5))
        change = 0.1 * (noise @ covariance + covariance @ noise.T)
        assert density(covariance + change @ np.linalg.inv(covariance) @ change / 4 + change) < (
            highest + 0.02
        )


@pytest.mark.thorough
def test_learnt_ratios_and_covariance_come_near_the_truth() -> None:
    rng = np.random.default_rng(6)
    columns = SpeedColumns.of(COLUMNS)
    truth, mean = drawn_covariance(rng), columns.usual + rng.normal(size=12)
    _, rows = drawn_rows(rng, 2000, truth, mean, NOISE)
    prior = learn_prior(rows, columns, NOISE)
    centre = np.eye(12) - 1 / 12
    np.testing.assert_allclose(centre @ prior.mean, centre @ mean, atol=0.06)
    error = np.abs(centre @ (prior.covariance - truth) @ centre).max()
    assert error < 0.1 * np.abs(centre @ truth @ centre).max()


def test_without_references_the_usual_scaling_stands_in() -> None:
    columns = SpeedColumns.of(COLUMNS)
    prior = learn_prior(np.empty((0, 12)), columns, NOISE)
    assert isinstance(columns.log_sheets, np.ndarray)
    bandwidth = np.log(np.repeat([900, 732, 240], 4))
    centred = bandwidth - bandwidth.mean()
    np.testing.assert_allclose(prior.mean, centred + 0.8 * np.log([1, 2, 4, 8] * 3))
    expected = np.tensordot([0.1, 0.01, 0.01, 0.02], columns.terms(), axes=1)
    np.testing.assert_allclose(prior.covariance, expected)
    assert prior.scale == 0.0


def test_two_references_teach_ratios() -> None:
    columns = SpeedColumns.of(COLUMNS)
    rows = drawn_table(7, 2, share=0.0)
    prior = learn_prior(rows, columns, NOISE)
    pull = np.corrcoef(prior.mean, rows.mean(axis=0))[0, 1]
    assert pull > np.corrcoef(columns.usual, rows.mean(axis=0))[0, 1]
