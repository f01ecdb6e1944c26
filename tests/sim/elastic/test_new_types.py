"""Elastic jobs on GPUs that they were not measured on: by bandwidth, told, overridden, saved."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.cluster import ACCELERATORS
from apportion.errors import InputError
from apportion.experiments.fitted_jobs import fitted


def some_jobs() -> ap.ElasticWorkload:
    return ap.generate_elastic_workload(4, hours=1.0, seed=2)


@pytest.mark.thorough
def test_a_job_alone_takes_as_much_less_time_as_the_bandwidth_is_larger() -> None:
    """With one type at a time all of a run but its restarts is that many times as fast."""
    jobs = replace(some_jobs(), jobs=some_jobs().jobs.iloc[:1].assign(arrival_s=0.0))
    ratio = ACCELERATORS["a100"].bandwidth_gb_per_s / ACCELERATORS["t4"].bandwidth_gb_per_s
    free: dict[str, Any] = {"restart_seconds": 0.0}
    slow = ap.simulate("pollux", jobs, "t4=4", **free).jobs["jct_s"]
    fast = ap.simulate("pollux", jobs, "a100=4", **free).jobs["jct_s"]
    told = ap.simulate("pollux", replace(jobs, relative_speed={"a100": ratio}), "a100=4", **free)
    assert fast.tolist() == told.jobs["jct_s"].tolist()
    assert (slow / fast).to_numpy() == pytest.approx(ratio, rel=0.2)


def test_what_is_told_comes_first_and_notes_say_which_is_which() -> None:
    jobs = replace(some_jobs(), relative_speed={"v100": 2.5})
    known = fitted(jobs, ap.Cluster.of("t4=8,v100=4,a100=4,h100=4,mine=4"), speed={"h100": 9.0})
    assert known.relative_speed["v100"] == 2.5
    assert known.relative_speed["h100"] == 9.0
    assert known.relative_speed["a100"] == pytest.approx(1555 / 320)
    assert (known.relative_speed["t4"], known.relative_speed["mine"]) == (1.0, 1.0)
    modelled = [note for note in known.notes if "are modelled, not measured" in note]
    assert len(modelled) == 1
    assert modelled[0].startswith(
        "speeds on a100 are modelled, not measured: 4.9 times those on t4"
    )
    assert "speeds on h100: 9 times those that were measured, as given" in known.notes
    rigid = known.rigid(["t4", "a100"]).throughputs
    np.testing.assert_allclose(rigid["a100"] / rigid["t4"], 1555 / 320)


JOBS = "arrival_s,application,total_steps\n{0},bert,3600\n{1},bert,1800\n"
SPEEDS = "application,gpus,t4 samples/s,a100 (samples/sec)\nbert,1,1,4\nbert,2,1.8,7.5\n"


@pytest.mark.thorough
def test_files_of_users_as_they_come(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    jobs, speeds = tmp_path / "jobs.csv", tmp_path / "speeds.csv"
    cluster = ap.Cluster({"t4": 2, "a100": 2, "k80": 1})
    runs = []
    for first, separator in ((0, ","), (1_700_000_000, ";"), (0, "\t")):
        jobs.write_text(JOBS.format(first, first + 600).replace(",", separator))
        speeds.write_text(SPEEDS.replace(",", separator))
        runs.append(ap.simulate("sia", ap.read_elastic_workload(jobs, speeds), cluster).jobs)
    assert all(run.equals(runs[0]) for run in runs)
    assert runs[0]["arrival_s"].tolist() == [0.0, 600.0]
    assert set(caplog.messages) == {
        "The elastic jobs arrive at Unix times; arrivals are counted from the first.",
        "No job has a speed on k80, whose GPUs train nothing.",
    }


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("t4 samples/h", "'t4 samples/h' of the speeds is no accelerator type of its own"),
        ("t4,t4 steps/s", "'t4 steps/s' of the speeds is no accelerator type of its own"),
        ("t4 steps/s,a100 samples/s", "have several units; give one"),
    ],
)
def test_headers_that_are_no_types(tmp_path: Path, header: str, message: str) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS.format(0, 1))
    cells = ",1" * len(header.split(","))
    (tmp_path / "speeds.csv").write_text(f"application,gpus,{header}\nbert,1{cells}\n")
    with pytest.raises(InputError, match=message):
        ap.read_elastic_workload(tmp_path / "jobs.csv", tmp_path / "speeds.csv")
