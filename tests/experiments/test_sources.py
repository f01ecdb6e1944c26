from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.experiments import compare
from apportion.experiments.fitted_jobs import made_for
from apportion.experiments.sources import sources_of
from apportion.sim import (
    ElasticWorkload,
    Workload,
    generate_rack_workload,
    generate_workload,
    resample,
)

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = Cluster({"v100": 4, "p100": 4, "k80": 4})
JOBS = {"jobs": 20, "jobs_per_hour": 6.0, "scale_factors": "gavel"}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace that tells no job types, with one job that is too large for the cluster."""
    file = tmp_path / "week.csv"
    rows = "".join(f"j{n},{100 * n},{600 + 60 * n},{1 + n % 2}\n" for n in range(8))
    file.write_text(f"job_id,submission_time,duration,num_gpu\n{rows}large,50,600,8\n")
    return file


def made(workload: Any, load: float = 1.0, seed: int = 0, *, resample: bool = False) -> Workload:
    (source,) = sources_of(workload)
    found = made_for(source, CLUSTER, load, seed, resample=resample)
    assert isinstance(found, Workload)
    return found


@pytest.mark.parametrize("load", [0.5, 1.5, 3.0])
def test_a_load_divides_the_arrival_times_of_a_trace_and_nothing_else(
    load: float, trace: Path
) -> None:
    plain, loaded = made(trace).jobs, made(trace, load).jobs
    assert loaded["arrival_s"].tolist() == [time / load for time in plain["arrival_s"]]
    pd.testing.assert_frame_equal(loaded.drop(columns="arrival_s"), plain.drop(columns="arrival_s"))


def test_a_load_multiplies_the_rate_of_generated_arrivals_and_keeps_the_jobs() -> None:
    plain, loaded = made(JOBS, 1.0, 5).jobs, made(JOBS, 4.0, 5).jobs
    np.testing.assert_allclose(loaded["arrival_s"] * 4, plain["arrival_s"], rtol=1e-12)
    pd.testing.assert_frame_equal(loaded.drop(columns="arrival_s"), plain.drop(columns="arrival_s"))
    fourfold = generate_workload(**{**JOBS, "jobs_per_hour": 24.0}, seed=5)  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(loaded, fourfold.jobs)


def test_a_load_shortens_the_days_of_diurnal_arrivals_as_it_raises_their_rate() -> None:
    diurnal = {"jobs": 48, "arrivals": "diurnal"}
    by_days, by_rate = {**diurnal, "days": 2.0}, {**diurnal, "jobs_per_hour": 1.0}
    shorter = generate_workload(jobs=48, arrivals="diurnal", days=1.0, seed=3).jobs
    for given in (by_days, by_rate):
        pd.testing.assert_frame_equal(made(given, 2.0, 3).jobs, shorter)


def test_a_load_divides_the_arrival_times_of_a_workload_for_racks() -> None:
    racks = {"kind": "racks", "jobs": 10, "arrivals": "poisson", "span_s": 6000.0}
    plain, loaded = made(racks, 1.0, 5), made(racks, 4.0, 5)
    alone = generate_rack_workload(jobs=10, arrivals="poisson", span_s=6000.0, seed=5)
    pd.testing.assert_frame_equal(plain.jobs, alone.jobs)
    pd.testing.assert_frame_equal(plain.throughputs, alone.throughputs)
    np.testing.assert_allclose(loaded.jobs["arrival_s"] * 4, plain.jobs["arrival_s"], rtol=1e-12)
    changed = loaded.jobs.drop(columns="arrival_s")
    pd.testing.assert_frame_equal(changed, plain.jobs.drop(columns="arrival_s"))


def test_what_would_draw_the_same_first_workload_has_marks_of_its_own() -> None:
    racks: dict[str, Any] = {"kind": "racks", "jobs": 3, "name": "racks"}
    # None of the three jobs of seed 0 is as large; with another seed one may be.
    limited = {**racks, "max_scale_factor": 48}
    assert made(racks).jobs.equals(made(limited).jobs)
    spelt_out = {**racks, "arrivals": "batch"}
    marks = [source.mark for given in (racks, limited, spelt_out) for source in sources_of(given)]
    assert marks[0] == marks[2] != marks[1]


def test_a_load_divides_the_arrival_times_of_a_workload_that_is_there() -> None:
    workload = generate_workload(**JOBS)  # type: ignore[arg-type]
    for seed in (0, 1):
        loaded = made(workload, 2.0, seed)
        assert (loaded.jobs["arrival_s"] * 2).equals(workload.jobs["arrival_s"])
        assert loaded.jobs["job_type"].equals(workload.jobs["job_type"])


def test_a_seed_draws_the_job_types_of_a_trace_and_not_its_arrivals(trace: Path) -> None:
    first, second = made(trace, seed=1).jobs, made(trace, seed=2).jobs
    assert first["arrival_s"].equals(second["arrival_s"])
    assert not first["job_type"].equals(second["job_type"])
    assert made(trace, seed=1).jobs.equals(first)


def test_jobs_of_a_trace_that_are_too_large_are_dropped_unless_that_is_an_error(
    trace: Path,
) -> None:
    assert "large" not in made(trace).jobs.index
    assert "large" in made({"path": trace, "too_large": "error"}).jobs.index
    assert made({"path": str(trace), "limit": 3}).jobs.index.tolist() == ["j0", "j1"]


def test_speeds_of_a_mapping_are_those_of_the_workload_on_the_cluster() -> None:
    speed = {"a100": 2.3, "h100": 4.1}
    cluster = Cluster({"a100": 4, "h100": 2})
    (source,) = sources_of({**JOBS, "speed": speed})
    found = made_for(source, cluster, 1.0, 0, resample=False)
    expected = generate_workload(**JOBS, seed=0).on(cluster, speed)  # type: ignore[arg-type]
    assert isinstance(found, Workload)
    pd.testing.assert_frame_equal(found.throughputs, expected.throughputs)
    assert source.record()["speed"] == speed
    with pytest.raises(InputError, match=r"'h100'.*Valid: a100"):
        made_for(source, Cluster({"a100": 4}), 1.0, 0, resample=False)


def test_elastic_jobs_have_factors_and_jobs_of_unknown_types_none() -> None:
    cluster = Cluster({"a100": 8})
    (elastic,) = sources_of({"kind": "elastic", "jobs": 2, "speed": {"a100": 2.0}})
    known = made_for(elastic, cluster, 1.0, 0, resample=False)
    assert isinstance(known, ElasticWorkload)
    assert known.relative_speed == {"a100": 2.0}
    jobs = generate_workload(jobs=2, seed=0)
    own = Workload("own", jobs.jobs, jobs.throughputs[["v100"]].set_axis(["mine"], axis=1))
    with pytest.raises(InputError, match=r"times that of a v100, and the .* but of 'mine'"):
        own.on(cluster, speed={"a100": 2.0})


def test_resampling_keeps_arrivals_and_takes_whole_jobs(trace: Path) -> None:
    plain = made(trace, 2.0).jobs
    resampled = made(trace, 2.0, resample=True).jobs
    other = made(trace, 2.0, seed=1, resample=True).jobs
    assert resampled["arrival_s"].tolist() == plain["arrival_s"].tolist()
    durations = [sorted(jobs["duration_s"]) for jobs in (plain, resampled, other)]
    assert durations[0] != durations[1] != durations[2]
    # Durations tell the jobs of this trace apart: all of a job comes with it.
    by_duration = plain.set_index("duration_s")["scale_factor"]
    expected = by_duration.loc[resampled["duration_s"].to_numpy()].tolist()
    assert resampled["scale_factor"].tolist() == expected
    pd.testing.assert_frame_equal(resampled, resample(made(trace, 2.0), 0).jobs)


def test_names_are_those_of_files_and_workloads_unless_given(trace: Path) -> None:
    workload = generate_workload(jobs=2, seed=3)
    given = [trace, workload, JOBS, {"path": trace, "name": "again"}, {**JOBS, "name": "more"}]
    names = [source.name for source in sources_of(given)]
    assert names == ["week", "generated-3", "generated", "again", "more"]


def test_paths_do_not_depend_on_the_folder_of_the_worker(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (source,) = sources_of(trace.name)
    monkeypatch.chdir("/")
    assert len(source.made(1.0, 0)) == 9


@pytest.mark.parametrize(
    ("workloads", "message"),
    [
        ([], "list of workloads is empty"),
        ([3], "Cannot make a workload of a int"),
        (3, "Cannot make a workload of a int"),
        ({"job": 3}, "'job'. Did you mean 'jobs'"),
        ({"path": "a.csv", "limits": 3}, "'limits'. Did you mean 'limit'"),
        ({"jobs": 3, "seed": 1}, "give seeds="),
        ({"jobs": 3, "too_large": "drops"}, "Did you mean 'drop'"),
        ({"jobs": 3, "speed": 2.0}, "speed is 2.0; it must be a mapping"),
        ({"jobs": 3, "kind": "rack"}, "Did you mean 'racks'"),
        ({"kind": "racks", "jobs_per_hour": 3.0}, "'jobs_per_hour'"),
        ({"path": "a.csv", "kind": "racks"}, "'kind'"),
        (["a/week.csv", "b/week.csv"], "Two workloads are named 'week'"),
    ],
    ids=[
        "none",
        "number",
        "bare number",
        "option",
        "trace option",
        "seed",
        "too large",
        "speed",
        "kind",
        "other kind",
        "trace kind",
        "names",
    ],
)
def test_what_is_no_workload(workloads: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sources_of(workloads)


class Derived(Workload):
    """A workload of one's own."""


class Tables:
    """What has the tables of a workload, and does nothing."""

    elastic = False

    def __init__(self, workload: Workload) -> None:
        self.name, self.jobs, self.throughputs = "own", workload.jobs, workload.throughputs


def test_workloads_of_ones_own_are_derived() -> None:
    known = generate_workload(jobs=6, seed=0)
    own: Any = Derived(known.name, known.jobs, known.throughputs)
    found, expected = (
        compare(["fifo"], each, CLUSTER, n_jobs=2)["fifo"].jobs for each in (own, known)
    )
    pd.testing.assert_frame_equal(found, expected)
    assert [each.name for each in sources_of([own])] == [known.name]
    for refuses in (sources_of, lambda own: compare(["fifo"], own, CLUSTER)):
        with pytest.raises(InputError, match="Workload"):
            refuses(Tables(known))
