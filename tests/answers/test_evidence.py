from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import apportion as ap
from apportion.answers.changes import changed_clusters, read_changes
from apportion.answers.evidence import between, one_source, spread_of
from apportion.errors import InputError


@pytest.mark.parametrize("seed", range(5))
def test_draws_have_students_interval_and_resamples_their_spread(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = np.exp(rng.normal(1, 0.3, (2, 4 + seed)))
    logs = np.log(one) - np.log(other)
    told = between(one, other, resampled=False, level=0.9)
    mean, error = logs.mean(), stats.sem(logs)
    low, high = stats.t.interval(0.9, len(logs) - 1, loc=mean, scale=error)
    assert [told.ratio, told.low, told.high] == pytest.approx(
        np.exp(np.array([mean, low, high], float))
    )
    wide = between(one, other, resampled=True, level=0.9)
    spread = logs.std(ddof=1) * math.sqrt(1 + 1 / len(logs))
    low, high = stats.t.interval(0.9, len(logs) - 1, loc=mean, scale=spread)
    assert [wide.low, wide.high] == pytest.approx(np.exp(np.array([low, high], float)))


def test_more_resamples_of_a_log_do_not_make_it_surer() -> None:
    """The width goes to what a log of as many jobs may be off by, and not to 0."""
    rng = np.random.default_rng(0)
    widths = {}
    for count in (10, 10_000):
        one = np.exp(rng.normal(0.02, 0.1, count))
        for resampled in (True, False):
            found = between(one, np.ones(count), resampled=resampled, level=0.95)
            widths[count, resampled] = found.high - found.low
    assert widths[10_000, False] < 0.01
    assert widths[10_000, True] == pytest.approx(2 * 1.96 * 0.1 * 1.02, rel=0.05)


def test_a_spread_is_not_below_zero() -> None:
    mean, low, high = spread_of(np.array([0.0, 0.0, 9.0]), resampled=True, level=0.95)
    assert (mean, low) == (3.0, 0.0)
    assert high > 9
    assert math.isnan(spread_of(np.array([1.0]), resampled=False, level=0.95)[1])


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
