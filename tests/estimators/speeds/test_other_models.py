"""Speeds learnt with other models than the default one."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.estimators import ColumnMeans, EstimatedSpeeds, ImputedSpeeds, SpeedModel

REFERENCES = pd.DataFrame({"v100": [40.0, 10.0], "p100": [20.0, 5.0], "k80": [4.0, 1.0]})


class Lines(NamedTuple):
    """Who ran where."""

    job: list[int]
    column: list[int]


def learnt(model: Any, **options: Any) -> EstimatedSpeeds:
    """Job 0 was measured on p100 with 60 steps/s, job 1 never."""
    beliefs = EstimatedSpeeds(REFERENCES, model=model, **options)
    beliefs.speeds([0, 1])
    beliefs.observe(Lines([0], [1]), [6000.0], [100.0])
    return beliefs


def test_log_additive_is_a_scale_times_ratios() -> None:
    # All references have ratios 10 : 5 : 1; the geometric mean of their scales is 2 on k80.
    told = learnt(ImputedSpeeds("additive")).speeds([0, 1])
    np.testing.assert_allclose(told, [[120, 60, 12], [20, 10, 2]], rtol=1e-9)


def test_column_means_know_nothing_of_the_row() -> None:
    told = learnt(ColumnMeans(), optimism=5.0).speeds([0, 1])
    np.testing.assert_allclose(told, [[20, 60, 2], [20, 10, 2]], rtol=1e-9)


def test_column_means_with_holes() -> None:
    table = pd.DataFrame([[8.0, np.nan, 2.0, 0.0], [2.0, np.nan, np.nan, 0.0]])
    table.columns = pd.MultiIndex.from_tuples([("a", 1), ("b", 1), ("c", 1), ("c", 4)])
    asked = pd.DataFrame([[np.nan, np.nan, 7.0, 0.0], [np.nan] * 4], columns=table.columns)
    predicted = ColumnMeans().fit(table).predict(asked).to_numpy()
    level = (8 * 2 * 2) ** (1 / 3)  # of all that was measured
    np.testing.assert_allclose(predicted, [[4, level, 7, 0], [4, level, 2, level * 4**0.8]])


def test_the_default_is_the_model_of_single_jobs() -> None:
    by_name, by_default = learnt(SpeedModel()), learnt(None)
    np.testing.assert_array_equal(by_name.speeds([0, 1]), by_default.speeds([0, 1]))


@pytest.mark.parametrize("model", [ImputedSpeeds("additive"), ImputedSpeeds(), ColumnMeans()])
def test_states_go_on_where_they_were(model: Any) -> None:
    beliefs = learnt(model)
    beliefs.observe(Lines([1, 1], [0, 2]), [900.0, 400.0], [100.0, 100.0])
    beliefs.refit()
    other = EstimatedSpeeds(REFERENCES, model=model)
    other.restore(json.loads(json.dumps(beliefs.state())))
    np.testing.assert_array_equal(other.speeds([0, 1, 2]), beliefs.speeds([0, 1, 2]))
    before = other.speeds([0, 1, 2]).copy()
    with pytest.raises(ap.InputError, match="no state"):
        other.restore({**beliefs.state(), "prior": [["x"]]})
    np.testing.assert_array_equal(other.speeds([0, 1, 2]), before)


@pytest.mark.parametrize("model", [3, "additive", SpeedModel, object()])
def test_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(ap.InputError, match="must have fit and predict"):
        EstimatedSpeeds(REFERENCES, model=model)


def test_no_reference_is_nothing_to_learn_from() -> None:
    for model in (ImputedSpeeds("additive"), ColumnMeans()):
        with pytest.raises(ap.InputError, match="Nothing to learn from"):
            EstimatedSpeeds(REFERENCES.head(0), model=model)
    with pytest.raises(ap.InputError, match="call fit first"):
        ColumnMeans().predict(REFERENCES)
