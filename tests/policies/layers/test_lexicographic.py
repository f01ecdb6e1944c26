"""Lexicographic policies: equal to water filling by scipy, never worse than the plain policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from tests.seeds import ranges_of_seeds, sampled

import apportion as ap
from apportion.policies import (
    FinishTimeFairness,
    HierarchicalFairness,
    Instance,
    Makespan,
    MaxMinFairness,
    solve_instance,
)

Floats = NDArray[np.float64]
TOLERANCES: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def drawn(seed: int, decades: float) -> tuple[Instance, Floats]:
    """Draw jobs whose speeds and weights span decades."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 12)), int(rng.integers(1, 5))
    own = 10.0 ** rng.uniform(-decades / 2, decades / 2, (n, 1))
    speed = np.exp(rng.normal(0, 1, (n, k))) * own * (rng.random((n, k)) < 0.75)
    speed[np.arange(n), rng.integers(0, k, n)] += own[:, 0]
    gpus, capacity = rng.choice([1.0, 2.0, 4.0], n), rng.integers(4, 9, k).astype(float)
    weight = 10.0 ** rng.uniform(0, decades, n)
    elapsed = rng.uniform(0, 2, n) * weight * rng.integers(0, 2, n)
    columns = {
        "weight": weight,
        "steps_remaining": weight * 1e3,
        "elapsed_s": elapsed,
        "isolated_elapsed_s": elapsed,
        "entity": rng.integers(0, 2, n).astype(float),
        "order": np.arange(n, dtype=float),
    }
    instance = Instance.of_jobs(
        speed, gpus, capacity, columns=columns, texts={"entity": ("a", "b")}
    )
    return instance, gpus


def raised(instance: Instance, gpus: Floats, base: Floats, rate: Floats) -> tuple[float, Floats]:
    """Raise steps/s from a base at some rates as far as all can; the step, and each one's price.

    Each job's share of time is counted in units of what it needs, so all numbers are near 1.
    """
    speed, (n, k) = instance.throughput, instance.throughput.shape
    best, t = speed.max(axis=1), 1.0 / (rate * gpus / speed.max(axis=1)).sum()
    for _ in range(60):
        need = base + rate * t
        unit = np.clip(need / best, 1e-9, 1.0)
        held = np.hstack([np.diag(np.full(k, gpus[i] * unit[i])) for i in range(n)])
        time = np.kron(np.eye(n), np.ones((1, k)))
        made = np.zeros((n, n * k))
        for i in range(n):
            made[i, i * k : (i + 1) * k] = speed[i] * unit[i] / need[i]
        rise, none = (rate * t / need)[:, None], np.zeros((n + k, 1))
        result: Any = None
        for hair in 10.0 ** np.arange(-11, -6):  # what rounding errors have left of frozen levels
            result = linprog(
                np.append(np.zeros(n * k), -1.0),
                A_ub=np.block([[np.vstack([held, time]), none], [-made, rise]]),
                b_ub=np.concatenate([instance.capacity, 1 / unit, -base / need * (1 - hair)]),
                bounds=[(0, None if each > 0 else 0) for each in speed.ravel()] + [(None, None)],
                options=TOLERANCES,
            )
            if result.status == 0:
                break
        assert result.status == 0, result.message
        now = max(result.x[-1], 0.0)
        if 0.2 < now < 5 or ((base > 0).all() and now * rise.max() < 1e-9):
            return t * now, -result.ineqlin.marginals[n + k :] * rate
        t *= max(now, 1e-4)
    raise AssertionError("no unit found")


def filled(instance: Instance, gpus: Floats, rates: Any) -> Floats:
    """Fill, freeze whom a price holds back, go on: steps/s of each job."""
    level, active = np.zeros(len(gpus)), np.ones(len(gpus), dtype=bool)
    while active.any():
        rate = rates(active)
        step, price = raised(instance, gpus, level, rate)
        level = level + rate * step
        active &= ~(price > 1e-9 * price.max())
    return level


def agree(instance: Instance, gpus: Floats, made: Floats, expected: Floats) -> None:
    """Compare steps/s: to 2e-6, or what a 1e-9th of the cluster, a solver's tolerance, makes."""
    hair = 1e-9 * instance.capacity.sum() * instance.throughput.max(axis=1) / gpus
    assert (np.abs(made - expected) <= 2e-6 * expected + hair).all(), (made, expected)


@pytest.mark.parametrize("decades", sampled([6.0, 0.0, 3.0], 3))
@pytest.mark.parametrize("policy", [Makespan, MaxMinFairness], ids=lambda policy: policy.name)
@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 12))
def test_levels_are_those_of_water_filling(policy: Any, decades: float, seeds: range) -> None:
    for seed in seeds:
        instance, gpus = drawn(seed, decades)
        share = instance.throughput @ instance.capacity / instance.capacity.sum()
        weight = instance.columns["weight"]
        need = weight * 1e3 if policy is Makespan else weight * share / gpus
        solution = solve_instance(policy(lexicographic=True), instance)
        assert solution.status == "optimal"
        expected = filled(instance, gpus, lambda active, need=need: need * active)
        agree(instance, gpus, solution.throughput, expected)


@pytest.mark.parametrize("decades", [0.0, 4.0])
def test_finish_times_of_jobs_that_have_just_come_are_those_of_water_filling(
    decades: float,
) -> None:
    for seed in range(8):
        drawn_so, gpus = drawn(seed, decades)
        none = {"elapsed_s": np.zeros(gpus.size), "isolated_elapsed_s": np.zeros(gpus.size)}
        instance = drawn_so.with_columns({**drawn_so.columns, **none})
        slices = instance.capacity / gpus.size / gpus[:, None]
        slices = slices / np.maximum(slices.sum(axis=1, keepdims=True), 1.0)
        need = (slices * instance.throughput).sum(axis=1)
        solution = solve_instance(FinishTimeFairness(lexicographic=True), instance)
        assert solution.status == "optimal"
        expected = filled(instance, gpus, lambda active, need=need: need * active)
        agree(instance, gpus, solution.throughput, expected)


@pytest.mark.thorough
@pytest.mark.parametrize("decades", [0.0, 3.0])
def test_hierarchical_levels_are_those_of_water_filling(decades: float) -> None:
    for seed in range(12):
        instance, gpus = drawn(seed, decades)
        share = instance.throughput @ instance.capacity / instance.capacity.sum()
        entity, weight = instance.columns["entity"], instance.columns["weight"]

        def rates(
            active: NDArray[np.bool_],
            entity: Floats = entity,
            weight: Floats = weight,
            each: Floats = share / gpus,
        ) -> Floats:
            alive = np.unique(entity[active])
            total = np.array([weight[active & (entity == own)].sum() for own in entity])
            part = np.divide(weight, total, out=np.zeros_like(weight), where=active)
            return np.asarray(part / alive.size * each, dtype=float)

        solution = solve_instance(HierarchicalFairness(), instance)
        assert solution.status == "optimal"
        expected = filled(instance, gpus, rates)
        agree(instance, gpus, solution.throughput, expected)


@pytest.mark.parametrize("decades", sampled([4.0, 0.0, 9.0], 3))
@pytest.mark.parametrize(
    "policy", [Makespan, MaxMinFairness, FinishTimeFairness], ids=lambda policy: policy.name
)
@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 10))
def test_never_worse_than_the_plain_policy_at_any_prefix(
    policy: Any, decades: float, seeds: range
) -> None:
    for seed in seeds:
        instance, gpus = drawn(100 + seed, decades)
        columns = instance.columns
        share = instance.throughput @ instance.capacity / instance.capacity.sum()

        def levels(
            throughput: Floats,
            instance: Instance = instance,
            columns: Any = columns,
            share: Floats = share,
            gpus: Floats = gpus,
        ) -> Floats:
            if policy is Makespan:
                return np.sort(throughput / columns["steps_remaining"])
            if policy is MaxMinFairness:
                return np.sort(throughput * gpus / share / columns["weight"])
            alone = columns["elapsed_s"] + columns["steps_remaining"] / instance.isolated_throughput
            late = columns["elapsed_s"] + columns["steps_remaining"] / throughput
            return np.sort(alone / late)

        best, plain = (
            levels(solve_instance(policy(lexicographic=both), instance).throughput)
            for both in (True, False)
        )
        differ = np.flatnonzero(np.abs(best - plain) > 1e-6 * np.maximum(best, plain))
        assert not differ.size or best[differ[0]] > plain[differ[0]]


def test_levels_of_a_millionth_per_second_count() -> None:
    T = pd.DataFrame({"v": [0.0, 0.0, 9.0], "k": [1.0, 1.0, 4.0]}, index=list("abc"))
    jobs = pd.DataFrame({"steps_remaining": [2e4, 1e6, 1e4]}, index=T.index)
    for second_stage in (True, False):
        a = ap.solve(
            Makespan(lexicographic=True), T, workers="v=1,k=1", jobs=jobs, second_stage=second_stage
        )
        # c has the v for itself; a and b, on the k, are done together.
        np.testing.assert_allclose(
            jobs["steps_remaining"] / a.throughput, [1.02e6, 1.02e6, 1e4 / 9]
        )


def test_without_levels_there_is_an_error_and_no_other_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance, _ = drawn(0, 0.0)

    def fails(*_: Any) -> None:
        raise ap.SolveError("no level")

    monkeypatch.setattr("apportion.policies.solving.worst_off.lexicographic.water_fill", fails)
    with pytest.raises(ap.SolveError, match="no level"):
        solve_instance(MaxMinFairness(lexicographic=True), instance)


@pytest.mark.parametrize("seed", [5031, 5033, 5035])
def test_jobs_that_get_nothing_have_the_level_zero(seed: int) -> None:
    instance, gpus = drawn(seed, 0.0)
    solution = solve_instance(HierarchicalFairness(inner="fifo"), instance)
    assert solution.status == "optimal"
    assert (gpus @ solution.X <= instance.capacity * (1 + 1e-9)).all()
    first = [np.flatnonzero(instance.columns["entity"] == entity)[0] for entity in (0.0, 1.0)]
    best = solve_instance(MaxMinFairness(), instance.subset(np.array(first), np.ones(2)))
    assert (solution.throughput[first] > 0.5 * best.throughput).all()  # the first in are served


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]])
@pytest.mark.parametrize("name", ["max_min_fairness", "makespan"])
def test_slivers_of_a_gpu_to_the_last_bits(name: str, order: list[int]) -> None:
    """One GPU is shared in proportion to weights (to steps over speed), the least share 1e-8.

    Were the levels to give way by 1e-12 each, a job with a sliver could have 1e-4 more.
    """
    jobs, weight = ["j", "k", "l", "m"], np.array([1e8, 1.0, 3.0, 10.0])
    speed = np.array([1.0, 20.0, 1.0, 5.0])
    table = pd.DataFrame({"a": speed}, index=jobs).iloc[order]
    columns = pd.DataFrame({"weight": weight, "steps_remaining": weight * speed}, index=jobs)
    policy = ap.get_policy(name, lexicographic=True)
    allocation = ap.solve(policy, table, workers={"a": 1}, jobs=columns)
    share = allocation.X["a"].reindex(jobs).to_numpy()
    np.testing.assert_allclose(share, weight / weight.sum(), rtol=1e-12)
    assert allocation.gap <= 1e-12
