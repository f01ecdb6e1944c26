from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from apportion import InputError
from apportion.sim.inference import (
    Bursts,
    DiurnalRate,
    checked_requests,
    generate_requests,
)

DAY_S = 86_400.0


def test_the_declared_curve_by_hand() -> None:
    rate = DiurnalRate(2.0, day=0.5, half_day=0.25, day_phase_s=0.0, half_day_phase_s=3600.0)
    assert rate.at([0.0, 6 * 3600.0]) == pytest.approx(
        [2 * (1 - 0.25 * 0.5), 2 * (1 + 0.5 + 0.25 * 0.5)]
    )
    times = np.linspace(0, DAY_S, 2001)
    assert rate.at(times).max() <= rate.most
    assert rate.at(times)[:-1].mean() == pytest.approx(2.0)
    assert DiurnalRate(1.0, 0.7, 0.3).at(times).min() >= 0


@pytest.mark.parametrize("seed", [0, 1])
def test_the_drawn_rate_follows_the_declared_curve(seed: int) -> None:
    rate = DiurnalRate(1.0, day=0.6, half_day=0.3)
    drawn = generate_requests(rate, length_s=2 * DAY_S, seed=seed)["arrival_s"].to_numpy()
    edges = np.arange(0, 2 * DAY_S + 1, 1800.0)
    counts = np.histogram(drawn, edges)[0]
    fine = rate.at(np.arange(0, 2 * DAY_S, 10.0) + 5.0).reshape(-1, 180).sum(axis=1) * 10.0
    scores = (counts - fine) / np.sqrt(fine)
    assert np.abs(scores).max() < 4.5
    assert stats.chi2.sf(float(scores @ scores), scores.size) > 1e-3
    assert fine.max() / fine.min() > 5  # it is a day and a night


def test_noise_keeps_the_mean_and_changes_every_window() -> None:
    rate = DiurnalRate(2.0, 0.0, 0.0)
    bursts = Bursts(noise=0.5)
    counts = []
    for seed in range(4):
        drawn = generate_requests(rate, bursts=bursts, seed=seed)["arrival_s"]
        counts.append(np.histogram(drawn, np.arange(0, DAY_S + 1, 300.0))[0])
    level = np.concatenate(counts) / 600.0
    spread = float(np.sqrt(np.exp(0.25) - 1))
    assert level.mean() == pytest.approx(1.0, abs=5 * spread / np.sqrt(level.size))
    assert level.std() == pytest.approx(spread, rel=0.2)


def test_spikes_raise_the_rate_for_their_time() -> None:
    bursts = Bursts(spikes_per_day=3.0, spike_factor=5.0, spike_s=1200.0)
    drawn = generate_requests(DiurnalRate(3.0, 0.0, 0.0), bursts=bursts, seed=1)["arrival_s"]
    level = np.histogram(drawn, np.arange(0, DAY_S + 1, 300.0))[0] / 900.0
    assert 3.5 < level.max() < 6.0
    assert 2 <= (level > 4).sum() <= 6 * 4
    assert np.median(level) == pytest.approx(1.0, abs=0.05)


def test_services_follow_zipf_and_durations_their_mean() -> None:
    means = {"a": 2.0, "b": 4.0, "c": 8.0}
    for shape in ("constant", "uniform", "lognormal"):
        drawn = generate_requests(
            DiurnalRate(0.5), services=["a", "b", "c"], mean_duration_s=means, durations=shape
        )
        share = drawn["service"].value_counts(normalize=True)
        expected = np.array([1, 1 / 2, 1 / 3]) / (1 + 1 / 2 + 1 / 3)
        assert share[["a", "b", "c"]].to_numpy() == pytest.approx(expected, abs=0.015)
        mean = drawn.groupby("service")["duration_s"].mean()
        assert mean.to_numpy() == pytest.approx(list(means.values()), rel=0.03)
        relative = drawn["duration_s"] / drawn["service"].map(means)
        if shape == "uniform":
            assert relative.between(0.5, 1.5).all()
        if shape == "constant":
            assert (relative == 1).all()
    even = generate_requests(DiurnalRate(0.5), services=4, zipf=0.0)["service"].value_counts()
    assert even.to_numpy() == pytest.approx(even.sum() / 4, rel=0.05)


def test_same_seed_same_table_and_other_services_leave_arrivals_alone() -> None:
    bursts = Bursts(0.2, spikes_per_day=2)
    one = generate_requests(DiurnalRate(0.2), seed=7, bursts=bursts)
    pd.testing.assert_frame_equal(one, generate_requests(DiurnalRate(0.2), seed=7, bursts=bursts))
    other = generate_requests(DiurnalRate(0.2), seed=7, bursts=bursts, zipf=2, services=9)
    assert np.array_equal(other["arrival_s"], one["arrival_s"])
    assert one["arrival_s"].is_monotonic_increasing
    assert one["arrival_s"].between(0, DAY_S).all()


def test_mistakes_in_tables_are_named() -> None:
    row: dict[str, Any] = {"arrival_s": [1.0], "service": ["a"], "duration_s": [5.0]}
    changes: list[tuple[dict[str, Any], str]] = [
        ({"slo_s": [4.0]}, "Request 0 has an SLO of 4 s, but takes 5 s"),
        ({"duration_s": [0.0]}, "duration_s of request 0 is 0.0; it must be a number > 0"),
        ({"arrival_s": [np.nan]}, "arrival_s of request 0 is nan"),
        ({"service": [" "]}, "Request 0 names no service"),
        ({"durations_s": [1.0]}, "Unknown column of the requests 'durations_s'"),
    ]
    for change, words in changes:
        with pytest.raises(InputError, match=words):
            checked_requests(pd.DataFrame({**row, **change}))
    with pytest.raises(InputError, match="neither a column 'duration_s' nor tokens"):
        checked_requests(pd.DataFrame({"arrival_s": [1.0], "service": ["a"]}))


def test_mistakes_in_options_are_named() -> None:
    with pytest.raises(InputError, match="together above 1"):
        DiurnalRate(1.0, 0.8, 0.3)
    with pytest.raises(InputError, match="The mean rate is 0"):
        DiurnalRate(0.0)
    with pytest.raises(InputError, match="requests would be drawn"):
        generate_requests(DiurnalRate(1e6))
    with pytest.raises(InputError, match="Unknown service among the mean durations 'b'"):
        generate_requests(DiurnalRate(1.0), services=["a", "b"], mean_duration_s={"a": 1.0})
    with pytest.raises(InputError, match="none twice"):
        generate_requests(DiurnalRate(1.0), services=["a", "a"])
    with pytest.raises(InputError, match="spread is 1"):
        generate_requests(DiurnalRate(1.0), spread=1.0)
    with pytest.raises(InputError, match=r"slo_factor is 0\.5"):
        generate_requests(DiurnalRate(1.0), slo_factor=0.5)
