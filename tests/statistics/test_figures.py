"""Intervals, pairs and wins against scipy, plain resampling and counts; tables as text."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from apportion.errors import InputError
from apportion.statistics import bootstrap, mean_interval, paired, to_latex, to_markdown, wins


def p90(values: Any, axis: int = 0) -> Any:
    return np.quantile(values, 0.9, axis=axis)


@pytest.mark.parametrize("seed", range(20))
def test_pairs_are_scipys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.lognormal(size=(2, int(rng.integers(2, 12))))
    level = float(rng.uniform(0.5, 0.99))
    found = paired(one, other, level=level)
    expected = stats.ttest_rel(one, other).confidence_interval(level)
    assert found[:3] == pytest.approx(((one - other).mean(), *expected))
    ratio = paired(one, other, ratio=True, level=level)
    logs = stats.ttest_rel(np.log(one), np.log(other)).confidence_interval(level)
    assert ratio[:3] == pytest.approx((stats.gmean(one / other), *np.exp(logs)))
    assert (ratio.least, ratio.most) == pytest.approx(((one / other).min(), (one / other).max()))
    assert found.sure == (not expected[0] <= 0 <= expected[1])
    assert ratio.sure == (not logs[0] <= 0 <= logs[1])
    assert found.wins == ratio.wins == sum(a < b for a, b in zip(one, other, strict=True))
    back = paired(other, one, ratio=True, level=level)
    assert (1 / back.estimate, 1 / back.high, 1 / back.low) == pytest.approx(ratio[:3])
    assert mean_interval(one, level)[1:] == pytest.approx(
        stats.t.interval(level, one.size - 1, one.mean(), stats.sem(one))
    )


def test_series_are_paired_by_their_index() -> None:
    one = pd.Series([3.0, 1.0, 2.0, 9.0], index=[3, 1, 2, 4])
    other = pd.Series([2.0, 2.0, 3.0], index=[1, 2, 3])
    found = paired(one, other)
    assert (found.pairs, found.wins, found.ties) == (3, 1, 2)
    assert found.estimate == pytest.approx(-1 / 3)


def test_pairs_without_figures_are_left_out() -> None:
    found = paired([1.0, 0.0, np.nan, 4.0], [2.0, 5.0, 1.0, 0.0], ratio=True)
    assert (found.estimate, found.pairs) == (0.5, 1)
    assert np.isnan(found.low)
    assert not found.sure
    assert str(found) == "0.5, less in 1 of 1"
    none = paired([], [])
    assert np.isnan(none.estimate)
    assert none.pairs == 0
    with pytest.raises(InputError, match=r"shapes \(2,\) and \(3,\)"):
        paired([1, 2], [1, 2, 3])
    with pytest.raises(InputError, match=">= 0"):
        paired([-1, 2], [1, 2], ratio=True)
    with pytest.raises(InputError, match="level"):
        paired([1, 2], [1, 2], level=1.0)


@pytest.mark.parametrize("seed", range(5))
def test_resampling_of_single_values_is_scipys(seed: int) -> None:
    values = np.random.default_rng(seed).lognormal(size=30)
    found = bootstrap(values, p90, draws=999, seed=seed)
    expected = stats.bootstrap(
        (values,), p90, n_resamples=999, rng=np.random.default_rng(seed)
    ).confidence_interval
    assert found == pytest.approx((np.quantile(values, 0.9), *expected), rel=1e-12)
    assert found == bootstrap(values, p90, draws=999, seed=seed)


def test_blocks_keep_what_neighbours_have_in_common() -> None:
    """Of means that wander, intervals by single values hold the truth too seldom."""
    held = {None: 0, 12: 0}
    for seed in range(30):
        drawn = np.random.default_rng(seed).normal(size=(12, 1)) + np.zeros((1, 20))
        for blocks in held:
            _, low, high = bootstrap(drawn.ravel(), blocks=blocks, draws=199)
            held[blocks] += low <= 0 <= high
    assert held[None] < 18
    assert held[12] >= 24


def test_intervals_of_little() -> None:
    assert bootstrap([2.0, 2.0, 2.0]) == (2.0, 2.0, 2.0)
    assert np.isnan(bootstrap([2.0]).low)
    assert np.isnan(mean_interval([2.0]).low)
    found = bootstrap([0.0] * 20 + [1.0], np.median, draws=99)
    assert found.low <= found.estimate <= found.high
    for wrong in ([], [1.0, np.nan], [[1.0], [2.0]]):
        with pytest.raises(InputError, match="row of finite numbers"):
            mean_interval(wrong)
        with pytest.raises(InputError, match="row of finite numbers"):
            bootstrap(wrong)
    with pytest.raises(InputError, match="3 values cannot be parted into 4 blocks"):
        bootstrap([1.0, 2.0, 3.0], blocks=4)


def test_wins_are_counted_pair_by_pair() -> None:
    values = np.random.default_rng(0).integers(4, size=(3, 50)).astype(float)
    table = wins(values, ["a", "b", "c"])
    for row, one in enumerate("abc"):
        for column, other in enumerate("abc"):
            expected = sum(x < y for x, y in zip(values[row], values[column], strict=True))
            assert table.loc[one, other] == expected
    assert wins(values, ["a", "b", "c"], low=False).equals(table.T)


def test_intervals_stand_behind_their_figures() -> None:
    table = pd.DataFrame(
        {
            "policy": ["a_b", "c|d"],
            "hours": [1.93456, 21934.5],
            "low": [1.7, np.nan],
            "high": [0.000215, np.nan],
            "runs": [12, 3],
            "gap": [np.nan, np.inf],
        }
    )
    assert to_markdown(table).splitlines() == [
        "| policy | hours | runs | gap |",
        "| --- | ---: | ---: | ---: |",
        "| a_b | 1.93 [1.70, 0.000215] | 12 | - |",
        r"| c\|d | 21,934 | 3 | inf |",
    ]
    latex = to_latex(table.set_index("policy"), digits=2)
    assert r"a\_b & 1.9 [1.7, 0.00021] & 12 & - \\" in latex
    assert latex.startswith(r"\begin{tabular}{lrrr}")
    assert to_latex(table[["low", "high", "runs"]]).count("&") == 6
    assert to_markdown(pd.DataFrame({"low": [1.0], "high": [999.96]})).endswith(
        "| 1.00 | 1,000 |\n"
    )
    assert "{}[a] & 1" in to_latex(pd.DataFrame({"x": ["[a]"], "n": [1]}))


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_takes_what_is_written(tmp_path: Path) -> None:
    table = pd.DataFrame({"x": ["[a]", "50 % & $x_1^2$ ~ \\"], "n": [1.0, 2.0]})
    packages = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
    text = packages + to_latex(table) + r"\end{document}"
    (tmp_path / "t.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
