"""Prices over time against plain cvxpy, on the jobs that a run had when it asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap
from apportion.report import kinds_of, plot

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CLUSTER = "fast=2,slow=3"


def drawn(seed: int, count: int = 9) -> ap.Workload:
    rng = np.random.default_rng(seed)
    rows = [(kind, gpus) for kind in "abc" for gpus in (1, 2)]
    index = pd.MultiIndex.from_tuples(rows, names=["job_type", "scale_factor"])
    speed = {"fast": rng.uniform(2, 5, 6), "slow": rng.uniform(0.5, 2, 6)}
    jobs = pd.DataFrame(
        {
            "arrival_s": np.sort(rng.integers(0, 20, count) * 500.0),
            "job_type": rng.choice(list("abc"), count),
            "scale_factor": rng.choice([1, 1, 2], count),
            "total_steps": rng.integers(5, 60, count) * 1000.0,
            "weight": rng.choice([1.0, 3.0], count),
        },
        index=[f"job {number}" for number in rng.permutation(count)],
    )
    return ap.Workload("drawn", jobs, pd.DataFrame(speed, index=index))


def best(policy: str, load: ap.Workload, jobs: pd.DataFrame, gpus: Floats) -> float:
    """Return the optimum over these jobs, by the definition in Gavel's paper."""
    keys = zip(jobs["job_type"], jobs["scale_factor"], strict=True)
    speed = np.array([load.throughputs.loc[key, ["fast", "slow"]] for key in keys], dtype=float)
    gang, x = jobs["scale_factor"].to_numpy(float), cp.Variable(speed.shape, nonneg=True)
    made = cp.sum(cp.multiply(speed, x), axis=1)
    if policy == "max_min_fairness":
        equal = speed @ np.array([2.0, 3.0]) / 5.0  # at the equal share of the cluster as it is
        goal = cp.min(cp.multiply(gang / (jobs["weight"].to_numpy() * equal), made))
    else:
        goal = cp.sum(made)
    limits: Any = [cp.sum(x, axis=1) <= 1, gang @ x <= gpus]
    problem = cp.Problem(cp.Maximize(goal), limits)
    problem.solve(solver=cp.HIGHS)
    value: Any = problem.value
    return float(value)


def there(run: ap.Run, time_s: float) -> Any:
    """Return ids of the jobs that have come by a time and are not done."""
    jobs = run.jobs
    return jobs.index[(jobs["arrival_s"] <= time_s) & (jobs["completion_s"] > time_s)]


@pytest.mark.parametrize("policy", ["max_min_fairness", "max_total_throughput"])
@pytest.mark.parametrize(
    ("seed", "count"),
    sampled([(0, 9), (1, 9), (2, 24)], 2),  # 24: classes are kept warm
)
def test_prices_are_dual_values_of_plain_programs(policy: str, seed: int, count: int) -> None:
    load = drawn(seed, count)
    run = ap.simulate(policy, load, CLUSTER, record_prices=True)
    table, step = run.prices, 1e-3
    assert list(table.columns) == ["time_s", "jobs", "fast", "slow"]
    assert len(table) == run.solves
    assert table["time_s"].is_monotonic_increasing
    for time_s, jobs, *prices in table.iloc[:: max(1, len(table) // 5)].to_numpy(float).tolist():
        active = load.jobs.loc[there(run, time_s)]
        assert len(active) == jobs
        gpus = np.array([2.0, 3.0])
        now = best(policy, load, active, gpus)
        for kind, price in enumerate(prices):
            more = best(policy, load, active, gpus + step * np.eye(2)[kind])
            less = best(policy, load, active, gpus - step * np.eye(2)[kind])
            assert more - now <= step * price + 1e-8
            assert step * price <= now - less + 1e-8


@pytest.mark.parametrize("policy", ["max_min_fairness", "nash_welfare"])
@pytest.mark.parametrize("count", sampled([9, 20], 2))
def test_prices_are_those_of_a_solve(policy: str, count: int) -> None:
    load = drawn(4, count)
    run = ap.simulate(policy, load, CLUSTER, record_prices=True)
    row: Any = run.prices.iloc[len(run.prices) // 2]
    jobs = load.jobs.loc[there(run, row["time_s"])]
    speed = load.throughput_of(ap.Cluster.of(CLUSTER)).loc[jobs.index]
    told = jobs[["scale_factor", "weight"]]
    alone = ap.solve(policy, speed, workers=CLUSTER, jobs=told).prices
    assert [row["fast"], row["slow"]] == pytest.approx(list(alone), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("mechanism", ["rounds", "exact"])
def test_keeping_prices_changes_nothing_else(mechanism: str) -> None:
    load = drawn(5, 20)
    plain = ap.simulate("max_min_fairness", load, CLUSTER, mechanism=mechanism)
    kept = ap.simulate("max_min_fairness", load, CLUSTER, mechanism=mechanism, record_prices=True)
    pd.testing.assert_frame_equal(plain.jobs, kept.jobs)
    pd.testing.assert_frame_equal(plain.rounds, kept.rounds)
    assert "prices" not in plain.tables
    assert "record_prices" not in plain.settings
    with pytest.raises(ap.InputError, match="record_prices=True"):
        assert plain.prices is None


def test_the_order_of_jobs_and_types_changes_no_price() -> None:
    load = drawn(6, 20)
    plain = ap.simulate("makespan", load, CLUSTER, record_prices=True).prices
    turned = ap.Workload("t", load.jobs.iloc[::-1], load.throughputs[["slow", "fast"]])
    other = ap.simulate("makespan", turned, "slow=3,fast=2", record_prices=True).prices
    assert list(other.columns[2:]) == ["slow", "fast"]
    pd.testing.assert_frame_equal(other[plain.columns], plain, rtol=1e-9)


def test_who_has_no_prices_says_so() -> None:
    load = drawn(0)
    with pytest.raises(ap.InputError, match="'fcfs' solve no problem with prices"):
        ap.simulate("fcfs", load, CLUSTER, record_prices=True)
    with pytest.raises(ap.InputError, match="must be True or False"):
        ap.simulate("fifo", load, CLUSTER, record_prices="yes")  # type: ignore[arg-type]
    racks = ap.Cluster.of_racks(1, machines_per_rack=2)
    jobs = ap.generate_rack_workload(jobs=6, seed=0).fitting(racks)
    run = ap.simulate("dally_round", jobs, racks, record_prices=True)
    with pytest.raises(ap.InputError, match="'dally_round' has no prices"):
        assert run.prices is None


@pytest.mark.thorough
def test_elastic_jobs_and_tiers_have_prices_of_types() -> None:
    elastic = ap.generate_elastic_workload(jobs=6, seed=0)
    table = ap.simulate("pollux", elastic, "t4=8", record_prices=True).prices
    assert list(table.columns) == ["time_s", "jobs", "t4"]
    assert (table["t4"] >= 0).all()
    racks = ap.Cluster.of_racks(2, machines_per_rack=2)
    jobs = ap.generate_rack_workload(jobs=12, seed=0).fitting(racks)
    call: dict[str, Any] = {"mechanism": "leases", "record_prices": True}
    tiers = ap.simulate("max_min_fairness", jobs, racks, **call).prices
    assert tiers.columns[2] == racks.accelerators[0]
    assert len(tiers) > 1


@pytest.mark.thorough
def test_a_comparison_writes_and_draws_them(tmp_path: Path) -> None:
    names = ["max_min_fairness", "fcfs"]
    found = ap.compare(names, drawn(1), CLUSTER, n_jobs=1, record_prices=True, out=tmp_path)
    assert "fcfs" in " ".join(note for note in found.notes if "record_prices" in note)
    written = pd.read_csv(tmp_path / "prices.csv")
    own = found["max_min_fairness"].prices.reset_index()
    pd.testing.assert_frame_equal(written.drop(columns="policy"), own)
    assert '<figure class="prices">' in (tmp_path / "report.html").read_text()
    runs = dict(found.runs)
    assert "prices" in kinds_of(runs)
    plot(runs, "prices")
    del runs["max_min_fairness"]
    assert "prices" not in kinds_of(runs)
