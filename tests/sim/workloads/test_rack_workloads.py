from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from apportion.errors import InputError
from apportion.sim.generators.presets import generate_rack_workload
from apportion.sim.generators.resampling import resample
from apportion.sim.workload import Workload
from apportion.sim.workload_tables import throughput_rows

MANY = 50_000


def shares(values: pd.Series) -> dict[Any, float]:
    return {key: float(share) for key, share in values.value_counts(normalize=True).items()}


def test_batch_has_the_published_demands_and_models() -> None:
    jobs = generate_rack_workload(jobs=MANY).jobs
    # Counts among the 500 jobs of the published list.
    demands = {1: 270, 2: 13, 4: 52, 8: 109, 16: 42, 32: 11, 40: 1, 48: 1, 56: 1}
    expected = {gpus: count / 500 for gpus, count in demands.items()}
    assert shares(jobs["scale_factor"]) == pytest.approx(expected, abs=0.006)
    assert jobs["scale_factor"].mean() == pytest.approx(2544 / 500, rel=0.03)
    models = {"MobileNetV3": 0.25, "BERT-large": 0.25, "ResNet50": 0.25}
    models |= {"AlexNet": 0.106, "ResNet18": 0.076, "VGG11": 0.068}
    assert shares(jobs["job_type"]) == pytest.approx(models, abs=0.006)


def test_ideal_completion_times_have_the_published_quantiles_mean_and_gpu_seconds() -> None:
    jobs = generate_rack_workload(jobs=MANY, seed=3).jobs
    length, gpus = jobs["duration_s"], jobs["scale_factor"]
    found = {
        "least": length.min(),
        "median": length.median(),
        "mean": length.mean(),
        "p95": length.quantile(0.95),
        "most": length.max(),
        "GPU-seconds of 500 jobs": 500 * (length * gpus).mean(),
    }
    published = dict(zip(found, (479, 14_369, 52_714, 203_053, 761_516, 4.70e7), strict=True))
    print(pd.DataFrame({"drawn": found, "published": published}).round(0))
    assert found == pytest.approx(published, rel=0.04)
    assert length.between(479, 761_516).all()


def test_poisson_arrivals_come_evenly_over_the_span() -> None:
    workload = generate_rack_workload(arrivals="poisson", jobs=MANY, span_s=1000.0)
    arrivals = workload.jobs["arrival_s"].to_numpy()
    assert (np.diff(arrivals) >= 0).all()
    assert arrivals[0] >= 0
    assert arrivals[-1] <= 1000
    # The k-th of n uniform times is k / (n + 1) of the span in the mean.
    even = 1000 * np.arange(1, MANY + 1) / (MANY + 1)
    assert np.abs(arrivals - even).max() < 10
    # A Poisson process has gaps whose standard deviation is their mean.
    gaps = np.diff(arrivals)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.03)


# Milliseconds of an iteration as profiled, and microseconds as scaled down for Table I.
PROFILED_MS = {"VGG11": 235, "AlexNet": 52, "MobileNetV3": 8.3, "ResNet18": 122, "ResNet50": 343}
SCALED_US = {
    "VGG11": 3640,
    "AlexNet": 1035,
    "MobileNetV3": 53.0,
    "ResNet18": 149,
    "ResNet50": 11645,
}


@pytest.mark.parametrize(
    ("compute", "iteration_s"),
    [
        ("profiled", {name: ms / 1e3 for name, ms in PROFILED_MS.items()} | {"BERT-large": 15.196}),
        ("scaled", {name: us / 1e6 for name, us in SCALED_US.items()} | {"BERT-large": 1.703e-3}),
    ],
    ids=["profiled", "scaled"],
)
def test_steps_at_the_speed_of_one_iteration_take_the_ideal_time(
    compute: Any, iteration_s: dict[str, float]
) -> None:
    workload = generate_rack_workload(jobs=300, compute=compute)
    seconds = workload.jobs["job_type"].map(iteration_s)
    ideal_s = workload.jobs["total_steps"] * seconds
    np.testing.assert_allclose(ideal_s, workload.jobs["duration_s"], rtol=2e-3)
    rows = throughput_rows(workload.jobs, workload.throughputs)
    speed = workload.throughputs["gpu"].to_numpy()[rows]
    np.testing.assert_allclose(speed * seconds, 1, rtol=2e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arrivals": "bacth"}, "Did you mean 'batch'"),
        ({"compute": "raw"}, "Valid: profiled, scaled"),
        ({"jobs": 0}, "jobs is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"span_s": 0.0}, "span_s is 0"),
        ({"max_scale_factor": 0}, "max_scale_factor is 0"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate_rack_workload(**options)


def test_resampling_keeps_arrivals_and_draws_whole_jobs() -> None:
    workload = generate_rack_workload(arrivals="poisson", jobs=200)
    drawn = resample(workload, 5)
    assert drawn.jobs.index.is_unique
    assert drawn.jobs["arrival_s"].tolist() == workload.jobs["arrival_s"].tolist()
    # Lengths are all different: they tell which job a row is a copy of.
    before = workload.jobs.reset_index().set_index("duration_s")
    origin = before.loc[drawn.jobs["duration_s"]]
    assert origin["scale_factor"].tolist() == drawn.jobs["scale_factor"].tolist()
    assert origin["job_type"].tolist() == drawn.jobs["job_type"].tolist()
    assert origin["job"].astype(str).tolist() == [name.split("-")[0] for name in drawn.jobs.index]
    assert "seed 5" in drawn.notes[-1]


def test_resampling_leaves_out_a_share_of_one_over_e() -> None:
    workload = generate_rack_workload(jobs=2000)
    drawn = [resample(workload, seed).jobs["duration_s"].nunique() / 2000 for seed in range(5)]
    assert np.mean(drawn) == pytest.approx(1 - np.exp(-1), abs=0.01)
    assert len(set(drawn)) > 1


def test_resampling_is_seeded_and_ids_of_any_kind_stay_unique() -> None:
    table = pd.DataFrame(
        {"job_type": "a", "total_steps": [1.0, 2.0, 3.0]}, index=["a", "a-1", "a-1-1"]
    )
    speeds = pd.DataFrame({"gpu": [1.0]}, index=pd.MultiIndex.from_tuples([("a", 1)]))
    workload = Workload("three", table, speeds)
    for seed in range(20):
        jobs = resample(workload, seed).jobs
        assert jobs.index.is_unique
        pd.testing.assert_frame_equal(jobs, resample(workload, seed).jobs)
    with pytest.raises(InputError, match=r"seed is 0\.5"):
        resample(workload, 0.5)  # type: ignore[call-overload]
