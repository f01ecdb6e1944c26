from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.estimators.speeds.drawn import COLUMNS, drawn_covariance, drawn_rows, with_holes

from apportion.errors import InputError
from apportion.estimators import (
    AlternatingLeastSquares,
    ImputedSpeeds,
    MixtureImputer,
    SoftImpute,
    SpeedModel,
)

NAN = np.nan
WAYS = [
    ImputedSpeeds("additive"),
    ImputedSpeeds(),
    ImputedSpeeds(MixtureImputer()),
    ImputedSpeeds(AlternatingLeastSquares()),
    ImputedSpeeds(SoftImpute()),
    SpeedModel(),
]


@pytest.mark.parametrize("way", WAYS, ids=repr)
def test_every_way_has_the_same_calls(way: Any) -> None:
    rng = np.random.default_rng(0)
    _, rows = drawn_rows(rng, 24, drawn_covariance(rng), np.zeros(12))
    table = pd.DataFrame(np.exp(with_holes(rng, rows, 0.2, least=4)), columns=pd.Index(COLUMNS))
    known, asked = table.iloc[:16], table.iloc[16:].copy()
    asked.iloc[2] = NAN
    asked.iloc[3, 4] = 0.0
    speeds = way.fit(known).predict(asked)
    assert speeds.notna().all(axis=None)
    given = asked.notna().to_numpy()
    np.testing.assert_array_equal(speeds.to_numpy()[given], asked.to_numpy()[given])
    assert way.fit(known).predict(asked.iloc[:0]).shape == (0, 12)
    seen = (asked > 0).any(axis=1).to_numpy()
    scaled = way.predict(asked * 1e5)
    np.testing.assert_allclose(scaled[seen], 1e5 * speeds[seen], rtol=1e-6)
    assert type(way)(**way.get_params()).get_params() == way.get_params()


def test_additive_by_hand() -> None:
    # Column ratios 1 : 2 : 6; a row known as 5 on the first is 10 and 30 on the others.
    table = pd.DataFrame({"a": [1.0, 3, NAN], "b": [2.0, NAN, 8], "c": [6.0, 18, 24]})
    rows = pd.DataFrame({"a": [5.0], "b": [NAN], "c": [NAN]})
    speeds = ImputedSpeeds("additive").fit(table).predict(rows)
    np.testing.assert_allclose(speeds, [[5.0, 10.0, 30.0]], rtol=1e-6)


@pytest.mark.parametrize("imputer", ["mixture", 3, object(), True])
def test_what_is_no_imputer_is_named(imputer: Any) -> None:
    with pytest.raises(InputError, match=r"it must be an imputer of this package|'additive'"):
        ImputedSpeeds(imputer, ["a"]).fit([[1.0]])


def test_misuse_is_named() -> None:
    with pytest.raises(InputError, match="has no number in it"):
        ImputedSpeeds(columns=["a"]).fit([[NAN]])
    with pytest.raises(InputError, match="have not been fitted yet"):
        ImputedSpeeds().predict([[1.0]])
