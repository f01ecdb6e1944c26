"""Elastic workloads in comparisons, sweeps, files and on the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.cli import main
from apportion.estimators.goodput import MeasuredSteps
from apportion.experiments.plan import deciders_of, simulations_of
from apportion.experiments.simulations import Setup
from apportion.experiments.sources import sources_of
from apportion.sim.fingerprint import workload_fingerprint
from apportion.sim.traces.elastic import is_elastic

CLUSTER = "t4=8"
CLOCKS = ["policy_seconds", "wall_seconds"]


def short(jobs: int = 3, seed: int = 0) -> ap.ElasticWorkload:
    drawn = ap.generate_elastic_workload(jobs, hours=0.2, seed=seed)
    return replace(drawn, jobs=drawn.jobs.assign(application="small_vision", batch=128, gpus=2))


@pytest.mark.slow
def test_a_comparison_is_its_simulations_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ap.compare(["sia", "deepboot"], short(), CLUSTER, out=tmp_path, n_jobs=1)
    for policy in found:
        alone = ap.simulate(policy, short(), CLUSTER)
        pd.testing.assert_frame_equal(found[policy].jobs, alone.jobs, check_exact=True)
    summary = found.summary().set_index("policy")
    jobs = found.jobs().groupby("policy")
    for name in ("restarts", "paused_s"):
        np.testing.assert_allclose(summary[name], jobs[name].mean().loc[summary.index])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "restarts<br>" in page
    assert "paused<br>" in page
    # A row of what was finished is taken, whatever it says; only the other policy runs.
    other = tmp_path / "other"
    failing: dict[str, Any] = {"out": other, "n_jobs": 1, "raise_on_failure": False}
    with monkeypatch.context() as patch:
        patch.setattr(ap.DeepBoot, "objective", lambda *_: 1 / 0)
        first = ap.compare(["sia", "deepboot"], short(), CLUSTER, **failing)
    assert list(first.errors) == ["deepboot"]
    with monkeypatch.context() as patch:
        patch.setattr(ap.Sia, "objective", lambda *_: 1 / 0)
        again = ap.compare(["sia", "deepboot"], short(), CLUSTER, **failing)
    pd.testing.assert_frame_equal(again.jobs(), found.jobs(), check_exact=True)


@pytest.mark.parametrize("given", ["asked.csv", "asked.csv(gpus=4)"])
def test_a_csv_of_requests_that_has_changed_is_another_run(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, cluster, settings = short(1), ap.Cluster.of(CLUSTER), {"serving": given}
    (source,), deciders = sources_of([jobs]), deciders_of(["sia"], [jobs])
    setup = Setup({source.name: source}, cluster, settings)

    def mark() -> str:
        (cell,) = simulations_of(source, deciders, setup, [1.0], [0])
        return cell.fingerprint

    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"arrival_s": [1.0], "service": "s", "duration_s": 2.0})
    table.to_csv("asked.csv", index=False)
    before = mark()
    assert mark() == before
    table.assign(duration_s=3.0).to_csv("asked.csv", index=False)
    assert mark() != before


def test_generated_by_kind_and_mixed_with_others() -> None:
    swept = ap.sweep(
        ["deepboot"], {"kind": "elastic", "jobs": 1, "hours": 0.01}, CLUSTER, seeds=[3], n_jobs=1
    )
    alone = ap.simulate("deepboot", ap.generate_elastic_workload(1, hours=0.01, seed=3), CLUSTER)
    assert swept.table()["mean_jct_s"].item() == alone.summary()["mean_jct_s"]
    other = {"jobs": 5, "name": "other"}
    with pytest.raises(ap.InputError, match="Elastic jobs run by mechanism='configurations'"):
        ap.sweep(["deepboot"], [short(), other], "v100=8")
    with pytest.raises(ap.InputError, match=r"workload\.rigid"):
        ap.compare(["fifo"], short(), CLUSTER, mechanism="rounds")
    with pytest.raises(ap.InputError, match="is for elastic jobs"):
        ap.compare(["sia"], ap.generate_workload(jobs=2), "v100=8", mechanism="configurations")


def measured() -> ap.ElasticWorkload:
    """Jobs of an application whose steps were measured, and not by a model."""
    drawn = short(4)
    model = drawn.applications["small_vision"]
    rows = []
    for text in ("1", "2", "4", "44"):
        gang = [int(digit) for digit in text]
        for local in (32, 100, 1024):
            found = model.steps.at(gang, local)
            rows.append((text, local, found.step_s, found.synchronisation_s))
    columns = ["placement", "local_batch", "step_s", "synchronisation_s"]
    placements = pd.DataFrame(rows, columns=columns)
    larger = pd.DataFrame(columns=["nodes", "gpus", *columns[1:]], dtype=float)
    steps = MeasuredSteps("small_vision", placements, larger)
    return replace(
        drawn,
        applications={"small_vision": replace(model, steps=steps)},
        jobs=drawn.jobs.assign(weight=[1.0, 0.1 + 0.2, 2.0, 3.0], rigid=[True, False, True, False]),
        relative_speed={"a100": 1 / 3},
        notes=("drawn",),
    )


@pytest.mark.parametrize("name", ["jobs.csv", "jobs.csv.gz"])
@pytest.mark.parametrize("made", [short, measured])
def test_what_is_saved_comes_back_bit_by_bit(name: str, made: Any, tmp_path: Path) -> None:
    workload = made()
    file, beside = workload.save(tmp_path / name)
    assert is_elastic(file)
    assert beside.name == "jobs.applications.json"
    read = ap.read_elastic_workload(file)
    assert workload_fingerprint(read) == workload_fingerprint(workload)
    assert read.notes == workload.notes
    assert dict(read.relative_speed) == dict(workload.relative_speed)
    for each in ("small_vision",):
        one, other = (w.applications[each].steps.at([2], 77) for w in (read, workload))
        assert one == other
    assert len(ap.read_elastic_workload(file, limit=2)) == 2


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    file, beside = short().save(tmp_path / "jobs.csv")
    with pytest.raises(ap.InputError, match=r"must end in \.csv"):
        short().save(tmp_path / "jobs.json")
    beside.write_text('{"applications": {}}')
    with pytest.raises(ap.InputError, match="holds no applications"):
        ap.read_elastic_workload(file)
    beside.unlink()
    with pytest.raises(ap.InputError, match="give profiles="):
        ap.read_elastic_workload(file)
    with pytest.raises(ap.InputError, match="small_vision"):
        ap.read_elastic_workload(file, tmp_path)
    (tmp_path / "other.csv").write_text(file.read_text())
    with pytest.raises(ap.InputError, match="must have one csv"):
        ap.read_elastic_workload(tmp_path)
    text = "name,time,application,num_replicas,batch_size,rigid\na,0,x,1,8,perhaps\n"
    (tmp_path / "rigid.csv").write_text(text)
    with pytest.raises(ap.InputError, match="line 2: rigid is 'perhaps'"):
        ap.read_elastic_workload(tmp_path / "rigid.csv", tmp_path)


@pytest.mark.thorough
def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    drawn = ["--generate-jobs", "1", "--jobs-per-hour", "60"]
    assert main(["workload", "generate", "jobs.csv", "--kind", "elastic", *drawn]) == 0
    assert "1 elastic jobs" in capsys.readouterr().out
    assert main(["workload", "describe", "jobs.csv", "--cluster", CLUSTER]) == 0
    words = ["--workload", "jobs.csv", "--cluster", CLUSTER, "--jobs", "1", "--policies", "sia"]
    assert main(["compare", *words]) == 0
    shown = capsys.readouterr().out
    assert "restarts" in shown
    first = pd.read_csv("out/compare/summary.csv").drop(columns=CLOCKS)
    assert main(["compare", "--config", "out/compare/run.json", "--jobs", "1"]) == 0
    assert "no longer" not in capsys.readouterr().out
    second = pd.read_csv("out/compare/summary.csv").drop(columns=CLOCKS)
    pd.testing.assert_frame_equal(first, second)
    assert main(["sweep", *words, "--seeds", "0"]) == 0
    swept = pd.read_csv("out/sweep/runs.csv")
    assert swept["mean_jct_s"].tolist() == first["mean_jct_s"].tolist()
    words[1] = "jobs.csv(throughputs=x.csv)"
    assert main(["compare", *words]) == 2
    assert "throughputs does nothing to elastic jobs" in capsys.readouterr().err
    Path("others.csv").write_text("job,job_type,total_steps\na,x,1\n")
    assert main(["compare", "--workload", "others.csv(profiles=p)"]) == 2
    assert "profiles is for elastic jobs" in capsys.readouterr().err
    for option, value in (("--days", "2"), ("--durations", "gavel")):
        assert main(["workload", "generate", "x.csv", "--kind", "elastic", option, value]) == 2
    assert main(["workload", "generate", "x.csv", "--kind", "elastic", "--jobs-per-hour", "0"]) == 2


def test_requests_given_as_a_table_are_no_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = pd.DataFrame({"arrival_s": [100.0], "service": ["a"], "duration_s": [10.0]})
    origin: Any = {"workload": "jobs.csv"}
    how: dict[str, Any] = {"n_jobs": 1, "origin": origin}
    plain = ap.compare(["deepboot"], short(1), CLUSTER, **how)
    found = ap.compare(["deepboot"], short(1), CLUSTER, serving=asked, **how)
    assert plain.command is not None
    assert (found.command, found.own) == (None, ["serving"])
    found.to_json(tmp_path / "run.json")
    assert main(["compare", "--config", str(tmp_path / "run.json")]) == 2
    assert "holds no command of a comparison" in capsys.readouterr().err


def test_defaults_of_elastic_jobs_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    short(1).save("jobs.csv")
    assert main(["sweep", "--workload", "jobs.csv", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["pollux", "sia", "deepboot", "optimus"]
    assert main(["compare", "--workload", "jobs.csv", "--jobs", "1", "--policies", "sia"]) == 0
    assert "1 jobs on t4=64" in capsys.readouterr().out
    assert main(["compare", "--workload", "jobs.csv", "--racks", "2"]) == 2
    assert "without racks" in capsys.readouterr().err


def test_rigid_jobs_on_several_types_are_as_fast_as_the_types() -> None:
    workload = replace(short(), relative_speed={"a100": 3.0})
    one = workload.rigid("t4").throughputs["t4"]
    both = workload.rigid(["t4", "a100"]).throughputs
    np.testing.assert_allclose(both["a100"], 3 * one)
    np.testing.assert_allclose(both["t4"], one)
    described = workload.describe("t4=8,a100=4")["value"]
    assert described["jobs"] == 3
    slower = workload.describe()["value"]["duration on fastest type, mean"]
    assert described["duration on fastest type, mean"] == pytest.approx(slower / 3)
