from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from tests.estimators.speeds.drawn import COLUMNS, drawn_covariance, drawn_rows, with_holes

from apportion.estimators.speeds import SpeedColumns
from apportion.estimators.speeds.prior import learn_prior
from apportion.estimators.speeds.variances import (
    DEFAULT_VARIANCES,
    Ratios,
    expectation_maximization,
    most_likely_covariance,
    restricted_likelihood,
)

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


def restricted_log_likelihood(variances: Floats, rows: Floats, columns: SpeedColumns) -> float:
    """Likelihood of all differences within rows at once, the ratios drawn from their weak prior."""
    covariance = np.tensordot(variances, columns.terms(), axes=1)
    prior = 4.0 * columns.same_accelerator + np.eye(len(columns))
    differences, ratios, blocks = [], [], []
    for row in rows:
        cells = np.flatnonzero(~np.isnan(row))
        step = np.eye(len(cells))[1:] - np.eye(len(cells))[:1]
        full = np.zeros((len(step), len(columns)))
        full[:, cells] = step
        differences.append(step @ row[cells])
        ratios.append(full)
        blocks.append(full @ covariance @ full.T + NOISE**2 * step @ step.T)
    design = np.vstack(ratios)
    joint = design @ prior @ design.T
    start = 0
    for block in blocks:
        inside = slice(start, start + len(block))
        joint[inside, inside] += block
        start += len(block)
    mean = design @ columns.usual
    return float(multivariate_normal(mean, joint).logpdf(np.concatenate(differences)))


@pytest.mark.thorough
def test_the_four_variances_are_where_the_restricted_likelihood_is_highest() -> None:
    columns = SpeedColumns.of(COLUMNS)
    for seed in range(2):
        rows = drawn_table(seed, 10)
        found = restricted_likelihood(rows, columns, NOISE)

        def loss(logs: Floats, rows: Floats = rows) -> float:
            return -restricted_log_likelihood(np.exp(logs), rows, columns)

        best = minimize(loss, np.log(DEFAULT_VARIANCES), method="Nelder-Mead", tol=1e-3)
        assert restricted_log_likelihood(found, rows, columns) > -best.fun - 0.05


@pytest.mark.thorough
def test_the_covariance_is_where_its_posterior_is_highest() -> None:
    """Against the density itself: covariances nearby are less likely, 12 rows of prior included."""
    rng = np.random.default_rng(5)
    columns = SpeedColumns.of(COLUMNS[:5])
    ratios = Ratios(columns)
    structured = np.tensordot(DEFAULT_VARIANCES, columns.terms(), axes=1)
    truth = drawn_covariance(rng, 5)
    _, rows = drawn_rows(rng, 200, truth, columns.usual, NOISE)
    rows = with_holes(rng, rows, 0.3, least=3)
    mean, covariance = expectation_maximization(rows, structured, ratios, NOISE)

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


def test_structure_counts_for_more_where_rows_have_it() -> None:
    columns = SpeedColumns.of(COLUMNS)
    structured = np.tensordot(DEFAULT_VARIANCES, columns.terms(), axes=1)
    centre, ratios, nearer = np.eye(12) - 1 / 12, Ratios(columns), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        _, rows = drawn_rows(rng, 20, structured, columns.usual, NOISE)
        off = [
            float(np.linalg.norm(centre @ (learn(rows, structured, ratios, NOISE)[1] - structured)))
            for learn in (most_likely_covariance, expectation_maximization)
        ]
        nearer.append(off[0] - off[1])
        # Rows of three factors have no such structure: it counts for as little as it may.
        _, rows = drawn_rows(rng, 20, drawn_covariance(rng), columns.usual, NOISE)
        least = expectation_maximization(rows, structured, ratios, NOISE)[1]
        chosen = most_likely_covariance(rows, structured, ratios, NOISE)[1]
        np.testing.assert_array_equal(chosen, least)
    assert np.mean(nearer) < -0.02


def test_two_references_teach_ratios_but_are_not_imitated() -> None:
    columns = SpeedColumns.of(COLUMNS)
    rows = drawn_table(7, 2, share=0.0)
    prior = learn_prior(rows, columns, NOISE)
    assert len(prior.references) == 0
    assert len(learn_prior(drawn_table(7, 3, share=0.0), columns, NOISE).references) == 3
    pull = np.corrcoef(prior.mean, rows.mean(axis=0))[0, 1]
    assert pull > np.corrcoef(columns.usual, rows.mean(axis=0))[0, 1]
