from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.estimators.speeds.drawn import COLUMNS, drawn_covariance, drawn_rows

import apportion as ap
from apportion.errors import InputError
from apportion.estimators import SpeedModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NAN = np.nan
REFERENCES = pd.DataFrame(
    {"v100": [40.0, 30, 9, 20], "k80": [5.0, 4, 4, 9], "p100": [9.0, 8, 7, 6]}
)
HALF = pd.DataFrame({"v100": [80.0, NAN], "k80": [NAN, 2.0]}, index=["a", "b"])


def test_half_measured_jobs_can_be_solved() -> None:
    tensor = ap.estimate_speeds(HALF, REFERENCES)
    assert isinstance(tensor, ap.ThroughputTensor)
    allocation = ap.solve("max_min_fairness", tensor, workers={"v100": 1, "k80": 1})
    plain = ap.solve("max_min_fairness", tensor.values.droplevel(0), workers={"v100": 1, "k80": 1})
    pd.testing.assert_frame_equal(allocation.X, plain.X)
    assert tensor.values.loc[("a", "a"), "v100"] == 80.0
    assert tensor.values.loc[("b", "b"), "k80"] == 2.0
    np.testing.assert_array_equal(tensor.estimated, HALF.isna())
    assert tensor.spread.loc["a", "v100"] == 0.05
    assert tensor.spread.to_numpy()[0, 1] > 0.05


def test_references_and_complete_rows_are_the_models() -> None:
    rng = np.random.default_rng(0)
    covariance, mean = drawn_covariance(rng), 0.8 * np.log([1, 2, 4, 8] * 3)
    _, rows = drawn_rows(rng, 30, covariance, mean)
    table = pd.DataFrame(np.exp(rows), columns=pd.Index(COLUMNS))
    # A job of whose row one cell alone is known adds nothing to the references.
    asked = table.iloc[[29]].where(np.arange(12)[None] == 3)
    tensor = ap.estimate_speeds(asked, table.iloc[:29])
    speeds, sd = SpeedModel().fit(table.iloc[:29]).predict(asked, return_std=True)
    np.testing.assert_allclose(tensor.values, speeds)
    np.testing.assert_allclose(tensor.spread, sd)
    hopeful = ap.estimate_speeds(asked, table.iloc[:29], optimism=1.5)
    wanted = speeds * np.where(asked.isna(), np.exp(1.5 * sd), 1.0)
    np.testing.assert_allclose(hopeful.values, wanted)
    # Without references, the jobs of the table are those.
    both = pd.concat([table.iloc[:29], asked])
    together = ap.estimate_speeds(both)
    np.testing.assert_allclose(together.values.iloc[29:], speeds)


def test_impossible_stays_impossible_and_unmeasured_jobs_are_named() -> None:
    table = pd.DataFrame({"v100": [4.0, NAN, NAN], "k80": [0.0, NAN, 0.0]}, index=["a", "b", "c"])
    with pytest.warns(UserWarning, match="Job 'b' and 1 more has no measured speed"):
        tensor = ap.estimate_speeds(table, REFERENCES)
    assert tensor.values["k80"].tolist()[0::2] == [0.0, 0.0]
    assert tensor.values.to_numpy()[1].min() > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"measured": HALF.to_numpy()}, "measured is"),
        ({"measured": {"a": 3.0}}, "The speeds of job 'a' is 3.0"),
        ({"measured": HALF * -1}, "row 'a' on 'v100' is -80.0"),
        ({"measured": HALF.assign(k80=0.0).fillna(0.0)}, "Job 'b' runs nowhere"),
        ({"measured": HALF.set_axis(["a", "a"])}, "Duplicate row"),
        ({"measured": HALF.assign(job=1).set_index("job", append=True)}, "rows of several levels"),
        ({"measured": HALF, "references": HALF.astype(object).where(HALF != 80.0, "x")}, "is 'x'"),
        ({"measured": HALF, "references": 3}, "have no names; give a DataFrame"),
        ({"measured": HALF, "noise": NAN}, "noise is nan"),
        ({"measured": HALF, "optimism": -1}, "optimism is -1"),
    ],
)
def test_bad_input_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ap.estimate_speeds(**given)
