"""What others lose to a log's own schedule, and whose start its durations include."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.cli import main
from apportion.sim.traces.recorded_times import most_at_once

HEAD = "JobID|User|State|Submit|Start|End|TimelimitRaw|AllocTRES"


def log_of(file: Path, jobs: int = 40, *, every_s: int = 900, waits: bool = False) -> pd.DataFrame:
    """Write jobs of up to 800 s on one GPU each; return their times, seconds."""
    rng = np.random.default_rng(1)
    submit = every_s * np.arange(jobs)
    start = submit + (rng.integers(0, 3_000, jobs) if waits else 0)
    end = start + rng.integers(60, 800, jobs)
    rows = [HEAD]
    for job, times in enumerate(zip(submit, start, end, strict=True)):
        dates = [pd.Timestamp("2026-10-05") + pd.Timedelta(int(each), "s") for each in times]
        texts = "|".join(each.isoformat() for each in dates)
        user = "ana" if job % 3 else "ben"
        rows.append(f"{job}|{user}|COMPLETED|{texts}|20|cpu=4,gres/gpu:a100=1,gres/gpu=1")
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return pd.DataFrame({"submit": submit, "start": start, "end": end})


@pytest.mark.parametrize(
    ("label", "mechanism"),
    [("fcfs", "queue"), ("fifo", "rounds"), ("tiresias", "leases"), ("ada_srsf", "iterations")],
)
def test_a_first_start_is_in_the_duration_of_a_log(
    tmp_path: Path, label: str, mechanism: str
) -> None:
    log = log_of(tmp_path / "sacct.txt", 12)
    jobs = ap.read_workload(tmp_path / "sacct.txt").jobs
    assert jobs["start_included"].all()
    jobs = jobs.assign(job_type="ResNet-50", total_steps=jobs["duration_s"])
    index = pd.MultiIndex.from_tuples([("ResNet-50", 1)], names=["job_type", "scale_factor"])
    speeds = pd.DataFrame({"a100": 1.0}, index=index)
    workload = ap.Workload("log", jobs, speeds)
    cluster = ap.Cluster.of_racks(1, accelerator="a100")

    def jobs_of(load: ap.Workload, seconds: float) -> pd.DataFrame:
        told: dict[str, Any] = {"mechanism": mechanism, "preemption_overhead_seconds": seconds}
        return ap.simulate(label, load, cluster, **told).jobs

    charged, free = jobs_of(workload, 50.0), jobs_of(workload, 0.0)
    pd.testing.assert_frame_equal(charged, free)
    if mechanism == "queue":
        took_s = (log["end"] - log["start"]).to_numpy()
        np.testing.assert_allclose(charged["jct_s"].to_numpy(), took_s, atol=1e-3)
    own = jobs.drop(columns="start_included")
    every = jobs_of(ap.Workload("own", own, speeds), 50.0)
    assert (every["jct_s"] - free["jct_s"]).min() > 49


def test_restarts_are_charged_all_the_same() -> None:
    jobs = pd.DataFrame({"job_type": ["a", "a"], "total_steps": 3_600.0, "start_included": True})
    index = pd.MultiIndex.from_tuples([("a", 1)], names=["job_type", "scale_factor"])
    load = ap.Workload("two", jobs, pd.DataFrame({"v100": 1.0}, index=index))
    told: dict[str, Any] = {"preemption_overhead_seconds": 60.0, "round_seconds": 600.0}
    run = ap.simulate("max_min_fairness", load, "v100=1", **told)
    stays = run.schedule.groupby("job").size()
    assert stays.sum() > 4  # they take turns
    # The GPU is never idle, and each stay but the first of each job begins with a restart.
    assert run.jobs["completion_s"].max() == pytest.approx(7_200 + 60 * (stays - 1).sum())


def test_differences_are_those_of_the_jobs(tmp_path: Path) -> None:
    log = log_of(tmp_path / "sacct.txt", waits=True)
    workload = ap.read_workload(tmp_path / "sacct.txt")
    compared = ap.compare(["as_recorded", "fcfs"], workload, "a100=2", n_jobs=1)
    took_s = compared["fcfs"].jobs["jct_s"].to_numpy() - (log["end"] - log["submit"]).to_numpy()
    table = compared.differences_in_words("as_recorded")
    assert table is not None
    assert table.header[::3] == ("policy", "to", "to")
    ((_, mean, low, high, *_, sooner),) = table.cells
    batches = np.array([each.mean() for each in np.split(took_s, 10)])
    reach = 2.262157 * batches.std(ddof=1) / np.sqrt(10)  # Student's t of 9 degrees, 97.5 %
    scale = {"h": 3600.0, "s": 1.0}[table.units[1]]
    expected = [batches.mean(), batches.mean() - reach, batches.mean() + reach]
    found = [float(each) * scale for each in (mean, low, high)]
    assert found == pytest.approx(expected, abs=0.006 * scale)
    assert float(sooner) == pytest.approx(100 * (took_s < -1e-6).mean(), abs=0.5)
    assert compared.differences_in_words("fcfs") is not None
    alone = ap.compare(["as_recorded"], workload, "a100=2", n_jobs=1)
    assert alone.differences_in_words("as_recorded") is None
    assert "Against the log" in compared.to_html(sections=["against"])


@pytest.mark.thorough
def test_one_command_on_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log_of(Path("sacct.txt"), 20, every_s=300, waits=True)
    assert main(["compare", "--workload", "sacct.txt", "--jobs", "1"]) == 0
    printed = capsys.readouterr().out
    found = pd.read_csv("out/compare/summary.csv")["policy"].tolist()
    assert found[:4] == ["as_recorded", "slurm", "easy", "fcfs"]
    assert len(found) == 7
    workload = ap.read_workload("sacct.txt")
    assert f"a100={most_at_once(workload.jobs)}, 7 policies" in printed
    assert "later than by as_recorded (below 0: sooner)" in printed
    assert "the first start of a job is in the duration that its log has" in " ".join(
        printed.split()
    )
    assert set(pd.read_csv("out/compare/against.csv")["policy"]) == set(found[1:])


def two_types(file: Path, between: str = "|") -> pd.DataFrame:
    """Write jobs that each had a type of their own at once, which is what none but it gives."""
    rows = [between.join(["queued", "cards", "card", "began", "finished"])]
    for job in range(24):
        at = pd.Timestamp("2026-10-05") + pd.Timedelta(600 * job, "s")
        times = [at, at, at + pd.Timedelta(3_000 + 40 * job, "s")]
        queued, began, finished = (each.isoformat() for each in times)
        rows.append(between.join([queued, "1", "a100" if job % 2 else "v100", began, finished]))
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return ap.read_workload(file, columns=COLUMNS).jobs


COLUMNS = (
    "queued=arrival_s,cards=scale_factor,card=recorded_on,began=recorded_start_s,"
    "finished=recorded_end_s"
)


@pytest.mark.thorough
def test_jobs_are_held_to_the_type_of_their_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    jobs = two_types(Path("log.csv"), ";")
    pd.testing.assert_frame_equal(jobs, two_types(Path("bars.csv")))
    words = ["compare", "--workload", f"log.csv(columns='{COLUMNS}')", "--jobs", "1"]
    three = ["--cluster", "v100=8,a100=8", "--policies", "as_recorded,fcfs,max_min_fairness"]
    assert main([*words, *three]) == 0
    assert "may run a job on any type" in capsys.readouterr().out
    free = pd.read_csv("out/compare/jobs.csv")
    moved = free[(free["policy"] == "fcfs") & (free["job"] % 2 == 0)]
    assert (moved["a100_s"] > 0).all()  # v100 is never faster
    held = [*words, "--types", "recorded"]
    assert main([*held, *three]) == 0
    printed = capsys.readouterr().out
    assert "jobs run on the type of their log only" in printed
    assert "may run a job on any type" not in printed
    table = pd.read_csv("out/compare/jobs.csv")
    odd = table["job"] % 2 == 1
    assert (table.loc[odd, "v100_s"] == 0).all()
    assert (table.loc[~odd, "a100_s"] == 0).all()
    by_policy = table.pivot(index="job", columns="policy", values="jct_s")
    np.testing.assert_allclose(by_policy["fcfs"], by_policy["as_recorded"], atol=1e-3)
    again = Path("out/compare/run.json")
    assert main(["compare", "--config", str(again), "--jobs", "1", "--out", "again"]) == 0
    assert Path("again/jobs.csv").read_bytes() == Path("out/compare/jobs.csv").read_bytes()
    # A type that the cluster does not have holds nobody.
    assert main([*held, "--cluster", "h100=8", "--policies", "fcfs"]) == 0
    workload = ap.read_workload("log.csv", columns=COLUMNS)
    workload = ap.Workload("own", jobs.assign(runs_on="a100"), workload.throughputs)
    speed = workload.throughput_of("v100=8,a100=8")
    assert (speed["v100"] == 0).all()
    assert (speed["a100"] > 0).all()
    with pytest.raises(ap.InputError, match="name the type of each job"):
        ap.sweep(["fcfs"], {"jobs": 5, "types": "recorded"}, "v100=8", n_jobs=1)


def test_a_log_that_tells_some_starts_only_is_refused_before_anything_runs(tmp_path: Path) -> None:
    jobs = two_types(tmp_path / "log.csv")
    workload = ap.read_workload(tmp_path / "log.csv", columns=COLUMNS)
    jobs.loc[3, "recorded_start_s"] = np.nan
    workload = ap.Workload("some", jobs, workload.throughputs)
    with pytest.raises(ap.InputError, match="Job 3 has recorded_start_s = nan"):
        ap.compare(["fcfs", "as_recorded"], workload, "a100=8", out=tmp_path / "out", n_jobs=1)
    assert not (tmp_path / "out" / "summary.csv").exists()
