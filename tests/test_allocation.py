from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from apportion.policies import MaxMinFairness, solve

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.allocation import Allocation


@pytest.fixture
def allocation() -> Allocation:
    speed = pd.DataFrame({"a100": [4.0, 1.0], "h100": [9.0, 3.0]}, index=["x", 7])
    return solve("max_min_fairness", speed, workers={"a100": 1, "h100": 1})


def test_the_frame_has_a_line_for_each_cell(allocation: Allocation) -> None:
    frame = allocation.to_frame()
    assert list(frame.columns) == ["row", "option", "share"]
    assert frame["share"].tolist() == allocation.X.to_numpy().ravel().tolist()
    assert frame["row"].tolist() == ["x", "x", 7, 7]


def test_options_of_two_levels_have_two_columns() -> None:
    columns = pd.MultiIndex.from_tuples([("a100", 1), ("a100", 2)])
    speed = pd.DataFrame([[1.0, 1.5]], index=["x"], columns=columns)
    frame = solve("max_total_throughput", speed, workers="a100=2").to_frame()
    assert list(frame.columns) == ["row", "accelerator", "variant", "share"]
    assert frame["variant"].tolist() == [1, 2]


def test_parquet_and_back(allocation: Allocation, tmp_path: Path) -> None:
    allocation.to_parquet(tmp_path / "allocation.parquet")
    back = pd.read_parquet(tmp_path / "allocation.parquet")
    assert back["row"].tolist() == ["x", "x", "7", "7"]
    np.testing.assert_array_equal(back["share"], allocation.to_frame()["share"])


def test_what_is_shown_names_the_policy_and_the_numbers(allocation: Allocation) -> None:
    text = repr(allocation)
    assert f"{MaxMinFairness()!r}: optimal" in text
    assert "prices of one more GPU: a100" in text
    assert "<table" in allocation._repr_html_()


def test_pickles(allocation: Allocation) -> None:
    assert repr(pickle.loads(pickle.dumps(allocation))) == repr(allocation)


def test_shares_are_drawn_to_scale(allocation: Allocation) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    axes = allocation.plot()
    widths = [bar.get_width() for bars in axes.containers for bar in bars]
    np.testing.assert_allclose(widths, allocation.X.to_numpy().T.ravel())
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a100", "h100"]
    pyplot.close("all")
