from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import apportion as ap
from apportion.answers.clusters_page import changed_clusters, read_changes
from apportion.answers.evidence import Difference, between, one_source, spread_of
from apportion.errors import InputError


@pytest.mark.parametrize("seed", range(5))
def test_draws_have_students_interval_and_resamples_their_spread(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = np.exp(rng.normal(1, 0.3, (2, 4 + seed)))
    logs = np.log(one) - np.log(other)
    told = between(one, other, blocks=0, level=0.9)
    mean, error = logs.mean(), stats.sem(logs)
    low, high = stats.t.interval(0.9, len(logs) - 1, loc=mean, scale=error)
    assert [told.ratio, told.low, told.high] == pytest.approx(
        np.exp(np.array([mean, low, high], float))
    )
    spread = logs.std(ddof=1) * math.sqrt(1 + 1 / len(logs))
    for blocks in (2, 3, 100):
        wide = between(one, other, blocks=blocks, level=0.9)
        degrees = min(len(logs), blocks) - 1
        low, high = stats.t.interval(0.9, degrees, loc=mean, scale=spread)
        assert [wide.low, wide.high] == pytest.approx(np.exp(np.array([low, high], float)))
    assert math.isnan(between(one, other, blocks=1, level=0.9).low)


def test_more_resamples_of_a_log_do_not_make_it_surer() -> None:
    """The width goes to what a log of as many jobs may be off by, and not to 0."""
    rng = np.random.default_rng(0)
    widths = {}
    for count in (10, 10_000):
        one = np.exp(rng.normal(0.02, 0.1, count))
        for blocks in (10_000, 0):
            found = between(one, np.ones(count), blocks=blocks, level=0.95)
            widths[count, blocks > 0] = found.high - found.low
    assert widths[10_000, False] < 0.01
    assert widths[10_000, True] == pytest.approx(2 * 1.96 * 0.1 * 1.02, rel=0.05)


def test_a_spread_is_not_below_zero() -> None:
    mean, low, high = spread_of(np.array([0.0, 0.0, 9.0]), blocks=50, level=0.95)
    assert (mean, low) == (3.0, 0.0)
    assert high > 9
    assert math.isnan(spread_of(np.array([1.0]), blocks=0, level=0.95)[1])


@pytest.mark.parametrize(
    ("low", "high", "sure", "none"),
    [
        (0.90, 0.96, True, False),
        (0.98, 1.02, False, False),
        (0.992, 0.998, False, True),
        (0.985, 0.999, False, False),  # more than chance, and too little to speak of
        (1.02, 1.04, True, False),
        (1.0, 1.0, False, True),
        (math.nan, math.nan, False, False),
    ],
)
def test_a_difference_below_one_percent_is_none_to_speak_of(
    low: float, high: float, sure: bool, none: bool
) -> None:
    found = Difference(math.sqrt(low * high), low, high, 10)
    assert (found.sure, found.none) == (sure, none)


def test_generators_are_drawn_and_logs_resampled() -> None:
    assert not one_source({"jobs": 5})[1]
    assert one_source(ap.generate_workload(jobs=5))[1]


@pytest.mark.parametrize("text", ["a100=8,16,h100=4", {"a100": [8, 16], "h100": 4}])
def test_changes_stand_apart(text: object) -> None:
    assert read_changes("add", text) == {"a100": [8, 16], "h100": [4]}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", ["8", "a100", "a100=x", "a100=0", "=8", "a100=8,,4", 3, {"a": "8"}, ""]
)
def test_changes_that_are_none_are_refused(wrong: object) -> None:
    with pytest.raises(InputError, match="add"):
        read_changes("add", wrong)  # type: ignore[arg-type]


def test_clusters_are_changed_one_by_one() -> None:
    today = ap.Cluster({"v100": 8, "k80": 4}, prices_per_gpu_hour={"k80": 0.5})
    found = changed_clusters(today, "a100=8", "k80=2,4")
    assert {name: dict(each.gpus) for name, each in found.items()} == {
        "today": {"v100": 8, "k80": 4},
        "+8 a100": {"v100": 8, "k80": 4, "a100": 8},
        "-2 k80": {"v100": 8, "k80": 2},
        "-4 k80": {"v100": 8},
    }
    assert found["-2 k80"].prices_per_gpu_hour["k80"] == 0.5
    with pytest.raises(InputError, match=r"takes 5 k80 away.*has 4"):
        changed_clusters(today, None, "k80=5")
    with pytest.raises(InputError, match=r"'v10'.*v100"):
        changed_clusters(today, None, "v10=5")
