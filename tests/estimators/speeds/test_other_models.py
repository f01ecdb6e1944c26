"""Speeds learnt with other models than the default one."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.estimators import ColumnMeans, EstimatedSpeeds, ImputedSpeeds

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


def test_column_means_know_nothing_of_the_row() -> None:
    told = learnt(ColumnMeans(), optimism=5.0).speeds([0, 1])
    np.testing.assert_allclose(told, [[20, 60, 2], [20, 10, 2]], rtol=1e-9)


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
