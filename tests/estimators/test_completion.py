from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import InputError
from apportion.estimators import BaseImputer, MixtureImputer, SoftImpute

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

IMPUTERS = [
    SoftImpute(),
    SoftImpute(0.1, high=1.0),
    MixtureImputer(),
]
NAN = np.nan


def low_rank(seed: int, shape: tuple[int, int], rank: int, missing: float) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    truth = rng.uniform(size=(shape[0], rank)) @ rng.uniform(size=(rank, shape[1]))
    holes = np.where(rng.random(shape) < missing, np.nan, truth)
    holes[0] = truth[0]
    return truth, holes


def test_mixture_by_hand() -> None:
    # 0.25 of the first row and 0.75 of the second explain (0.25, 0.75) exactly.
    rows = [[1.0, 0.0, 8.0], [0.0, 1.0, 4.0], [0.25, 0.75, np.nan]]
    completed = MixtureImputer(proximity=0.0).fit_transform(rows)
    np.testing.assert_allclose(completed[2], [0.25, 0.75, 5.0], atol=1e-6)


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_mixtures_stay_within_the_complete_rows_and_find_a_row_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.random((5, 12))
    hidden = np.where(rng.random((3, 12)) < 0.6, np.nan, rng.random((3, 12)))
    completed = MixtureImputer().fit_transform(np.vstack([rows, hidden]))[5:]
    missing = np.isnan(hidden)
    assert np.all((completed >= rows.min(axis=0) - 1e-9)[missing])
    assert np.all((completed <= rows.max(axis=0) + 1e-9)[missing])
    again = np.where(np.arange(12) < 6, rows[2], np.nan)
    found = MixtureImputer().fit(rows).transform(again[None])[0]
    np.testing.assert_allclose(found, rows[2], atol=1e-5)


GOES_IN_CIRCLES = [
    *([13, 14], [16, 9], [10, 5], [163, 76], [132, 61], [58, 28], [92, 53], [55, 32], [16, 9]),
    *([10, 6], [14, NAN]),
]


def test_mixtures_are_found_where_least_squares_goes_in_circles() -> None:
    for factor in (1.0, 1e-6, 1e9):
        matrix = factor * np.array(GOES_IN_CIRCLES)
        completed = MixtureImputer().fit_transform(matrix)
        assert 5 * factor <= completed[-1, 1] <= 76 * factor


def completed_cells(imputer: BaseImputer, holes: Floats) -> Floats:
    return np.asarray(imputer.fit_transform(holes)[np.isnan(holes)])


@pytest.mark.parametrize("factor", [1e-6, 3.0, 1e8])
@pytest.mark.parametrize("kind", [SoftImpute, MixtureImputer])
def test_the_unit_of_the_entries_does_not_matter(kind: type[BaseImputer], factor: float) -> None:
    _, holes = low_rank(7, (15, 9), 2, missing=0.4)
    expected = completed_cells(kind(), holes)
    np.testing.assert_allclose(completed_cells(kind(), factor * holes) / factor, expected, 1e-6)


@pytest.mark.parametrize("kind", [SoftImpute, MixtureImputer])
def test_the_order_of_rows_and_columns_does_not_matter(kind: type[BaseImputer]) -> None:
    rng = np.random.default_rng(0)
    _, holes = low_rank(8, (15, 9), 3, missing=0.4)
    holes += 0.1 * rng.normal(size=holes.shape)
    expected = kind().fit_transform(holes)
    for _ in range(3):
        rows, columns = rng.permutation(15), rng.permutation(9)
        turned = kind().fit_transform(holes[np.ix_(rows, columns)])
        np.testing.assert_allclose(turned, expected[np.ix_(rows, columns)], rtol=1e-6)


def plain_soft_impute(holes: Floats, ridge: float, steps: int) -> Floats:
    """Do as the paper's algorithm says, for long."""
    known, estimate = ~np.isnan(holes), np.zeros_like(holes)
    for _ in range(steps):
        filled = np.where(known, holes, estimate)
        mean = filled.mean(axis=0)
        u, singular, vt = np.linalg.svd(filled - mean, full_matrices=False)
        estimate = mean + (u * np.maximum(singular - ridge, 0)) @ vt
    return estimate


@pytest.mark.parametrize("shrinkage", [0.1, 0.003])
def test_soft_impute_goes_all_the_way(shrinkage: float) -> None:
    _, holes = low_rank(9, (20, 12), 3, missing=0.3)
    known = ~np.isnan(holes)
    centred = np.where(known, holes - np.nanmean(holes, axis=0), 0.0)
    ridge = shrinkage * np.linalg.norm(centred, 2)
    best = plain_soft_impute(holes, float(ridge), 8_000)
    imputer = SoftImpute(shrinkage, max_iter=5000)
    found = imputer.fit(holes)._complete(holes)

    def objective(estimate: Floats) -> float:
        rest = estimate - estimate.mean(axis=0)
        fit = ((estimate - holes)[known] ** 2).sum() / 2
        return float(fit + ridge * np.linalg.svd(rest, compute_uv=False).sum())

    assert objective(found) < objective(best) * (1 + 1e-3)
    np.testing.assert_allclose(found, best, atol=0.01 * np.abs(best).max())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": "q"}, "seed is 'q'"),
        ({"tol": 0.0}, "tol is 0.0"),
        ({"max_iter": True}, "max_iter is True"),
        ({"low": "q"}, "low is 'q'"),
        ({"low": 1.0, "high": 0.0}, "low must be the lower"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SoftImpute(**options).fit([[1.0, 2.0]])


@pytest.mark.parametrize("imputer", IMPUTERS)
def test_known_entries_are_kept_and_rows_can_come_later(imputer: BaseImputer) -> None:
    _, holes = low_rank(5, (20, 12), 2, missing=0.4)
    before = holes.copy()
    completed = imputer.fit_transform(holes)
    np.testing.assert_array_equal(holes, before)
    assert np.isfinite(completed).all()
    np.testing.assert_array_equal(completed[~np.isnan(holes)], holes[~np.isnan(holes)])
    np.testing.assert_array_equal(imputer.fit(holes).transform(holes), completed)


def test_rows_and_columns_without_entries_fall_back_to_means() -> None:
    matrix = np.array([[1.0, 3.0, np.nan], [3.0, 5.0, np.nan], [np.nan, np.nan, np.nan]])
    completed = SoftImpute().fit_transform(matrix)
    np.testing.assert_allclose(completed[2], [2.0, 4.0, 3.0])
    assert np.all((completed[:2, 2] >= 1.0) & (completed[:2, 2] <= 5.0))


def test_a_row_without_entries_is_the_mean_of_the_complete_rows() -> None:
    rows = [[1.0, 2.0], [3.0, 6.0], [np.nan, np.nan]]
    np.testing.assert_allclose(MixtureImputer().fit_transform(rows)[2], [2.0, 4.0])


def test_estimates_are_clipped_but_known_entries_are_not() -> None:
    _, holes = low_rank(2, (30, 20), 3, missing=0.5)
    completed = SoftImpute(low=0.7, high=0.9).fit_transform(holes)
    missing = np.isnan(holes)
    assert completed[missing].min() >= 0.7
    assert completed[missing].max() <= 0.9
    np.testing.assert_array_equal(completed[~missing], holes[~missing])


@pytest.mark.parametrize(
    ("imputer", "matrix", "message"),
    [
        (SoftImpute(), [[np.nan, np.nan]], "has no number in it"),
        (SoftImpute(), [[1.0, np.inf]], r"Entry \(0, 1\) of the matrix is infinite"),
        (SoftImpute(), [[1.0, -1e200]], r"Entry \(0, 1\) of the matrix is -1e\+200"),
        (MixtureImputer(), [1.0, 2.0], r"Expected a matrix .* got \(2,\)"),
        (MixtureImputer(), [[1.0, np.nan]], "none of the 1 rows is complete"),
        (MixtureImputer(-1.0), [[1.0]], "proximity is -1.0; it must be a number >= 0"),
        (SoftImpute(max_iter=0), [[1.0]], "max_iter is 0; it must be a whole number >= 1"),
        (SoftImpute(np.nan), [[1.0]], "shrinkage is nan"),
    ],
)
def test_bad_input_is_named(imputer: BaseImputer, matrix: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        imputer.fit(matrix)  # type: ignore[arg-type]


def test_misuse_is_named() -> None:
    with pytest.raises(InputError, match="SoftImpute has not been fitted yet"):
        SoftImpute().transform([[1.0]])
    with pytest.raises(InputError, match=r"3 columns; MixtureImputer was fitted with 2"):
        MixtureImputer().fit([[1.0, 2.0]]).transform([[1.0, 2.0, 3.0]])
