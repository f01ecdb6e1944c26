"""The definitions of docs/reference/policies.md, by numpy and scipy, beside what comes out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from tests.seeds import each_seed, ranges_of_seeds

import apportion as ap
from apportion.policies import BUILT_IN, Instance, solve_instance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

GPUS = np.array([3.0, 4.0])
CLUSTER = ap.Cluster({"v": 3, "k": 4}, prices_per_gpu_hour={"v": 3.0, "k": 1.0})
SEEDS = each_seed(2, 4)


class _Case:
    """Six jobs on two types; each runs on one at least."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        speed = rng.uniform(1, 50, (6, 2))
        speed[rng.random((6, 2)) < 0.2] = 0.0
        speed[(speed == 0).all(axis=1)] = 4.0
        self.speed: Floats = speed
        self.columns: dict[str, Any] = {
            "scale_factor": rng.choice([1, 2, 3], 6),
            "weight": rng.choice([1.0, 2.0, 5.0], 6),
            "steps_remaining": 10 ** rng.uniform(4, 6, 6),
            "elapsed_s": rng.uniform(0, 1000, 6),
            "deadline_s": 1000 + 10 ** rng.uniform(2, 4, 6),
            "arrival_s": rng.permutation(6) * 10.0,
            "entity": ["x", "x", "x", "y", "y", "z"],
        }
        self.gpus: Floats = self.columns["scale_factor"].astype(float)
        self.weight: Floats = self.columns["weight"]
        self.steps: Floats = self.columns["steps_remaining"]
        self.fastest: Floats = speed.max(axis=1)
        self.equal_share: Floats = speed @ GPUS / GPUS.sum()

    def solve(self, policy: Any, jobs: list[int] | None = None) -> ap.Allocation:
        chosen = list(range(6)) if jobs is None else jobs
        columns = pd.DataFrame(self.columns).loc[chosen]
        table = pd.DataFrame(self.speed, columns=["v", "k"]).loc[chosen]
        return ap.solve(policy, table, workers=CLUSTER, jobs=columns)


def _best(case: _Case, cost: Floats, rows: Floats, bounds: Floats) -> Any:
    """Minimise over X (jobs by types) and more variables, none below 0, within the capacities."""
    more = cost.size - 12
    time = np.hstack([np.kron(np.eye(6), np.ones((1, 2))), np.zeros((6, more))])
    held = np.hstack([np.kron(case.gpus, np.eye(2)), np.zeros((2, more))])
    limits = np.concatenate([np.ones(6), GPUS, bounds])
    found = linprog(cost, A_ub=np.vstack([time, held, rows]), b_ub=limits)
    assert found.status == 0
    return found


def _throughputs(speed: Floats) -> Floats:
    """Rows that give each job's throughput at X, shape (jobs, 12)."""
    return np.kron(np.eye(6), np.ones((1, 2))) * speed.ravel()


@pytest.mark.parametrize("seed", SEEDS)
def test_fixed_shares_and_their_total_time(seed: int) -> None:
    case = _Case(seed)
    sliced = GPUS / 6 / case.gpus[:, None]
    sliced /= np.maximum(sliced.sum(axis=1, keepdims=True), 1.0)
    fits = min(GPUS.sum() / (case.gpus @ case.weight), 1 / case.weight.max())
    proportional = fits * case.weight[:, None] * GPUS / GPUS.sum()
    for policy, share in (("isolated", sliced), ("proportional", proportional)):
        found = case.solve(policy)
        expected = np.where(case.speed > 0, share, 0.0)
        np.testing.assert_allclose(found.X, expected, atol=1e-12)
        assert found.objective == pytest.approx(expected.sum())


@pytest.mark.parametrize("seed", SEEDS)
def test_orders_weigh_places_by_gpus(seed: int) -> None:
    case = _Case(seed)
    case.steps[:2] = 1000 * case.fastest[:2]  # the same time left: they share a place
    left_s = (case.steps / case.fastest).round(6)
    keys: Mapping[str, Any] = {"fifo": case.columns["arrival_s"], "shortest_job_first": left_s}
    for policy, key in keys.items():
        place = np.unique(key, return_inverse=True)[1] + 1
        worth = case.gpus * (place.max() + 1 - place) / case.fastest
        best = _best(case, -worth @ _throughputs(case.speed), np.zeros((0, 12)), np.zeros(0))
        assert case.solve(policy).objective == pytest.approx(-best.fun)


@pytest.mark.parametrize("seed", SEEDS)
def test_strategy_proof_shares_have_weights_as_exponents(seed: int) -> None:
    case = _Case(seed)
    found, welfare = case.solve("strategy_proof"), case.solve("nash_welfare")
    for job in range(6):
        others = [other for other in range(6) if other != job]
        loss = welfare.throughput[others] / case.solve("nash_welfare", others).throughput
        kept = np.prod(loss.to_numpy() ** (case.weight[others] / case.weight[job]))
        expected = min(1.0, kept) * welfare.throughput[job]
        assert found.throughput[job] == pytest.approx(expected, rel=1e-4)
    assert found.objective == pytest.approx(found.X.to_numpy().sum())


@pytest.mark.parametrize("seed", SEEDS)
def test_deadlines_are_missed_by_the_least_sum_of_relative_shortfalls(seed: int) -> None:
    case = _Case(seed)
    floor = case.steps / (case.columns["deadline_s"] - case.columns["elapsed_s"])
    rows = np.hstack([-_throughputs(case.speed), -np.diag(floor)])
    cost = np.concatenate([np.zeros(12), np.ones(6)])
    least = _best(case, cost, rows, -floor).fun
    found = case.solve("min_cost_slos").throughput.to_numpy()
    assert least > 0.1
    assert np.maximum(0, 1 - found / floor).sum() == pytest.approx(least, abs=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_entities_pass_on_rates_per_gpu(seed: int) -> None:
    case = _Case(seed)
    weights = {"x": 1.0, "y": 2.0, "z": 3.0}
    entity = np.array(case.columns["entity"])
    inside = np.array([case.weight[entity == name].sum() for name in entity])
    part = np.array([weights[name] for name in entity]) / 6
    rate = part * case.weight / inside / case.gpus
    found = case.solve(ap.get_policy("hierarchical_fairness", weights=weights))
    rows = np.hstack([-_throughputs(case.speed), (rate * case.equal_share)[:, None]])
    cost = np.zeros(13)
    cost[-1] = -1.0
    height = -_best(case, cost, rows, np.zeros(6)).fun
    assert found.objective == pytest.approx(height)
    reached = found.throughput.to_numpy() / case.equal_share / rate
    assert reached.min() == pytest.approx(height)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_blind_policy_reports_the_objective_that_it_believes(seed: int) -> None:
    case = _Case(seed)
    found = case.solve("max_min_fairness_agnostic")
    time = found.X.to_numpy().sum(axis=1)
    assert found.objective == pytest.approx((time * case.gpus / case.weight).min())
    np.testing.assert_allclose(found.throughput, (found.X.to_numpy() * case.speed).sum(axis=1))


def _drawn(rng: np.random.Generator) -> Instance:
    """Jobs that cannot run everywhere, with weights and scale factors."""
    n, k = int(rng.integers(2, 12)), int(rng.integers(2, 5))
    speed = rng.uniform(1, 10, (n, k)) * 10.0 ** rng.integers(-1, 2, (n, 1))
    speed[rng.random((n, k)) < 0.3] = 0.0
    speed[np.arange(n), rng.integers(0, k, n)] += 1.0
    gpus, capacity = rng.choice([1.0, 2.0, 4.0], n), rng.integers(4, 9, k).astype(float)
    elapsed, steps = rng.uniform(0, 1e4, n), 10 ** rng.uniform(3, 6, n)
    slowest = np.where(speed > 0, speed, np.inf).min(axis=1)
    pace = slowest * capacity.min() / (n * k * gpus.max())  # all deadlines can be met
    due_s = elapsed + steps / pace * rng.uniform(1, 3, n)
    columns = {
        "weight": rng.choice([0.5, 1.0, 2.0, 5.0], n),
        "steps_remaining": steps,
        "elapsed_s": elapsed,
        "isolated_elapsed_s": elapsed * rng.uniform(0.3, 1.2, n),
        "order": rng.permutation(n).astype(float),
        "deadline_s": np.where(rng.random(n) < 0.5, np.nan, due_s),
        "network_priority": rng.choice([0.0, 0.2, 1.0], n),
        "entity": (entity := rng.integers(0, 2, n).astype(float)),
        "entity_used_s": np.array([3e4, 0.0])[entity.astype(int)],
    }
    prices = rng.uniform(0.5, 3, k)
    return Instance.of_jobs(
        speed, gpus, capacity, columns=columns, prices=prices, texts={"entity": ("x", "y")}
    )


@pytest.mark.parametrize("seeds", ranges_of_seeds(6, 1000))
def test_agnostic_max_min_fairness_maximises_the_least_share_of_time(seeds: range) -> None:
    """Least attained service: max over X of min over jobs of scale_factor / weight * time."""
    for seed in seeds:
        instance = _drawn(np.random.default_rng(seed))
        gpus, runs = instance.columns["scale_factor"], instance.throughput > 0
        X = cp.Variable(runs.shape, nonneg=True)
        time = cp.multiply(gpus / instance.columns["weight"], cp.sum(X, axis=1))
        within = [cp.sum(X, axis=1) <= 1, gpus @ X <= instance.capacity, X[~runs] == 0]
        best = cp.Problem(cp.Maximize(cp.min(time)), within).solve("HIGHS")
        found = solve_instance(ap.get_policy("max_min_fairness_agnostic"), instance)
        had = found.X.sum(axis=1) * gpus / instance.columns["weight"]
        assert had.min() == pytest.approx(best, rel=1e-6), seed
        assert found.objective == pytest.approx(best, rel=1e-6), seed


BLIND = [each for each in BUILT_IN if "runs_jobs_alone" not in each.traits]
"""Policies but those of fixed shares."""


@pytest.mark.parametrize("policy", BLIND, ids=lambda policy: policy.name)
@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 60))
def test_a_blind_policy_is_the_policy_where_types_are_alike(policy: Any, seeds: range) -> None:
    """One speed on every type, and no time where a job cannot run: the same objective."""
    for seed in seeds:
        instance = _drawn(np.random.default_rng(seed))
        runs = instance.throughput > 0
        mean = (instance.throughput @ instance.capacity) / (runs @ instance.capacity)
        cannot = np.flatnonzero(~runs.ravel())

        def constraints(
            self: Any, p: Any, cannot: Any = cannot, policy: Any = policy
        ) -> list[cp.Constraint]:
            nowhere = [cp.vec(p.X, order="C")[cannot] == 0] if cannot.size else []
            return [*policy.constraints(self, p), *nowhere]

        kept: Any = type("Kept", (policy,), {"constraints": constraints})
        alike = np.repeat(mean[:, None], instance.options, axis=1)
        options: Any = {"group": False, "second_stage": False}
        blind = solve_instance(policy(heterogeneity_aware=False), instance, **options)
        told = solve_instance(kept(), replace(instance, throughput=alike), **options)
        assert blind.objective == pytest.approx(told.objective, rel=1e-5), seed
