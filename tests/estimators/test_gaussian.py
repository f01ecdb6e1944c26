from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from apportion.errors import InputError
from apportion.estimators import GaussianImputer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NAN = np.nan


def drawn(seed: int, complete: int = 6, asked: int = 5, size: int = 7) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(2, size))
    rows = 3 + rng.normal(size=(complete + asked, 2)) @ loadings
    rows += 0.1 * rng.normal(size=rows.shape)
    holes = rows.copy()
    holes[complete:][rng.random((asked, size)) < 0.5] = NAN
    return rows, holes


def from_the_definition(imputer: GaussianImputer, row: Floats) -> Floats:
    """Condition each component by itself, weighing by densities of the known entries."""
    known = ~np.isnan(row)
    total = np.mean(imputer.rows_**2)
    noise = imputer.noise**2 * total * np.eye(int(known.sum()))
    count = len(imputer.rows_)
    centres = [imputer.mean_, *imputer.rows_]
    means, weights = [], []
    for number, centre in enumerate(centres):
        own = imputer.covariance_ * (imputer.closeness_ if number else 1.0)
        inside = own[known][:, known] + noise
        gain = own[:, known] @ np.linalg.inv(inside)
        means.append(centre + gain @ (row - centre)[known])
        density = multivariate_normal(centre[known], inside).pdf(row[known])
        weights.append(density * (0.5 / count if number else 0.5))
    return np.average(means, axis=0, weights=weights)


def test_equals_conditioning_by_the_definition() -> None:
    for seed in range(30):
        _, holes = drawn(seed)
        imputer = GaussianImputer(0.05).fit(holes)
        completed = imputer.transform(holes)
        for row, found in zip(holes[6:], completed[6:], strict=True):
            missing = np.isnan(row)
            if not missing.all():
                expected = from_the_definition(imputer, row)
                np.testing.assert_allclose(found[missing], expected[missing], atol=1e-7)
            else:
                np.testing.assert_allclose(found, imputer.mean_)
        np.testing.assert_array_equal(completed[~np.isnan(holes)], holes[~np.isnan(holes)])


def test_covariance_by_hand() -> None:
    # Rows (1, 2) and (3, 8): mean (2, 5), deviations -(1, 3) and (1, 3), of means 2 and rest 1.
    imputer = GaussianImputer().fit([[1.0, 2.0], [3.0, 8.0], [NAN, 1.0]])
    structured = 4 * np.ones((2, 2)) + 1 * np.eye(2)
    expected = (12 * structured + 2 * np.outer([1, 3], [1, 3])) / 14
    np.testing.assert_allclose(imputer.covariance_, expected)


@pytest.mark.parametrize("factor", [1e-6, 1e8])
def test_units_and_order_do_not_matter(factor: float) -> None:
    _, holes = drawn(3)
    expected = GaussianImputer().fit_transform(holes)
    scaled = GaussianImputer().fit_transform(factor * holes)
    np.testing.assert_allclose(scaled / factor, expected, rtol=1e-7)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(11), rng.permutation(7)
    turned = GaussianImputer().fit_transform(holes[np.ix_(rows, columns)])
    np.testing.assert_allclose(turned, expected[np.ix_(rows, columns)], rtol=1e-7)


@pytest.mark.parametrize("matrix", [[[1.0, 1.0], [NAN, 1.0]], [[0.0, 0.0], [0.0, NAN]]])
def test_degenerate_rows(matrix: Any) -> None:
    completed = GaussianImputer().fit_transform(matrix)
    np.testing.assert_allclose(completed, matrix[0][0], atol=1e-6)


@pytest.mark.parametrize(
    ("imputer", "matrix", "message"),
    [
        (GaussianImputer(NAN), [[1.0]], "noise is nan"),
        (GaussianImputer(low=2.0, high=1.0), [[1.0]], "low must be the lower"),
        (GaussianImputer(), [[1.0, NAN]], "none of the 1 rows is complete"),
    ],
)
def test_bad_input_is_named(imputer: GaussianImputer, matrix: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        imputer.fit(matrix)
