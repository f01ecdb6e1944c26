"""Floors are below every known schedule, and their formula is recomputed in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.seeds import ranges_of_seeds

import apportion as ap
from apportion.sim.floors import Floor, floor
from apportion.sim.floors.best_plans import best_plans
from apportion.sim.floors.bound import proved
from apportion.sim.floors.job_groups import JobGroups, coarse_cuts, halved
from apportion.sim.floors.prices import best_bound

if TYPE_CHECKING:
    from collections.abc import Iterable

DECIDERS = (
    "fcfs",
    "easy",
    "minimum_completion_time",
    "shortest_job_first",
    "max_min_fairness",
    "makespan",
)
SPEEDS = pd.DataFrame({"fast": [4.0, 3.0], "slow": [1.0, 2.0]}, index=["a", "b"])


def drawn(seed: int) -> ap.Workload:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 9))
    scale = rng.choice([1, 1, 2], count)
    table = pd.DataFrame(
        {
            "arrival_s": np.sort(rng.choice([0.0, 500.0, 4000.0], count) * rng.random(count)),
            "job_type": rng.choice(SPEEDS.index, count),
            "scale_factor": scale,
            "total_steps": rng.integers(1, 60, count) * 100.0,
            "weight": rng.choice([1.0, 3.0], count),
        },
        index=[f"job {number}" for number in range(count)],
    )
    rows = [(kind, gpus) for kind in SPEEDS.index for gpus in (1, 2)]
    index = pd.MultiIndex.from_tuples(rows, names=["job_type", "scale_factor"])
    speeds = pd.DataFrame([SPEEDS.loc[kind] * gpus**0.8 for kind, gpus in rows], index=index)
    return ap.Workload("drawn", table, speeds)


def groups(seed: int) -> JobGroups:
    cluster = ap.Cluster.of("fast=2,slow=3")
    return JobGroups.of(drawn(seed).in_steps(cluster), cluster)


@pytest.mark.parametrize("seeds", ranges_of_seeds(12, 200))
def test_no_schedule_is_better(seeds: Iterable[int]) -> None:
    for seed in seeds:
        load = drawn(seed)
        found = floor(load, "fast=2,slow=3")
        for decider in DECIDERS:
            jobs = ap.simulate(decider, load, "fast=2,slow=3").jobs
            jct_s = jobs["jct_s"].to_numpy()
            weight = load.jobs.loc[jobs.index, "weight"]
            last_s = jobs["completion_s"].max() - load.jobs["arrival_s"].min()
            assert found.mean_jct_s <= jct_s.mean() * (1 + 1e-12), (seed, decider)
            assert found.weighted_mean_jct_s <= np.average(jct_s, weights=weight) * (1 + 1e-12)
            assert found.makespan_s <= last_s * (1 + 1e-12), (seed, decider)


def test_a_generated_workload_on_three_types() -> None:
    load = ap.generate_workload(jobs=25, seed=1, jobs_per_hour=30.0)
    cluster = {"v100": 2, "p100": 2, "k80": 2}
    load = ap.Workload("few GPUs", load.jobs[load.jobs["scale_factor"] <= 2], load.throughputs)
    found = floor(load, cluster)
    for decider in DECIDERS:
        jobs = ap.simulate(decider, load, cluster).jobs
        assert found.mean_jct_s <= jobs["jct_s"].mean()


@pytest.mark.parametrize("seed", range(15))
def test_what_prices_prove_in_fractions(seed: int) -> None:
    jobs, rng = groups(seed), np.random.default_rng(seed)
    cuts = coarse_cuts(jobs.arrival_s.min(), jobs.arrival_s.max(), jobs.arrival_s.max() + 20_000)
    prices = rng.exponential(1.0, (len(cuts) - 1, 2)) * rng.choice([0.0, 1e-3, 1.0, 100.0])
    plans = best_plans(jobs, cuts, prices, jobs.weight)
    exact = -sum(
        Fraction(prices[i, kind]) * Fraction(jobs.gpus[kind]) * _length(cuts, i)
        for i in range(len(cuts) - 1)
        for kind in range(2)
    )
    for job in range(len(jobs.count)):
        exact += Fraction(jobs.count[job]) * _of_a_job(jobs, job, cuts, prices, plans)
    bound, _ = proved(jobs, cuts, prices, jobs.weight, plans)
    assert Fraction(float(bound)) <= exact
    alone = sum(jobs.count * jobs.weight * jobs.least_s)
    paid = float((prices * jobs.gpus * np.diff(cuts)[:, None]).sum())
    assert float(exact) - bound <= 1e-9 * (alone + paid + abs(bound))


def _length(cuts: np.ndarray, interval: int) -> Fraction:
    return Fraction(cuts[interval + 1]) - Fraction(cuts[interval])


def _of_a_job(jobs, job, cuts, prices, plans) -> Fraction:  # type: ignore[no-untyped-def]
    """The dual of one job as it is written, every number as the fraction that it is."""
    arrival, steps = Fraction(jobs.arrival_s[job]), Fraction(jobs.steps[job])
    weight, gang = Fraction(jobs.weight[job]), Fraction(jobs.gang[job])
    progress = [Fraction(each) / steps for each in jobs.speed[job]]
    least, worth = weight / max(progress), Fraction(plans.worth[job])
    value = least / 2 + worth
    for i in range(len(cuts) - 1):
        begin = max(Fraction(cuts[i]), arrival)
        room = max(Fraction(cuts[i + 1]) - begin, Fraction(0))
        work = Fraction(plans.work[job, i])
        gains = [
            rate * (worth - weight * (begin - arrival) - least * work) - Fraction(price) * gang
            for rate, price in zip(progress, prices[i], strict=True)
        ]
        value -= least * work**2 / 2 + room * max(*gains, Fraction(0))
    begin = max(Fraction(cuts[-1]), arrival) - arrival
    last = max(worth - weight * begin, Fraction(0)) / least
    return value - least * last**2 / 2


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_is_near_the_program_that_it_is_the_dual_of(seed: int) -> None:
    jobs = groups(seed)
    end_s = float(jobs.arrival_s.max() + 40_000)
    bound, above = best_bound(jobs, jobs.weight, end_s)
    cuts = coarse_cuts(jobs.arrival_s.min(), jobs.arrival_s.max(), end_s)
    for _ in range(2):
        cuts = halved(cuts)
    best = _program(jobs, cuts)
    assert bound <= best * (1 + 1e-6)
    assert best <= above * (1 + 1e-6)
    assert bound >= 0.97 * best


def _program(jobs: JobGroups, cuts: np.ndarray) -> float:
    """The least weighted sum of completion times by a solver, hours, class by class."""
    hour, cost, used = 3600.0, 0.0, np.zeros((len(cuts) - 1, 2))
    limits, spent = [], [[0.0] * 2 for _ in range(len(cuts) - 1)]
    for job in range(len(jobs.count)):
        begin = np.maximum(cuts, jobs.arrival_s[job])
        run = cp.Variable(used.shape, nonneg=True)
        late = cp.Variable(nonneg=True)
        work = run @ (jobs.progress[job] * hour)
        limits += [cp.sum(run, axis=1) <= np.maximum(cuts[1:] - begin[:-1], 0) / hour]
        limits += [cp.sum(work) + late == 1, run[:, jobs.speed[job] == 0] == 0]
        least, after = jobs.least_s[job] / hour, (begin - jobs.arrival_s[job]) / hour
        busy = after[:-1] @ work + after[-1] * late
        squares = cp.sum_squares(work) + cp.square(late)
        count = jobs.count[job]
        cost += count * jobs.weight[job] * (busy + least / 2 * (1 + squares))
        for i, kind in np.ndindex(used.shape):
            spent[i][kind] += count * jobs.gang[job] * run[i, kind]
    for i, kind in np.ndindex(used.shape):
        limits.append(spent[i][kind] <= jobs.gpus[kind] * (cuts[i + 1] - cuts[i]) / hour)
    problem = cp.Problem(cp.Minimize(cost), limits)
    best: Any = problem.solve(solver=cp.CLARABEL)
    return float(best) * hour


@pytest.mark.parametrize("seed", range(10))
def test_jobs_one_after_the_other_on_one_gpu(seed: int) -> None:
    rng = np.random.default_rng(seed)
    run_s = rng.integers(1, 50, 5) * 60.0
    table = pd.DataFrame(
        {"arrival_s": 0.0, "job_type": "any", "scale_factor": 1, "total_steps": run_s},
        index=[f"job {number}" for number in range(5)],
    )
    index = pd.MultiIndex.from_tuples([("any", 1)], names=["job_type", "scale_factor"])
    found = floor(ap.Workload("one", table, pd.DataFrame({"g": 1.0}, index=index)), {"g": 1})
    best = min(np.cumsum(order).mean() for order in permutations(run_s))
    assert 0.9 * best <= found.mean_jct_s <= best
    assert found.makespan_s == pytest.approx(run_s.sum(), rel=1e-12)
    assert found.makespan_s <= run_s.sum()


def test_a_job_alone_takes_what_it_takes() -> None:
    table = drawn(0).jobs.iloc[:1].assign(total_steps=800.0, scale_factor=1, job_type="a")
    found = floor(ap.Workload("alone", table, drawn(0).throughputs), "fast=1,slow=1")
    assert found.mean_jct_s == pytest.approx(200.0, rel=1e-12)
    assert found.makespan_s == pytest.approx(200.0, rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_rows_units_and_labels_change_nothing(seed: int) -> None:
    def figures(found: Floor) -> tuple[float, ...]:
        return (found.mean_jct_s, found.weighted_mean_jct_s, found.makespan_s, found.gap)

    load = drawn(seed)
    plain = figures(floor(load, "fast=2,slow=3"))
    turned = load.jobs.iloc[::-1].rename(index=lambda job: f"{job} again")
    assert figures(floor(ap.Workload("t", turned, load.throughputs), "fast=2,slow=3")) == plain
    larger = load.jobs.assign(total_steps=load.jobs["total_steps"] * 2**10)
    scaled = ap.Workload("s", larger, load.throughputs * 2.0**10)
    assert figures(floor(scaled, {"fast": 2, "slow": 3})) == pytest.approx(plain, rel=1e-9)


def test_what_has_no_floor_is_refused() -> None:
    with pytest.raises(ap.InputError, match="is elastic: a floor is known for jobs whose gangs"):
        floor(ap.generate_elastic_workload(jobs=2, seed=0), "t4=4")
    with pytest.raises(ap.InputError, match="fast"):
        floor(drawn(3), "fast=0,slow=0")
