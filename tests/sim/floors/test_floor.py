"""Floors are below every known schedule, and their formula is recomputed in fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed, ranges_of_seeds

import apportion as ap
from apportion.sim.floors import Floor, floor
from apportion.sim.floors.bound import best_bound, best_plans, proved
from apportion.sim.floors.floor import _largest
from apportion.sim.floors.job_groups import JobGroups, coarse_cuts, halved

if TYPE_CHECKING:
    from collections.abc import Iterable

DECIDERS = (
    "fcfs",
    "easy",
    "minimum_completion_time",
    "slurm",
    "shortest_job_first",
    "least_mean_completion",
    "max_min_fairness",
    "finish_time_fairness",
    "makespan",
    "fifo",
    "nash_welfare",
)
WAYS: tuple[tuple[str, dict[str, Any]], ...] = (
    *((decider, {}) for decider in DECIDERS),
    ("max_min_fairness", {"mechanism": "exact"}),
    ("shortest_job_first", {"mechanism": "exact"}),
    ("makespan", {"mechanism": "rounds", "round_seconds": 7.0}),
    ("dally", {"mechanism": "leases", "network": "none"}),
    ("finish_time_fairness", {"mechanism": "leases", "network": "none"}),
)
RACKS = ap.Cluster.of_racks({"fast": 1, "slow": 1}, machines_per_rack=1, gpus_per_machine=3)
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


@pytest.mark.parametrize("seeds", ranges_of_seeds(5, 205))
def test_no_schedule_is_better(seeds: Iterable[int]) -> None:
    for seed in seeds:
        load = drawn(seed)
        plain, on_racks = floor(load, "fast=2,slow=3"), floor(load, RACKS)
        for decider, settings in WAYS[seed % 5 :: 5] if seed < 5 else WAYS:
            leases = settings.get("mechanism") == "leases"
            found, cluster = (on_racks, RACKS) if leases else (plain, "fast=2,slow=3")
            run = ap.simulate(decider, load, cluster, **settings)
            weight = load.jobs.loc[run.jobs.index, "weight"]
            jct_s = np.average(run.jobs["jct_s"], weights=weight)
            close = 1e-7 if leases else 1e-9  # leases live on ticks of 2^-20 s, jobs are of 100 s
            assert found.weighted_mean_jct_s <= jct_s * (1 + close), (seed, decider)
            above = run.above_floor(found)
            assert all(each >= -close for each in above.values()), (seed, decider, above)


@pytest.mark.thorough
def test_a_generated_workload_on_three_types() -> None:
    load = ap.generate_workload(jobs=25, seed=1, jobs_per_hour=30.0)
    cluster = {"v100": 2, "p100": 2, "k80": 2}
    load = ap.Workload("few GPUs", load.jobs[load.jobs["scale_factor"] <= 2], load.throughputs)
    found = floor(load, cluster)
    for decider in DECIDERS[:5]:
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


@pytest.mark.parametrize("seed", each_seed(2, 40))
def test_the_bound_is_near_the_program_that_it_is_the_dual_of(seed: int) -> None:
    jobs = groups(seed)
    end_s = float(jobs.arrival_s.max() + 40_000)
    bound, above, _ = best_bound(jobs, jobs.weight, end_s)
    cuts = coarse_cuts(jobs.arrival_s.min(), jobs.arrival_s.max(), end_s)
    for _ in range(2):
        cuts = halved(cuts)
    best = _program(jobs, cuts)
    assert bound <= best * (1 + 1e-6)
    assert best <= above * (1 + 1e-6)
    assert bound >= 0.98 * best


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


@pytest.mark.parametrize("seed", each_seed(3, 10))
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


@pytest.mark.thorough
@pytest.mark.parametrize("seed", each_seed(1, 40))
def test_rows_units_and_labels_change_nothing(seed: int) -> None:
    def figures(found: Floor) -> tuple[float, ...]:
        bounds = found.mean_jct_s, found.weighted_mean_jct_s, found.makespan_s, found.ftf_max
        return (*bounds, found.gap)

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


@pytest.mark.parametrize("seed", each_seed(1, 3))
def test_a_gpu_is_worth_what_it_lowers_the_proof_by(seed: int) -> None:
    """The prices that prove a floor prove one with more GPUs, too."""
    jobs = groups(seed)
    end_s = float(jobs.arrival_s.max() + 20_000)
    bound, _, worth = best_bound(jobs, jobs.weight, end_s)
    for kind in range(2):
        more = jobs.gpus + 0.01 * (np.arange(2) == kind)
        other = best_bound(replace(jobs, gpus=more), jobs.weight, end_s).bound
        assert other >= bound - 0.01 * worth[kind] - 1e-3 * abs(bound)
        assert other <= bound * (1 + 1e-3)
    few = ap.floor(drawn(seed), "fast=2,slow=3")
    assert all(each >= 0 for each in few.shorter_by_s.values())
    assert ap.floor(drawn(seed), "fast=200,slow=300").shorter_by_s["slow"] <= 1e-9


@pytest.mark.parametrize("seed", each_seed(4, 10))
def test_fairness_of_jobs_one_after_the_other_on_one_gpu(seed: int) -> None:
    """In any order: a job in an isolated 1/n share takes n seconds for each of its own."""
    rng = np.random.default_rng(seed)
    run_s = rng.integers(1, 50, int(rng.integers(1, 6))) * 6000.0
    index = pd.MultiIndex.from_tuples([("any", 1)], names=["job_type", "scale_factor"])
    table = {"arrival_s": 0.0, "job_type": "any", "scale_factor": 1, "total_steps": run_s}
    load = ap.Workload("one", pd.DataFrame(table), pd.DataFrame({"g": 1.0}, index=index))
    count, best = len(run_s), np.inf
    for order in permutations(run_s):
        done = np.cumsum(order) / (np.array(order) * np.arange(count, 0, -1))
        best = min(best, done.max())
    found = floor(load, {"g": 1}).ftf_max
    assert found <= best
    assert found >= (1 - 2e-3) * (1.0 if count == 1 else 1 / count)


@pytest.mark.parametrize("seed", range(6))
def test_ranges_have_the_largest_of_their_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(9, size=int(rng.integers(1, 40))).astype(float)
    first = rng.integers(values.size, size=50)
    last = first + rng.integers(values.size, size=50) % (values.size - first)
    expected = [values[a : b + 1].max() for a, b in zip(first, last, strict=True)]
    assert _largest(values, first, last).tolist() == expected


def test_runs_that_no_floor_is_below_say_so() -> None:
    run, found = ap.simulate("fcfs", drawn(0), "fast=2,slow=3"), floor(drawn(0), "fast=2,slow=3")
    with pytest.raises(ap.InputError, match="No floor is known for runs by mechanism 'iterations'"):
        replace(run, settings={"mechanism": "iterations"}).above_floor(found)
    with pytest.raises(ap.InputError, match="runs by as_recorded"):
        replace(run, policy="as_recorded").above_floor(found)
    on_links = replace(run, settings={"mechanism": "leases", "network": "table1"})
    assert np.isnan(on_links.above_floor(found)["ftf_max"])
