from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "a100=24,v100=16"
PRICES = {name: ap.accelerators().loc[name, "usd_per_hour"] for name in ("a100", "v100")}


def slurm_log(folder: Path, jobs: int = 60) -> tuple[Path, pd.DataFrame]:
    """Write a log of jobs that wait, and return it as a table of seconds."""
    rng = np.random.default_rng(3)
    submit = np.sort(rng.integers(0, 40_000, jobs))
    start = submit + rng.integers(0, 9_000, jobs)
    table = pd.DataFrame(
        {
            "submit": submit,
            "start": start,
            "end": start + rng.integers(5, 20_000, jobs),
            "gpus": rng.choice([1, 2, 4, 8], jobs),
            "kind": rng.choice(["a100", "v100"], jobs),
            "user": rng.choice(["ana", "ben"], jobs),
        }
    )
    times = table[["submit", "start", "end"]].add(1_760_000_000)
    dates = {
        name: pd.to_datetime(each, unit="s").dt.strftime("%FT%T") for name, each in times.items()
    }
    tres = "cpu=4,gres/gpu:" + table["kind"] + "=" + table["gpus"].astype(str)
    columns = {"JobID": table.index.astype(str), "User": table["user"], "State": "COMPLETED"}
    columns |= {"Submit": dates["submit"], "Start": dates["start"], "End": dates["end"]}
    file = folder / "sacct.txt"
    pd.DataFrame(columns | {"AllocTRES": tres}).to_csv(file, sep="|", index=False)
    table[["submit", "start", "end"]] -= submit[0]
    return file, table


@pytest.mark.parametrize("mechanism", ["rounds", "exact", "queue", "leases", "iterations"])
def test_the_figures_are_those_of_the_log(tmp_path: Path, mechanism: str) -> None:
    file, log = slurm_log(tmp_path)
    run = ap.simulate("as_recorded", ap.read_workload(file), CLUSTER, mechanism=mechanism)
    jct_s = log["end"] - log["submit"]
    gpu_s = log["gpus"] * (log["end"] - log["start"])
    makespan_s = log["end"].max() - log["submit"].min()
    expected = {
        "mean_jct_s": jct_s.mean(),
        "median_jct_s": jct_s.median(),
        "p95_jct_s": jct_s.quantile(0.95),
        "p99_jct_s": jct_s.quantile(0.99),
        "makespan_s": makespan_s,
        "queueing_s": (log["start"] - log["submit"]).mean(),
        "utilization": gpu_s.sum() / (40 * makespan_s),
        "cost": (gpu_s / 3600 * log["kind"].map(PRICES)).sum(),
        "preemptions": 0,
    }
    figures = run.summary()
    assert {name: figures[name] for name in expected} == pytest.approx(expected, rel=1e-9)
    ordered = run.jobs.set_axis(run.jobs.index.astype(int)).sort_index()
    for name, column in (("start_s", "start"), ("completion_s", "end"), ("arrival_s", "submit")):
        np.testing.assert_allclose(ordered[name], log[column], rtol=0, atol=1e-3)
    by_user = run.by("user")
    waits = (log["start"] - log["submit"]).groupby(log["user"]).mean()
    np.testing.assert_allclose(by_user["queueing_s"], waits, atol=1e-3)


@pytest.mark.thorough
def test_it_is_a_row_beside_policies_and_schedulers(tmp_path: Path) -> None:
    file, log = slurm_log(tmp_path, 25)
    workload = ap.read_workload(file)
    for others in (["max_min_fairness", "fifo"], ["fcfs", "easy"]):
        compared = ap.compare(["as_recorded", *others], workload, CLUSTER, n_jobs=1)
        summary: Any = compared.summary().set_index("policy")
        assert list(summary.index) == ["as_recorded", *others]
        wait_s = (log["start"] - log["submit"]).mean()
        assert summary.loc["as_recorded", "queueing_s"] == pytest.approx(wait_s)
        assert set(compared.schedule()["policy"]) == set(others)
    compared.save(tmp_path / "out")
    rows = pd.read_csv(tmp_path / "out" / "jobs.csv").pivot(index="job", columns="policy")
    longer_s = rows["jct_s"]["as_recorded"] - rows["jct_s"]["easy"]
    assert len(longer_s) == 25
    assert longer_s.notna().all()


@pytest.mark.thorough
def test_a_cluster_without_the_types_of_the_log_changes_none_of_its_times(tmp_path: Path) -> None:
    file, log = slurm_log(tmp_path, 25)
    workload = ap.read_workload(file)
    compared = ap.compare(["as_recorded", "fcfs"], workload, "a100=6,h100=8", n_jobs=1)
    jobs = compared["as_recorded"].jobs
    ended = jobs["completion_s"].set_axis(jobs.index.astype(int)).sort_index()
    np.testing.assert_allclose(ended, log["end"], atol=1e-3)
    on_v100 = float((log["end"] - log["start"])[log["kind"] == "v100"].sum())
    assert jobs["h100_s"].sum() == pytest.approx(on_v100)  # of which there are most
    told = " ".join(compared.notes)
    assert "jobs ran on v100, which the cluster does not have" in told
    events = pd.concat(
        [
            pd.Series(-log["gpus"].to_numpy(), log["end"]),
            pd.Series(log["gpus"].to_numpy(), log["start"]),
        ]
    )
    most = events.groupby(level=0).sum().sort_index().cumsum().max()
    assert f"up to {most} GPUs in use at once, and the cluster has 14" in told


def test_a_log_of_more_gpus_than_there_are_has_no_impossible_figures(tmp_path: Path) -> None:
    file, log = slurm_log(tmp_path)
    workload = ap.read_workload(file)
    compared = ap.compare(
        ["as_recorded", "fcfs"], workload, "a100=4,v100=8", n_jobs=1, start_costs=[5]
    )
    summary: Any = compared.summary().set_index("policy")
    gpu_s = (log["gpus"] * (log["end"] - log["start"])).sum()
    assert gpu_s > 12 * summary.loc["as_recorded", "makespan_s"]  # busy would be above 100 %
    assert summary.loc["as_recorded", ["utilization", "ftf_max"]].isna().all()
    assert summary.loc["fcfs", ["utilization", "ftf_max"]].notna().all()
    assert compared.runs["as_recorded"].by("user")["ftf_mean"].isna().all()
    table = compared.human_table()
    assert set(table.marks[0]) == {""}  # though no mean completion time is as short
    costs = compared.start_costs()
    assert costs is not None
    assert set(costs.marks[0]) == {""}
    assert table.cells[0][table.header.index("busy")] == "-"
    assert table.cells[0][table.header.index("max FTF")] == "-"
    enough = ap.simulate("as_recorded", workload, "a100=47,v100=47").summary()
    assert np.isfinite([enough["utilization"], enough["ftf_max"]]).all()


def test_what_no_log_tells_is_refused_in_words(tmp_path: Path) -> None:
    drawn = ap.generate_workload(jobs=3)
    with pytest.raises(InputError, match=r"has no recorded_start_s.*comes from no log"):
        ap.simulate("as_recorded", drawn, "v100=8")
    file, _ = slurm_log(tmp_path, 12)
    workload = ap.read_workload(file)
    early = workload.jobs.assign(recorded_start_s=workload.jobs["recorded_start_s"] - 99_999)
    with pytest.raises(InputError, match="recorded_start_s"):
        ap.Workload("early", early, workload.throughputs)
    never = workload.jobs.assign(recorded_end_s=np.nan)
    with pytest.raises(InputError, match=r"Job '\d+' has recorded_end_s = nan; for 'as_recorded'"):
        ap.simulate("as_recorded", ap.Workload("n", never, workload.throughputs), CLUSTER)
