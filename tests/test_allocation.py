from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from apportion.allocation import Allocation
from apportion.errors import InputError
from apportion.policies import MaxMinFairness, solve
from apportion.whole_files import restored

if TYPE_CHECKING:
    from pathlib import Path


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


LABELS = [["x", 7, ("a", 1)], [1, 2, 3], ["<b>", "=1+1", "'=x"], [1.5, -2.0, 0.0]]


@pytest.mark.parametrize("labels", LABELS)
def test_json_and_back(labels: list[object], tmp_path: Path) -> None:
    index = pd.Index(labels, tupleize_cols=False)
    options = pd.MultiIndex.from_tuples([("a100", 1), ("a100", 2)])
    speeds = np.random.default_rng(0).uniform(1, 9, (3, 2))
    for columns in (["a100", "h100"], options):
        speed = pd.DataFrame(speeds, index=index, columns=columns)
        given = solve("max_min_fairness", speed, workers="a100=2,h100=1")
        for back in (
            Allocation.from_json(given.to_json(tmp_path / "allocation.json")),
            Allocation.from_json(tmp_path / "allocation.json"),
            Allocation.from_dict(given.to_dict()),
        ):
            pd.testing.assert_frame_equal(back.X, given.X, check_index_type=False)
            pd.testing.assert_series_equal(back.throughput, given.throughput)
            pd.testing.assert_series_equal(back.prices, given.prices)
            assert back.to_dict() == given.to_dict()
            assert repr(back) == repr(given)


def test_what_is_not_finite_comes_back() -> None:
    X = pd.DataFrame({"v": [0.1]}, index=["a"])
    nan, inf = float("nan"), float("inf")
    series = pd.Series([nan], index=["v"], name="price")
    given = Allocation(X, X["v"].rename("throughput"), -inf, series, inf, "fallback", "P()")
    text = given.to_json()
    assert '"gap": "Infinity"' in text
    back = Allocation.from_json(text)
    assert (back.objective, back.gap) == (-inf, inf)
    assert np.isnan(back.prices["v"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "allocation.*no JSON"),
        ("[]", "holds no object"),
        ("{}", "has the format 'apportion.allocation/1', not None"),
        ('{"format": "apportion.allocation/1"}', "has no 'policy'"),
        ("[" * 100_000, "allocation.*cannot be read as JSON"),
    ],
)
def test_what_is_no_allocation_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Allocation.from_json(text)


def test_parts_that_do_not_fit_are_refused(allocation: Allocation, tmp_path: Path) -> None:
    short, no_list = "do not fit together", "it must be a list"
    for part, value, said in (
        ("X", [[1.0]], short),
        ("throughput", [1.0], short),
        ("rows", 3, no_list),
        ("prices", "x", no_list),
    ):
        with pytest.raises(InputError, match=said):
            Allocation.from_dict(allocation.to_dict() | {part: value})
    with pytest.raises(InputError, match="Cannot read"):
        Allocation.from_json(tmp_path / "none.json")


def test_labels_that_cannot_be_written_are_named() -> None:
    speed = pd.DataFrame({"a100": [1.0]}, index=[pd.Timestamp("2026-01-01")])
    with pytest.raises(InputError, match="label Timestamp"):
        solve("max_min_fairness", speed, workers="a100=1").to_json()


def test_csv_and_back(tmp_path: Path) -> None:
    speeds = np.random.default_rng(0).uniform(1, 9, (3, 2))
    names = ["=HYPERLINK(1)", "plain, with a comma", "-x"]
    speed = pd.DataFrame(speeds, index=names, columns=["a100", "h100"])
    given = solve("max_min_fairness", speed, workers="a100=2,h100=1")
    text = given.to_csv(tmp_path / "shares.csv")
    assert (tmp_path / "shares.csv").read_text() == text
    assert "\n'=HYPERLINK(1),a100," in text
    back = pd.read_csv(tmp_path / "shares.csv", dtype={"share": str})
    assert back["share"].map(float).tolist() == given.to_frame()["share"].tolist()
    assert restored(back["row"]).tolist() == given.to_frame()["row"].tolist()


def test_what_a_notebook_shows_is_escaped() -> None:
    bad = "<script>alert(1)</script>"
    speed = pd.DataFrame({bad: [1.0]}, index=[bad])
    found = solve("max_min_fairness", speed, workers={bad: 1})
    shown = replace(found, policy=bad, status=bad, unit=bad)._repr_html_()
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") >= 4


def test_labels_that_are_none_and_files_that_cannot_be_are_named(
    allocation: Allocation, tmp_path: Path
) -> None:
    for place, label, words in ((0, "7", "7"), (0, {}, "cannot be written")):
        content = allocation.to_dict()
        content["rows"][place] = content["rows"][1] if label == "7" else label
        with pytest.raises(InputError, match=words):
            Allocation.from_dict(content)
    nowhere = tmp_path / "missing" / "allocation"
    for write in (allocation.to_csv, allocation.to_json, allocation.to_parquet):
        with pytest.raises(InputError, match=r"Cannot write .*missing"):
            write(nowhere)
