from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.sim.generators.generate import generate_workload
from apportion.sim.traces import read_workload
from apportion.sim.workload import Workload

if TYPE_CHECKING:
    from pathlib import Path


def throughputs(**columns: list[float]) -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples([("lm", 1), ("lm", 4), ("gan", 1)])
    return pd.DataFrame(columns or {"v100": [10.0, 30.0, 2.0], "k80": [4.0, 8.0, 0.0]}, index=index)


def jobs(**columns: list[Any]) -> pd.DataFrame:
    table: dict[str, list[Any]] = {
        "arrival_s": [20.0, 0.0, 20.0],
        "job_type": ["lm", "lm", "gan"],
        "scale_factor": [1, 4, 1],
        "total_steps": [100.0, 300.0, 40.0],
    }
    return pd.DataFrame(table | columns, index=["a", "b", "c"])


def workload(**columns: list[Any]) -> Workload:
    return Workload("small", jobs(**columns), throughputs())


def test_jobs_are_sorted_by_arrival_and_defaults_filled_in() -> None:
    small = workload()
    assert list(small.jobs.index) == ["b", "a", "c"]
    assert small.jobs.index.name == "job"
    assert (small.jobs["weight"] == 1).all()
    bare = Workload("bare", jobs()[["job_type", "total_steps"]], throughputs())
    assert (bare.jobs["scale_factor"] == 1).all()
    assert (bare.jobs["arrival_s"] == 0).all()
    assert len(small) == 3


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"job_type": ["lm", "ln", "gan"]}, r"job 'b' \(scale factor 4\) 'ln'. Did you mean 'lm'"),
        ({"scale_factor": [1, 2, 1]}, r"Job 'b' is 'lm' with scale factor 2.*scale factor 1, 4"),
        ({"scale_factor": [1, 0, 1]}, r"'b' has scale_factor = .*whole number >= 1"),
        ({"total_steps": [1, 2, 0]}, r"'c' has total_steps"),
        ({"wieght": [1, 1, 1]}, r"'wieght'. Did you mean 'weight'"),
    ],
)
def test_bad_jobs_are_refused(columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        workload(**columns)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (throughputs(v100=[1.0, -2.0, 1.0]), r"\('lm', 4\) on 'v100' is -2.0.*>= 0"),
        (throughputs(v100=[1.0, np.nan, 1.0]), r"\('lm', 4\) on 'v100' is nan"),
        (throughputs().reset_index(drop=True), r"rows \(job_type, scale_factor\)"),
        (pd.concat([throughputs(), throughputs()]), r"Duplicate row.*\('lm', 1\)"),
        (throughputs().set_axis(["k80", "k80"], axis=1), "Duplicate accelerator.*'k80'"),
        (throughputs()[[]], "empty"),
        (throughputs().rename({4: 0}, level=1), r"row \('lm', 0\).*whole number >= 1"),
    ],
)
def test_bad_throughputs_are_refused(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Workload("small", jobs(), table)


def test_throughput_of_keeps_the_clusters_order_and_drops_types_that_are_too_small() -> None:
    steps_per_s = workload().throughput_of({"k80": 2, "v100": 8})
    expected = pd.DataFrame(
        {"k80": [0.0, 4.0, 0.0], "v100": [30.0, 10.0, 2.0]},
        index=pd.Index(["b", "a", "c"], name="job"),
    )
    pd.testing.assert_frame_equal(steps_per_s, expected)


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("v10=8", r"'v10'. Did you mean 'v100'"),
        ("k80=8", r"Job 'c' \('gan', scale factor 1\) runs on no accelerator of the cluster k80=8"),
        ("v100=2,k80=3", r"Job 'b' .*more GPUs than the cluster v100=2,k80=3 .*\(v100, k80\)"),
    ],
)
def test_throughput_of_names_the_job_that_cannot_run(cluster: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        workload().throughput_of(cluster)


def test_throughput_of_agrees_with_a_lookup_job_by_job() -> None:
    generated = generate_workload(jobs=200, scale_factors="gavel", seed=3)
    steps_per_s = generated.throughput_of("k80=4,v100=16")
    for job, row in generated.jobs.iterrows():
        speeds = generated.throughputs.loc[(row["job_type"], row["scale_factor"])]
        assert steps_per_s.at[job, "v100"] == speeds["v100"]
        assert steps_per_s.at[job, "k80"] == (speeds["k80"] if row["scale_factor"] <= 4 else 0)


def test_describe_gives_hand_computed_measures() -> None:
    measures = workload().describe("v100=8,k80=8")["value"]
    # Durations on the fastest type: 10, 10 and 20 s; work 4*10 + 1*10 + 1*20 = 70 GPU-seconds
    # over 20 s between the first arrival and the last.
    assert measures["jobs"] == 3
    assert measures["GPUs per job, mean"] == 2
    assert measures["jobs of 4 GPUs"] == pytest.approx(1 / 3)
    assert measures["duration on fastest type, longest"] == 20
    assert measures["arrival rate"] == pytest.approx(3 / 20 * 3600)
    assert measures["offered load"] == pytest.approx(3.5)
    assert measures["offered load of the cluster"] == pytest.approx(3.5 / 16)
    on_k80 = workload().describe(reference="k80")["value"]
    assert on_k80["duration on k80, mean"] == pytest.approx((300 / 8 + 100 / 4) / 2)


def test_to_frame_shows_the_speed_of_every_job() -> None:
    frame = workload().to_frame()
    assert frame["v100_steps_per_s"].to_dict() == {"b": 30.0, "a": 10.0, "c": 2.0}
    assert frame["k80_steps_per_s"].to_dict() == {"b": 8.0, "a": 4.0, "c": 0.0}


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_save_and_read_give_the_same_workload(tmp_path: Path, ending: str) -> None:
    saved = generate_workload(
        jobs=50, seed=5, jobs_per_hour=7, scale_factors="philly", deadlines="gavel"
    )
    written = saved.save(tmp_path / f"w{ending}")
    assert [path.name for path in written] == [f"w{ending}", "w.throughputs.csv"]
    again = read_workload(written[0])
    pd.testing.assert_frame_equal(again.jobs, saved.jobs)
    pd.testing.assert_frame_equal(again.throughputs, saved.throughputs)
    assert again.notes == saved.notes
    assert again.name == "w"


def test_jobs_that_are_too_large_for_a_cluster_can_be_left_out() -> None:
    workload = generate_workload(jobs=60, seed=2, scale_factors={1: 0.5, 8: 0.5})
    with pytest.raises(InputError, match="needs more GPUs"):
        workload.throughput_of({"v100": 4})
    small = workload.fitting({"v100": 4})
    assert set(small.jobs["scale_factor"]) == {1}
    left_out = len(workload) - len(small)
    assert small.notes[-1].startswith(f"{left_out} jobs left out")
    assert workload.fitting({"v100": 8}) is workload


@pytest.mark.parametrize(
    ("ids", "message"), [(["", "b", "c"], "job id is ''"), (["a", 1, "1"], "1 and '1'")]
)
def test_jobs_that_no_file_could_tell_apart_are_refused(ids: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Workload("small", jobs().set_index(pd.Index(ids)), throughputs())


@pytest.mark.parametrize("seed", range(4))
def test_speeds_of_jobs_on_a_cluster_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = throughputs(v100=[10.0, 30.0, 2.0], k80=[4.0, 8.0, 0.0], p100=[5.0, 0.0, 1.0])
    rows = [("lm", 1), ("lm", 4), ("gan", 1)]
    drawn = [rows[k] for k in rng.integers(3, size=20)]
    told = pd.DataFrame(drawn, columns=["job_type", "scale_factor"])
    told["total_steps"], told["runs_on"] = 10.0, rng.choice(["v100", "of another cluster"], 20)
    cluster = Cluster.of({"p100": int(rng.integers(1, 6)), "v100": 4})
    load = Workload("drawn", told, table)
    speeds = load.throughput_of(cluster)
    assert speeds.columns.tolist() == list(cluster.accelerators)
    by_row, found = table.to_dict("index"), speeds.to_dict("index")
    for job, row in load.jobs.to_dict("index").items():
        for name, count in cluster.gpus.items():
            anywhere = row["runs_on"] not in cluster.accelerators
            may = row["scale_factor"] <= count and (anywhere or row["runs_on"] == name)
            by_hand = by_row[row["job_type"], row["scale_factor"]][name] if may else 0.0
            assert found[job][name] == by_hand
