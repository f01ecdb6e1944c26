from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import InputError
from apportion.estimators import (
    InterferenceEstimator,
    SoftImpute,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NAN = np.nan
# References: 0 is light, 1 is heavy. Beside 0 a job keeps more than beside 1; 1 and 1 do not fit.
LIGHT_HEAVY = np.array([[0.9, 0.6], [0.7, 0.0]])[:, :, None]


def fitted(measured: Any, other: Any = None, **options: Any) -> InterferenceEstimator:
    return InterferenceEstimator(**options).fit(LIGHT_HEAVY, measured, other)


def test_a_job_like_a_reference_behaves_like_it_beside_everyone() -> None:
    # New job 2 reads as the light reference, 3 as the heavy one, each from a single cell.
    estimator = fitted([[[0.9], [NAN]], [[0.7], [NAN]]], [[[0.9], [NAN]], [[0.6], [NAN]]])
    like = [0, 1, 0, 1]
    np.testing.assert_allclose(estimator.predict()[..., 0], LIGHT_HEAVY[..., 0][np.ix_(like, like)])


def test_half_way_between_references_is_their_mean() -> None:
    references = np.array([[0.8, 0.4], [0.4, 0.2]])[:, :, None]
    measured = [[[0.6], [NAN]]]
    estimator = InterferenceEstimator().fit(references, measured, measured)
    expected = [[0.8, 0.4, 0.6], [0.4, 0.2, 0.3], [0.6, 0.3, 0.45]]
    np.testing.assert_allclose(estimator.predict()[..., 0], expected, atol=0.01)


def test_pairs_that_cannot_share_are_zero_for_both() -> None:
    estimator = fitted([[[0.9], [0.0]]], [[[0.9], [NAN]]])
    predicted = estimator.predict()
    assert predicted[2, 1, 0] == predicted[1, 2, 0] == 0.0


def test_one_reference_is_all_there_is_to_go_by() -> None:
    estimator = InterferenceEstimator().fit([[[0.6, 0.5]]], [[[NAN, 0.4]], [[NAN, NAN]]])
    predicted = estimator.predict()
    np.testing.assert_allclose(predicted[..., 0], 0.6)
    assert predicted[1, 0, 1] == 0.4
    np.testing.assert_allclose(predicted[2], [[0.6, 0.5]] * 3)


def test_jobs_that_share_with_nobody_stay_apart() -> None:
    references = np.zeros((2, 2, 1))
    references[0, 0] = 0.8
    estimator = InterferenceEstimator().fit(references, np.zeros((1, 2, 1)))
    np.testing.assert_array_equal(estimator.predict()[2], np.zeros((3, 1)))


def test_a_new_accelerator_starts_from_the_mean_of_the_others() -> None:
    references = np.concatenate([LIGHT_HEAVY, LIGHT_HEAVY / 2, np.full((2, 2, 1), NAN)], axis=2)
    measured = np.full((1, 2, 3), NAN)
    measured[0, 0] = [0.9, 0.45, 0.66]
    predicted = InterferenceEstimator().fit(references, measured).predict()
    np.testing.assert_allclose(predicted[:2, :2, 2], 0.75 * LIGHT_HEAVY[..., 0])
    assert predicted[2, 0, 2] == 0.66
    np.testing.assert_allclose(predicted[2, 1, 2], 0.75 * 0.6, atol=0.02)


def test_without_new_jobs_the_references_are_returned() -> None:
    estimator = fitted(np.empty((0, 2, 1)))
    np.testing.assert_array_equal(estimator.predict(), LIGHT_HEAVY)


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(0, 4), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_predictions_keep_what_is_known_and_stay_in_range(
    seed: int, references: int, new: int, accelerators: int
) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.random((references + new, references + new, accelerators))
    cannot = rng.random(shares.shape) < 0.2
    truth = np.where(cannot | cannot.transpose(1, 0, 2), 0.0, shares)
    measured = rng.random((new, references, accelerators)) < 0.4
    own = np.where(measured, truth[references:, :references], NAN)
    other = np.where(measured, truth[:references, references:].transpose(1, 0, 2), NAN)
    estimator = InterferenceEstimator().fit(truth[:references, :references], own, other)
    predicted = estimator.predict()
    assert np.all((predicted >= 0) & (predicted <= 1))
    np.testing.assert_array_equal(predicted == 0, predicted.transpose(1, 0, 2) == 0)
    np.testing.assert_array_equal(
        predicted[:references, :references], truth[:references, :references]
    )
    np.testing.assert_array_equal(predicted[references:, :references][measured], own[measured])
    np.testing.assert_array_equal(predicted, estimator.predict())


class Constant:
    def __init__(self, value: float, columns: int = 0) -> None:
        self.value, self.columns = value, columns

    def fit_transform(self, X: Floats) -> Floats:
        return np.full((X.shape[0], X.shape[1] + self.columns), self.value)


def test_any_imputer_plugs_in() -> None:
    for imputer in (Constant(0.3), SoftImpute(low=0)):
        predicted = fitted([[[0.9], [NAN]]], imputer=imputer).predict()
        assert predicted[2, 0, 0] == 0.9
        assert predicted[2, 2, 0] >= 0
    assert fitted([[[0.9], [NAN]]], imputer=Constant(0.3)).predict()[2, 2, 0] == 0.3


@pytest.mark.parametrize(
    ("imputer", "message"),
    [
        (Constant(-0.5), r"imputer Constant returned -0.5 in row 0, column 0; .*low=0"),
        (Constant(NAN), "imputer Constant returned nan in row 0"),
        (Constant(0.5, columns=-1), r"imputer Constant returned shape \(3, 7\) .* \(3, 8\)"),
    ],
)
def test_what_imputers_get_wrong_is_named(imputer: Constant, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted([[[0.9], [NAN]]], imputer=imputer).predict()


@pytest.mark.parametrize(
    ("references", "measured", "options", "message"),
    [
        (LIGHT_HEAVY, [[[0.9]]], {}, r"`measured` has shape \(1, 1, 1\); expected \(1, 2, 1\)"),
        (LIGHT_HEAVY[0], [[[0.9]]], {}, "`references` has 2 axes; it must have three"),
        (LIGHT_HEAVY[:1], [[[0.9]]], {}, r"`references` has shape \(1, 2, 1\); expected"),
        (LIGHT_HEAVY, [[[0.9], [-1]]], {}, r"`measured` is -1.0 at .* \(0, 1, 0\)"),
        (np.full((2, 2, 1), NAN), np.ones((1, 2, 1)), {}, "At least one reference"),
        (LIGHT_HEAVY, np.ones((1, 2, 1)), {"imputer": "als"}, "it must have `fit_transform`"),
    ],
)
def test_bad_input_is_named(
    references: Any, measured: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        InterferenceEstimator(**options).fit(references, measured)


def test_misuse_is_named() -> None:
    with pytest.raises(InputError, match="has not been fitted yet"):
        InterferenceEstimator().predict()
