from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from apportion.errors import InputError
from apportion.estimators import EstimatedPairs, GaussianImputer, InterferenceEstimator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NAN = np.nan
# References: 0 is light, 1 is heavy. Beside 0 a job keeps more than beside 1; 1 and 1 do not fit.
LIGHT_HEAVY = np.array([[0.9, 0.6], [0.7, 0.0]])[:, :, None]


def exact(**options: Any) -> EstimatedPairs:
    return EstimatedPairs(LIGHT_HEAVY, estimator=InterferenceEstimator(), **options)


def test_what_is_known_of_jobs_is_what_the_estimator_makes_of_it() -> None:
    measured = [[[0.9], [NAN]], [[0.7], [NAN]]]
    other = [[[0.9], [NAN]], [[0.6], [NAN]]]
    pairs = exact()
    pairs.profile([7, 8], measured, other)
    expected = InterferenceEstimator().fit(LIGHT_HEAVY, measured, other).predict()[2:, 2:]
    np.testing.assert_allclose(pairs.throughputs([7, 8]), expected)
    np.testing.assert_allclose(pairs.throughputs([8, 7, 8]), expected[np.ix_([1, 0, 1], [1, 0, 1])])


def test_a_pair_that_ran_is_known_and_completes_its_jobs_anew() -> None:
    pairs = exact()
    pairs.profile([1], [[[0.9], [0.6]]], [[[0.9], [0.7]]])
    before = pairs.throughputs([1, 2, 3])
    pairs.observe(2, 1, 0, 0.7, 0.6)
    after = pairs.throughputs([1, 2, 3])
    assert (after[1, 0, 0], after[0, 1, 0]) == (0.7, 0.6)
    # Beside the light job 1, job 2 did as the heavy reference does: it is less to others' taste.
    assert after[2, 1, 0] < before[2, 1, 0]


def test_learning_is_by_job_unless_types_are_known() -> None:
    for rows, shared in (("job", False), ("type", True)):
        pairs = exact(rows=rows)
        pairs.admit([1, 2, 3, 4], ["a", "b", "a", "b"])
        pairs.observe(1, 2, 0, 0.55, 0.65)
        told = pairs.throughputs([1, 2, 3, 4])[..., 0]
        assert (told[0, 1], told[1, 0]) == (0.55, 0.65)
        assert bool(told[2, 3] == 0.55) == shared


def test_repeats_are_averaged_and_zeros_are_for_both() -> None:
    pairs = exact()
    for factor in (0.5, 1.0, 2.0):
        pairs.observe("a", "b", 0, 0.4 * factor, 0.3)
    told = pairs.throughputs(["a", "b"])[..., 0]
    assert told[0, 1] == pytest.approx(0.4)
    assert told[1, 0] == pytest.approx(0.3)
    pairs.observe("a", "b", 0, 0.0, 0.3)
    assert pairs.throughputs(["a", "b"])[0, 1, 0] == pairs.throughputs(["a", "b"])[1, 0, 0] == 0
    pairs.observe("a", "a", 0, 0.5, 0.7)
    assert pairs.throughputs(["a"])[0, 0, 0] == 0.5


def test_any_imputer_serves() -> None:
    rng = np.random.default_rng(0)
    references = 0.3 + 0.6 * rng.random((5, 5, 2))
    for imputer in (None, GaussianImputer(low=0)):
        estimator = InterferenceEstimator(imputer, noise=0.1)
        pairs = EstimatedPairs(references, estimator=estimator)
        pairs.profile([1, 2], np.where(rng.random((2, 5, 2)) < 0.5, 0.5, NAN))
        told = pairs.throughputs([1, 2, 3])
        assert told.shape == (3, 3, 2)
        assert ((told > 0) & (told < 1.5)).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((1, 2, 0, NAN, 0.5), "own is nan"),
        ((1, 2, 0, 0.5, -1), "other is -1"),
        ((1, 2, 0, True, 0.5), "own is True"),
        ((1, 2, 1, 0.5, 0.5), "There is no accelerator 1; valid: 0 to 0"),
        ((1, 2, "q", 0.5, 0.5), "There is no accelerator 'q'"),
        ((1, 2.5, 0, 0.5, 0.5), "A job is 2.5"),
    ],
)
def test_bad_runs_are_named_and_teach_nothing(given: Any, message: str) -> None:
    pairs = exact()
    before = pairs.throughputs([1, 2])
    with pytest.raises(InputError, match=message):
        pairs.observe(*given)
    np.testing.assert_array_equal(pairs.throughputs([1, 2]), before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: EstimatedPairs([[1.0]]), "has 2 axes"),
        (lambda: EstimatedPairs(LIGHT_HEAVY, rows="all"), "Unknown rows 'all'"),  # type: ignore[arg-type]
        (lambda: EstimatedPairs(LIGHT_HEAVY, estimator=3), "estimator is 3"),  # type: ignore[arg-type]
        (lambda: exact().profile([1], [[[0.5]]]), r"`measured` has shape \(1, 1, 1\)"),
        (lambda: exact().profile([1], [[[0.5], [-1.0]]]), "`measured` is -1.0"),
        (lambda: exact(rows="type").throughputs([1]), "Job 1 has no type"),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_jobs_that_are_forgotten_leave_no_trace() -> None:
    kept, fresh = exact(), exact()
    for pairs, jobs in ((kept, (1, 2, 3)), (fresh, (2,))):
        for job in jobs:
            pairs.profile([job], [[[0.8], [NAN]]], [[[0.9], [NAN]]])
    kept.observe(1, 3, 0, 0.5, 0.6)
    kept.keep([2])
    np.testing.assert_array_equal(kept.throughputs([2, 5]), fresh.throughputs([2, 5]))
