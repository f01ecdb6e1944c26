from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import InputError
from apportion.sim.generators.generate import generate_workload
from apportion.sim.workload_tables import throughput_rows

MANY = 20_000


def shares(values: pd.Series) -> dict[float, float]:
    found = values.value_counts(normalize=True)
    return dict(zip(found.index.astype(float), found.astype(float), strict=True))


def test_same_seed_same_workload_and_other_seed_another() -> None:
    first, same, other = (generate_workload(seed=seed, jobs_per_hour=5) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first.jobs, same.jobs)
    assert not first.jobs.equals(other.jobs)
    assert "seed 1" in first.notes[0]


def test_gavel_shares_of_gpu_counts() -> None:
    jobs = generate_workload(jobs=MANY, scale_factors="gavel").jobs
    assert shares(jobs["scale_factor"]) == pytest.approx(
        {1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05}, abs=0.01
    )


def test_gavel_durations_are_log_uniform_in_two_ranges() -> None:
    minutes = generate_workload(jobs=MANY).jobs["duration_s"] / 60
    assert minutes.between(10**1.5, 10**4).all()
    assert (minutes < 10**3).mean() == pytest.approx(0.8, abs=0.01)
    short, long = minutes[minutes < 10**3], minutes[minutes >= 10**3]
    assert np.log10(short).mean() == pytest.approx(2.25, abs=0.02)
    assert np.log10(long).mean() == pytest.approx(3.5, abs=0.02)
    # The variance of a uniform distribution is its squared width over 12.
    assert np.log10(short).var() == pytest.approx(1.5**2 / 12, rel=0.03)


def test_philly_durations_and_gpu_counts_meet_the_figures_of_the_trace() -> None:
    jobs = generate_workload(jobs=MANY, scale_factors="philly", durations="philly").jobs
    quantiles = jobs["duration_s"].quantile([0.5, 0.9])
    np.testing.assert_allclose(quantiles, [11_221, 193_574], rtol=0.08)
    assert jobs["duration_s"].max() <= 4_628_239
    # The counts of the 15,264 jobs, of which 15 have yet other numbers of GPUs.
    counts = {1: 10_480, 2: 463, 4: 2_044, 8: 1_916, 16: 255, 32: 91}
    expected = {gpus: count / 15_264 for gpus, count in counts.items()}
    assert shares(jobs["scale_factor"]) == pytest.approx(expected, abs=0.01)


def test_arrivals_are_poisson() -> None:
    arrivals = generate_workload(jobs=MANY, jobs_per_hour=12).jobs["arrival_s"]
    gaps = np.diff(arrivals)
    assert arrivals.iloc[0] == 0
    assert gaps.mean() == pytest.approx(300, rel=0.02)
    assert gaps.std() == pytest.approx(300, rel=0.03)


def test_steps_are_the_duration_at_the_speed_of_the_reference() -> None:
    workload = generate_workload(jobs=300, scale_factors="gavel", reference="k80", seed=4)
    rows = throughput_rows(workload.jobs, workload.throughputs)
    speed = workload.throughputs["k80"].to_numpy()[rows]
    np.testing.assert_allclose(
        workload.jobs["total_steps"] / speed, workload.jobs["duration_s"], rtol=1e-12
    )


def test_weights_and_deadlines_of_gavel() -> None:
    plain = generate_workload(jobs=MANY)
    assert (plain.jobs["weight"] == 1).all()
    assert "deadline_s" not in plain.jobs
    jobs = generate_workload(jobs=MANY, weights="gavel", deadlines="gavel").jobs
    assert shares(jobs["weight"]) == pytest.approx({1: 0.8, 5: 0.2}, abs=0.01)
    factors = (jobs["deadline_s"] / jobs["duration_s"]).round(9)
    assert shares(factors) == pytest.approx({1.2: 1 / 3, 2: 1 / 3, 10: 1 / 3}, abs=0.01)


@pytest.mark.parametrize(
    ("change", "affected"),
    [
        ({"jobs_per_hour": 3.0}, {"arrival_s"}),
        ({"weights": "gavel"}, {"weight"}),
        ({"deadlines": "gavel"}, {"deadline_s"}),
        ({"durations": "philly"}, {"duration_s", "total_steps"}),
        ({"scale_factors": "gavel"}, {"scale_factor", "job_type", "total_steps"}),
    ],
)
def test_a_change_of_one_option_leaves_the_others(
    change: dict[str, Any], affected: set[str]
) -> None:
    before, after = generate_workload().jobs, generate_workload(**change).jobs
    columns = before.columns.union(after.columns)
    differs = {
        name
        for name in columns
        if name not in before or name not in after or not before[name].equals(after[name])
    }
    assert differs == affected


@pytest.mark.thorough
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 60), st.integers(0, 2**32), st.sampled_from(["single", "gavel", "philly"]))
def test_more_jobs_leave_the_first_ones(count: int, seed: int, scale_factors: str) -> None:
    options: dict[str, Any] = {
        "seed": seed,
        "jobs_per_hour": 2.0,
        "scale_factors": scale_factors,
        "weights": "gavel",
    }
    few = generate_workload(jobs=count, **options)
    more = generate_workload(jobs=count + 10, **options)
    pd.testing.assert_frame_equal(few.jobs, more.jobs.head(count))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 0}, "jobs is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"scale_factors": "gavell"}, "'gavell'. Did you mean 'gavel'"),
        ({"scale_factors": {}}, "shares must not all be 0"),
        ({"scale_factors": {1: -1.0}}, "share in scale_factors is -1"),
        ({"scale_factors": {1.5: 1.0}}, "whole number >= 1"),
        ({"weights": {0: 1.0}}, "weight"),
        ({"deadlines": "sometimes"}, "Valid: none, gavel"),
        ({"accelerators": ["a100"]}, "'a100'. Valid: v100"),
        ({"reference": "h100"}, "reference accelerator 'h100'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate_workload(**options)
