"""How far policies are from the floor, beside it computed by itself."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

import apportion as ap

CLUSTER = "v100=4,k80=4"


def some_jobs(**what: Any) -> ap.Workload:
    return ap.generate_workload(jobs=16, jobs_per_hour=6.0, seed=4, **what)


@pytest.mark.thorough
def test_each_is_above_the_floor_by_what_is_said() -> None:
    jobs, labels = some_jobs(), ["shortest_job_first", "fcfs"]
    compared = ap.compare(labels, jobs, CLUSTER, n_jobs=1)
    bound = ap.floor(jobs, CLUSTER)
    table = compared.above_floor()
    assert list(table.index) == labels
    for label, row in table.iterrows():
        figures = compared[str(label)].summary()
        assert row["mean_jct"] == pytest.approx(figures["mean_jct_s"] / bound.mean_jct_s - 1)
        assert row["makespan"] == pytest.approx(figures["makespan_s"] / bound.makespan_s - 1)
    assert (table > -1e-9).all(axis=None)
    best = table["mean_jct"].idxmin()
    assert compared.notes[-1].startswith(f"{best} is within ")
    said = float(compared.notes[-1].partition("within ")[2].partition(" %")[0]) / 100
    assert table["mean_jct"].min() <= said <= table["mean_jct"].min() + 0.001
    assert compared.notes[-1] in repr(compared)


@pytest.mark.thorough
def test_those_that_share_gpus_have_no_floor() -> None:
    jobs = replace(some_jobs(), pairs=ap.generate_pair_throughputs(accelerators=["v100", "k80"]))
    alone, shared = "max_min_fairness", "max_min_fairness_space_sharing"
    compared = ap.compare([alone, shared], jobs, CLUSTER, n_jobs=1)
    assert list(compared.above_floor().index) == [alone]
    only = ap.compare([shared], jobs, CLUSTER, n_jobs=1)
    assert only.above_floor().empty
    assert not any("anything possible" in note for note in only.notes)


@pytest.mark.thorough
def test_elastic_jobs_have_none() -> None:
    jobs = ap.generate_elastic_workload(jobs=4, seed=0)
    compared = ap.compare(["pollux"], jobs, "t4=8", n_jobs=1)
    assert not any("within" in note for note in compared.notes)
    with pytest.raises(ap.InputError, match="elastic"):
        compared.above_floor()


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_nobody_by_leases_is_below_the_floor(seed: int) -> None:
    drawn = ap.generate_rack_workload(jobs=12 + 4 * seed, seed=seed)
    racks = ap.Cluster.of_racks(1 + seed % 3, machines_per_rack=2 + seed)
    free: Any = {"network": ["table1", "alpha_beta"][seed % 2], "preemption_overhead_seconds": 0.0}
    labels = ["dally", "dally_no_wait", "tiresias", "gandiva", "max_min_fairness", "fifo"]
    compared = ap.compare(labels, drawn.fitting(racks), racks, n_jobs=1, **free)
    table = compared.above_floor()
    assert list(table.index) == labels
    assert ((table > -1e-9) | table.isna()).to_numpy().all()  # links leave no floor under fairness
    assert table[["mean_jct", "makespan"]].notna().to_numpy().all()


@pytest.mark.parametrize("arrival_s", [[1e8] * 3, [0.0, 1e8, 1e8], [1e8, 1e8 + 1e-7, 2e8]])
def test_jobs_shorter_than_the_clock_tells_are_no_accident(arrival_s: list[float]) -> None:
    keys = pd.MultiIndex.from_tuples([("t", 1)], names=["job_type", "scale_factor"])
    speed = pd.DataFrame([[1e6]], index=keys, columns=["a"])
    told = {"job_type": "t", "scale_factor": 1, "total_steps": 1e-3, "arrival_s": arrival_s}
    compared = ap.compare(["fcfs"], ap.Workload("x", pd.DataFrame(told), speed), "a=2", n_jobs=1)
    assert compared.floor.mean_jct_s == pytest.approx(1e-9, rel=0.6)
    assert "of anything possible" in compared.notes[-1]


@pytest.mark.thorough
def test_all_three_figures_are_told() -> None:
    jobs = some_jobs()
    compared = ap.compare(["shortest_job_first", "makespan"], jobs, CLUSTER, n_jobs=1)
    table, said = compared.above_floor(), compared.notes[-1].split("; ")
    assert len(said) == 3
    for name, column, text in zip(
        ("by makespan", "by max FTF"), ("makespan", "ftf_max"), said[1:], strict=True
    ):
        assert text.startswith(f"{name} {table[column].idxmin()} is ")
        least = float(table[column].min())
        if least < 1:
            assert 0 <= float(text.split()[-2]) / 100 - max(least, 0) <= 0.001 + 1e-9
        else:
            assert text.endswith(f"at most {least + 1:.3g} times the least")


@pytest.mark.thorough
def test_a_sweep_tells_it_of_means_over_seeds_at_each_load() -> None:
    labels, what = ["fcfs", "shortest_job_first"], {"jobs": 12, "jobs_per_hour": 6.0}
    swept = ap.sweep(labels, what, CLUSTER, seeds=[3, 4], loads=[1.0, 2.0], n_jobs=1)
    (lines,) = swept.possible().values()
    assert [line.split(":")[0] for line in lines] == ["load 1", "load 2"]
    for line, load in zip(lines, (1.0, 2.0), strict=True):
        drawn = [
            ap.generate_workload(jobs=12, jobs_per_hour=6.0 * load, seed=seed) for seed in (3, 4)
        ]
        compared = [ap.compare(labels, each, CLUSTER, n_jobs=1) for each in drawn]
        means_s = pd.concat([each.summary().set_index("policy") for each in compared])["mean_jct_s"]
        floors_s = [each.floor.mean_jct_s for each in compared]
        above = means_s.groupby(level=0).mean() / (sum(floors_s) / 2) - 1
        said = line.split("over 2 seeds, ")[1]
        assert said.startswith(f"{above.idxmin()} is within ")
        assert 0 <= float(said.split()[3]) / 100 - float(above.min()) <= 0.001 + 1e-9
    measured = ap.sweep(labels[:1], {**what, "measure": [0.0, 1.0]}, CLUSTER, n_jobs=1)
    assert measured.possible() == {}
