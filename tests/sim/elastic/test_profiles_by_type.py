"""Applications measured on several types, and speeds as users have them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap
from apportion.cluster import Cluster
from apportion.elastic import MeasuredApplication, ModelledSteps, StepTimes
from apportion.errors import InputError
from apportion.sim.traces.elastic import is_elastic

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = Cluster({"t4": 8, "a100": 8}, {"t4": 4, "a100": 8})
FACTOR = 4.0  # a power of two, so that both ways have the same floats


def drawn(seed: int) -> ap.ElasticWorkload:
    return ap.generate_elastic_workload(8, hours=1.0, seed=seed)


def faster(application: MeasuredApplication, factor: float) -> MeasuredApplication:
    """The same application where every part of a step takes `factor` times less."""
    old = application.steps
    assert isinstance(old, ModelledSteps)
    seconds = ("alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r")
    parts = {name: getattr(old.times, name) / factor for name in seconds}
    times = StepTimes(**parts, gamma=old.times.gamma)
    return replace(application, steps=ModelledSteps(old.name, times, old.local_most))


def by_profiles(workload: ap.ElasticWorkload) -> ap.ElasticWorkload:
    """Say by profiles of the second type what a ratio says elsewhere."""
    told = {
        name: replace(each, on_types={"a100": faster(each, FACTOR)})
        for name, each in workload.applications.items()
    }
    return replace(workload, applications=told, relative_speed={"t4": 1.0})


@pytest.mark.thorough
@pytest.mark.parametrize("policy", sampled(["sia", "pollux", "tiresias"], 3))
def test_a_profile_of_a_type_says_what_a_ratio_says(policy: str) -> None:
    """Of jobs alone, and nearly: models are fitted to each, and choose nearly the same batches."""
    plain = drawn(0)
    for application, job in plain.jobs.drop_duplicates("application").iterrows():
        alone = replace(plain, jobs=plain.jobs.loc[[application]].assign(arrival_s=0.0))
        ratio = replace(alone, relative_speed={"t4": 1.0, "a100": FACTOR})
        runs = [ap.simulate(policy, each, {"a100": 16}) for each in (ratio, by_profiles(alone))]
        first, second = (float(run.jobs["completion_s"].iloc[0]) for run in runs)
        assert first == pytest.approx(second, rel=0.05), job["application"]


JOBS = pd.DataFrame(
    {
        "arrival_s": [0.0, 10.0],
        "application": ["bert", "gpt"],
        "total_steps": [3600.0, 900.0],
        "project": ["a", "b"],
    },
    index=["x", "y"],
)
SPEEDS = pd.DataFrame(
    {
        "application": ["bert", "bert", "bert", "gpt", "gpt"],
        "gpus": [1, 2, 4, 2, 4],
        "t4": [1.0, 1.75, 3.0, np.nan, np.nan],
        "a100": [4.0, 7.0, 12.0, 0.5, 0.875],
    }
)


@pytest.mark.parametrize("policy", ["sia", "pollux", "deepboot", "optimus", "lyra"])
def test_a_job_alone_takes_what_its_table_says(policy: str) -> None:
    """With no pauses, steps over the speed of the GPUs that it held, stay by stay."""
    workload = ap.ElasticWorkload.from_table(JOBS.loc[["y"]], SPEEDS)
    how = ap.Configurations(restart_seconds=0.0, rescale_seconds=0.0)
    run = ap.simulate(policy, workload, CLUSTER, mechanism=how)
    speed = {2: 0.5, 3: 0.6875, 4: 0.875}  # on a100 only; three lie between what was told
    stays = run.schedule
    assert set(stays["accelerator"]) == {"a100"}
    held_s = (stays["end_s"] - stays["start_s"]).to_numpy(dtype=float)
    done = [held * speed[len(gpus)] for held, gpus in zip(held_s, stays["devices"], strict=True)]
    assert sum(done) == pytest.approx(900.0)


@pytest.mark.thorough
def test_tables_and_files_say_the_same(tmp_path: Path) -> None:
    JOBS.rename_axis("job").reset_index().to_csv(tmp_path / "mine.csv", index=False)
    SPEEDS.to_csv(tmp_path / "speeds.csv", index=False)
    told = SPEEDS.set_index(["application", "gpus"])
    ways = [
        ap.ElasticWorkload.from_table(JOBS, SPEEDS),
        ap.ElasticWorkload.from_table(JOBS, told),
        ap.ElasticWorkload.from_table(tmp_path / "mine.csv", str(tmp_path / "speeds.csv")),
    ]
    assert ways[2].name == "mine"
    runs = [ap.simulate("sia", each, CLUSTER).jobs["completion_s"].tolist() for each in ways]
    assert all(run == runs[0] for run in runs)
    ways[0].save(tmp_path / "kept.csv")
    again = ap.read_elastic_workload(tmp_path / "kept.csv")
    assert ap.simulate("sia", again, CLUSTER).jobs["completion_s"].tolist() == runs[0]


@pytest.mark.parametrize(
    ("speeds", "words"),
    [
        (SPEEDS.drop(columns="gpus"), "no column 'gpus'; the header is application,gpus,a100,t4"),
        (SPEEDS[["application", "gpus"]], "no column of an accelerator type"),
        (SPEEDS.assign(t4=[1.0, -1.0, 3.0, 0.0, 0.0]), "on 't4' in row 1 of the speeds is -1"),
        (SPEEDS.assign(gpus=[1, 1, 4, 2, 4]), "row 1 of the speeds: 'bert' with 1 GPUs"),
        (SPEEDS.assign(gpus=[1, 2.5, 4, 2, 4]), "gpus in row 1 of the speeds is 2.5"),
        (SPEEDS.iloc[:3], "application of job 'y' 'gpt'"),
        (SPEEDS.assign(t4=0.0, a100=0.0), "'bert' has no speed above 0"),
        (lambda *_: 1.0, "must be a pandas DataFrame"),
    ],
)
def test_what_is_no_table_is_refused(speeds: Any, words: str) -> None:
    with pytest.raises(InputError) as refused:
        ap.ElasticWorkload.from_table(JOBS, speeds)
    assert words in str(refused.value)


def test_a_wrong_line_of_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "speeds.csv"
    file.write_text("application,gpus,a100\nbert,1,4\nbert,two,7\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 3: gpus is 'two'"):
        ap.ElasticWorkload.from_table(JOBS, file)
    file.write_text("application,a100\nbert,4\n", encoding="utf-8")
    with pytest.raises(InputError, match="the header is application,gpus,a100,t4"):
        ap.ElasticWorkload.from_table(JOBS, file)


@pytest.mark.parametrize("goodputs", ["fitted", "one_type", "virtual_nodes"])
def test_what_is_told_by_type_is_not_measured_on_one(goodputs: str) -> None:
    workload = ap.ElasticWorkload.from_table(JOBS, SPEEDS)
    with pytest.raises(InputError, match=f"'bert' are told by number of GPUs.*{goodputs}"):
        ap.simulate("pollux", workload, CLUSTER, goodputs=goodputs)


def test_a_csv_of_speeds_is_a_profile(tmp_path: Path) -> None:
    JOBS.rename_axis("job").reset_index().to_csv(tmp_path / "jobs.csv", index=False)
    SPEEDS.to_csv(tmp_path / "speeds.csv", index=False)
    assert is_elastic(tmp_path / "jobs.csv")
    read = ap.read_elastic_workload(tmp_path / "jobs.csv", tmp_path / "speeds.csv")
    told = ap.ElasticWorkload.from_table(JOBS, SPEEDS)
    pd.testing.assert_frame_equal(read.jobs, told.jobs)
    pd.testing.assert_frame_equal(read.describe(), told.describe())
    with pytest.raises(InputError, match="application,gpus,a100,t4"):
        ap.read_elastic_workload(tmp_path / "jobs.csv")
