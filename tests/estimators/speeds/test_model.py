from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.estimators.speeds.drawn import COLUMNS, drawn_covariance, drawn_rows, with_holes
from tests.seeds import sampled

from apportion.errors import InputError
from apportion.estimators import SpeedModel
from apportion.estimators.speeds.columns import SpeedColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NAN = np.nan


def drawn_tables(seed: int, references: int = 10, jobs: int = 8) -> tuple[Any, Any]:
    """References and jobs with holes, and some cells where they cannot run."""
    rng = np.random.default_rng(seed)
    covariance, mean = drawn_covariance(rng), 0.8 * np.log([1, 2, 4, 8] * 3)
    _, rows = drawn_rows(rng, references + jobs, covariance, mean)
    known = with_holes(rng, rows, 0.2, least=3)[:references]
    asked = with_holes(rng, rows, 0.6, least=0)[references:]
    tables = [np.exp(known), np.where(rng.random(asked.shape) < 0.1, 0.0, np.exp(asked))]
    labels = pd.Index(COLUMNS)
    return pd.DataFrame(tables[0], columns=labels), pd.DataFrame(tables[1], columns=labels)


STRUCTURED = ((0.1, 0.01, 0.01, 0.02), (0.3, 0.005, 0.005, 0.001), (0.01, 0.001, 0.001, 0.1))


@pytest.mark.parametrize(
    ("references", "drawn_by"),
    sampled(
        [
            *[(12, 3), (26, 3), (26, 20), (60, 20)],
            *[(count, variances) for count in (12, 26, 60) for variances in STRUCTURED],
        ],
        3,
    ),
)
def test_one_standard_deviation_covers_two_thirds_of_what_is_drawn(
    references: int, drawn_by: int | tuple[float, ...]
) -> None:
    """Whether S has factors without structure, or is T itself.

    A dozen references leave the covariance open: the part is 0.56 where columns differ by far more
    than the prior says.
    """
    inside = []
    for seed in range(16 if references == 12 else 4):
        rng = np.random.default_rng(seed)
        if isinstance(drawn_by, int):
            covariance = drawn_covariance(rng, factors=drawn_by)
        else:
            covariance = np.tensordot(drawn_by, SpeedColumns.of(COLUMNS).terms(), axes=1)
        mean = rng.normal(size=12)
        truth, rows = drawn_rows(rng, references + 100, covariance, mean)
        model = SpeedModel(COLUMNS).fit(np.exp(rows[:references]))
        asked = with_holes(rng, rows, 0.65, least=2)[references:]
        speeds, sd = model.predict(np.exp(asked), return_std=True)
        wanted = np.isnan(asked)
        inside.append((np.abs(np.log(speeds) - truth[references:]) <= sd)[wanted].mean())
    assert 0.54 <= np.mean(inside) <= 0.85


@pytest.mark.thorough
@given(st.integers(0, 10_000))
@settings(max_examples=15)
def test_scales_do_not_matter(seed: int) -> None:
    known, asked = drawn_tables(seed)
    rng = np.random.default_rng(seed)
    factors = np.exp(rng.normal(0, 8, len(asked)))
    model = SpeedModel().fit(known)
    speeds, sd = model.predict(asked, return_std=True)
    scaled, same = model.predict(asked.mul(factors, axis=0), return_std=True)
    seen = (asked > 0).any(axis=1).to_numpy()
    wanted = speeds.mul(factors, axis=0)[seen]
    np.testing.assert_allclose(scaled[seen], wanted, rtol=1e-9)
    np.testing.assert_allclose(same, sd, atol=1e-9)
    others = known.mul(np.exp(rng.normal(0, 8, len(known))), axis=0)
    again = SpeedModel().fit(others).predict(asked)
    np.testing.assert_allclose(again[seen], speeds[seen], rtol=1e-9)


@pytest.mark.thorough
@given(st.integers(0, 10_000))
@settings(max_examples=15)
def test_order_does_not_matter(seed: int) -> None:
    known, asked = drawn_tables(seed)
    rng = np.random.default_rng(seed)
    speeds, sd = SpeedModel().fit(known).predict(asked, return_std=True)
    columns, rows = rng.permutation(12), rng.permutation(len(asked))
    other = SpeedModel().fit(known.iloc[rng.permutation(len(known)), columns])
    turned = asked.iloc[rows, rng.permutation(12)]
    again, spread = other.predict(turned, return_std=True)
    assert again.columns.tolist() == turned.columns.tolist()
    assert again.index.tolist() == turned.index.tolist()
    labels = asked.columns
    np.testing.assert_allclose(again.loc[asked.index][labels], speeds, rtol=1e-9)
    np.testing.assert_allclose(spread.loc[asked.index][labels], sd, atol=1e-9)


@pytest.mark.thorough
@given(st.integers(0, 10_000))
@settings(max_examples=15)
def test_what_is_measured_is_returned_and_what_cannot_run_stays_zero(seed: int) -> None:
    known, asked = drawn_tables(seed)
    speeds, sd = SpeedModel(noise=0.1).fit(known).predict(asked, return_std=True)
    measured = (asked > 0).to_numpy()
    np.testing.assert_array_equal(speeds.to_numpy()[measured], asked.to_numpy()[measured])
    np.testing.assert_allclose(sd.to_numpy()[measured], 0.1)
    impossible = (asked == 0).to_numpy()
    assert not speeds.to_numpy()[impossible].any()
    assert not sd.to_numpy()[impossible].any()
    estimated = ~measured & ~impossible
    assert (speeds.to_numpy()[estimated] > 0).all()
    assert (sd.to_numpy()[estimated] > 0).all()


@pytest.mark.parametrize(
    "labels",
    [
        ["v100", "p100", "k80"],
        [("v100", "machine"), ("v100", "rack"), ("k80", "machine")],
        [("v100", 2, "machine"), ("v100", 2, "rack"), ("v100", 4, "rack")],
    ],
)
def test_columns_are_accelerators_gpus_and_tiers(labels: list[Any]) -> None:
    rng = np.random.default_rng(0)
    table = np.exp(rng.normal(size=(6, 3)))
    model = SpeedModel(labels).fit(table)
    assert model.columns_ == tuple(labels)
    assert np.isfinite(model.predict([[1.0, NAN, NAN], [NAN, 2.0, 3.0]])).all()


def test_no_references_at_all() -> None:
    model = SpeedModel([("mine", 1), ("mine", 4), ("other", 1)]).fit(np.empty((0, 3)))
    np.testing.assert_allclose(model.predict([[2.0, NAN, NAN]])[0], [2, 2 * 4**0.8, 2])
    np.testing.assert_allclose(model.predict([[NAN, NAN, NAN]])[0], [1, 4**0.8, 1])


def test_no_references_but_data_sheets() -> None:
    """A V100 has 900 GB/s, a K80 240; of `mine` nobody knows, so it is as the two in the mean."""
    model = SpeedModel([("v100", 1), ("v100", 4), ("k80", 1), ("mine", 1)]).fit(np.empty((0, 4)))
    expected = [2, 2 * 4**0.8, 2 * 240 / 900, 2 * (240 / 900) ** 0.5]
    np.testing.assert_allclose(model.predict([[2.0, NAN, NAN, NAN]])[0], expected)


GOOD = [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("options", "table", "message"),
    [
        ({"noise": NAN}, GOOD, "noise is nan; it must be a number >= 0"),
        ({}, [[1.0, np.inf]], r"row 0 on 'k80' is inf; it must be a finite number >= 0"),
        ({}, [["x", 2.0]], "holds something that is no number"),
        ({}, [[1.0], [1.0, 2.0]], "is no array of numbers"),
        ({}, [[1.0, 2.0, 3.0]], r"has shape \(1, 3\); expected rows with 2 columns"),
        ({"columns": None}, GOOD, "have no names; give a DataFrame"),
        ({"columns": []}, GOOD, "There are no columns of speeds"),
        ({"columns": "v100"}, GOOD, "it must be a list"),
        ({"columns": ["a", "a"]}, GOOD, "Duplicate column of speeds"),
        ({"columns": [("a", 0), "a"]}, GOOD, r"number of GPUs of the column \('a', 0\) is 0"),
        ({"columns": [("a", 1, "x", 3), "a"]}, GOOD, "must be an accelerator, "),
        ({"columns": [["a"], "b"]}, GOOD, "cannot be a column of speeds"),
        ({}, pd.DataFrame({"v100": [1.0], "k8": [1.0]}), "'k8'. Did you mean .*k80"),
        ({}, pd.DataFrame({"v100": ["x"], "k80": [1.0]}), "row 0 on 'v100' is 'x'"),
        ({}, pd.DataFrame({"v100": [1.0, 2.0]}, index=["a", "a"]), "Duplicate row of"),
    ],
)
def test_bad_input_is_named(options: dict[str, Any], table: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SpeedModel(**{"columns": ["v100", "k80"], **options}).fit(table)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": [[-1.0, NAN]]}, "row 0 on 'v100' is -1.0"),
        ({"rows": [[1.0]]}, "has shape"),
        ({"rows": GOOD, "return_std": "yes"}, "return_std is 'yes'"),
    ],
)
def test_bad_rows_are_named(given: dict[str, Any], message: str) -> None:
    model = SpeedModel(["v100", "k80"]).fit(GOOD)
    with pytest.raises(InputError, match=message):
        model.predict(**given)
