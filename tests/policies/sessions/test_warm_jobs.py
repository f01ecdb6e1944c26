"""Policies over single jobs that are kept warm give what they give when solved anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import each_seed, ranges_of_seeds

from apportion.policies import Instance, MinCost, NashWelfare, Policy, get_policy, solve_instance
from apportion.policies.sessions import warm_jobs
from apportion.policies.sessions.warm_jobs import WarmJobs
from apportion.policies.solving.ratio import affine_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.policies.problem import Problem

AFFINE = (
    "fifo",
    "shortest_job_first",
    "least_mean_completion",
    "max_total_throughput",
    "network_sensitive",
)
LEVELS = ("makespan", "max_min_fairness", "finish_time_fairness")
RATIOS = ("min_cost", "min_cost_agnostic")
POLICIES = (
    *(*AFFINE, *LEVELS, *RATIOS),
    *("fifo_agnostic", "makespan_agnostic", "finish_time_fairness_agnostic"),
)


class Crowd:
    """Jobs that come, go, make steps and change their speeds; on a grid they are often alike."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.grid = rng, rng.random() < 0.4
        types = int(rng.integers(1, 5))
        self.capacity = rng.integers(1, 40, types).astype(float)
        kinds = rng.uniform(1, 50, (int(rng.integers(1, 12)), types))
        kinds *= rng.random(kinds.shape) > 0.15
        kinds = np.ceil(kinds / 10) * 10 if self.grid else kinds
        self.kinds = np.where(kinds.any(axis=1, keepdims=True), kinds, 1.0)
        self.prices = rng.choice([1.0, 2.0, 3.0], types) * (
            1 if self.grid else rng.uniform(0.9, 1.1)
        )
        self.ids, self.next, self.tick = np.zeros(0, dtype=np.intp), 0, 0
        self.speed, self.facts = np.zeros((0, types)), np.zeros((0, 5))

    def event(self, most: int) -> None:
        """Let up to so many jobs come, three at most go, and the cluster change."""
        rng, grid = self.rng, self.grid
        kept = rng.random(self.ids.size) > rng.choice([0.0, 0.05, 0.1])
        self.ids, self.speed, self.facts = self.ids[kept], self.speed[kept], self.facts[kept]
        for _ in range(int(rng.integers(self.ids.size == 0, most + 1))):
            speed = self.kinds[int(rng.integers(len(self.kinds)))]
            self.tick += int(rng.integers(2)) if grid else 1
            steps = rng.choice([1e3, 2e3, 1e4]) if grid else 10 ** rng.uniform(2, 6)
            lost = rng.choice([0.1, 0.5, 1.0]) if grid else rng.random()
            gpus, weight = rng.choice([1, 1, 2, 4, 8]), rng.choice([1, 1, 2])
            self.ids = np.append(self.ids, self.next)
            self.speed = np.vstack([self.speed, speed])
            self.facts = np.vstack([self.facts, [gpus, self.tick, steps, lost, weight]])
            self.next += 1
        if rng.random() < 0.2:
            self.capacity = np.maximum(self.capacity + rng.integers(-3, 4, self.capacity.size), 0)
            self.capacity[0] += not self.capacity.any()
        if rng.random() < 0.2:
            self.speed = self.speed * rng.uniform(0.9, 1.1, self.speed.shape)
        self.facts[:, 2] *= 1.0 if grid else rng.uniform(0.3, 1.0, self.ids.size)

    def instance(self) -> Instance:
        """Pose the problem of the jobs at hand."""
        gpus, order, steps, lost, weight = self.facts.T
        columns = {"order": order, "steps_remaining": steps, "weight": weight}
        columns |= {"network_priority": lost, "elapsed_s": order, "isolated_elapsed_s": order / 2}
        given = self.speed, gpus, self.capacity
        return Instance.of_jobs(*given, columns=columns, prices=self.prices)


def events(seed: int) -> Iterator[tuple[np.ndarray, Instance]]:
    """Draw a history: who is there, and the problem, event by event."""
    crowd = Crowd(np.random.default_rng(seed))
    for step in range(int(crowd.rng.integers(4, 12))):
        crowd.event(4 if step else 60)
        if crowd.ids.size:
            yield crowd.ids, crowd.instance()


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def compare(seeds: range) -> dict[str, int]:
    """Compare policies event by event; return how often each was kept warm."""
    kept: dict[str, int] = dict.fromkeys(POLICIES, 0)
    for seed in seeds:
        warm = {name: WarmJobs(get_policy(name)) for name in POLICIES}
        for ids, instance in events(seed):
            for name in POLICIES:
                found = warm[name].certified(ids, instance)
                if found is None:
                    continue
                kept[name] += 1
                anew = solve_instance(get_policy(name), instance)
                told = f"{name}, seed {seed}"
                off = 1e-8 if "finish" in name else 1e-9  # levels are found to 1e-10
                np.testing.assert_allclose(found.X, anew.X, rtol=0, atol=off, err_msg=told)
                assert found.objective == pytest.approx(anew.objective, rel=off), told
                most = max(np.abs(anew.prices).max(), 1e-12)
                assert np.abs(found.prices - anew.prices).max() <= 1e-6 * most, told
    return kept


def test_jobs_that_come_and_go_have_what_they_have_solved_anew() -> None:
    compare(range(1))


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 60))
def test_many_drawn_histories_have_what_they_have_solved_anew(seeds: range) -> None:
    kept = compare(range(1 + seeds.start, 1 + seeds.stop))
    assert all(kept.values()), kept


def full_places(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, Instance]]:
    """Draw as many jobs as a program has places, all of which run anywhere; one at a time goes.

    Many are alike, and most finish within a second: levels are above 1.
    """
    size, types = int(rng.choice([16, 32, 64])), int(rng.integers(2, 5))
    models = rng.uniform(5, 50, (int(rng.integers(2, 9)), types))
    speed, gpus = models[rng.integers(len(models), size=2 * size)], rng.choice([1, 1, 2], 2 * size)
    weight = rng.choice(rng.choice([[1.0, 1.0], [1.0, 2.0]]), 2 * size)
    facts = {"weight": weight, "elapsed_s": rng.random(2 * size)}
    facts |= {"steps_remaining": rng.uniform(0.1, 1.0, 2 * size)}
    facts["isolated_elapsed_s"] = facts["elapsed_s"]
    capacity = np.full(types, np.ceil(gpus.sum() / types / rng.choice([2, 4, 8])))
    there = rng.permutation(2 * size)[:size]
    for _ in range(4):
        columns = {name: values[there] for name, values in facts.items()}
        yield there, Instance.of_jobs(speed[there], gpus[there], capacity, columns=columns)
        absent = np.setdiff1d(np.arange(2 * size), there)
        there = np.append(there[1:], rng.choice(absent))


@pytest.mark.parametrize("seed", each_seed(3, 300))
def test_jobs_in_all_places_have_what_they_have_solved_anew(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_jobs, "met_by_jobs", lambda *_, **__: None)  # by the program
    kept = {name: WarmJobs(get_policy(name)) for name in LEVELS}
    for ids, instance in full_places(np.random.default_rng(seed)):
        for name, warm in kept.items():
            found, anew = warm.certified(ids, instance), solve_instance(get_policy(name), instance)
            assert found is not None
            np.testing.assert_allclose(found.X, anew.X, rtol=0, atol=1e-8, err_msg=name)
            assert found.objective == pytest.approx(anew.objective, rel=1e-8)


class Setup(MinCost):
    """A ratio with a constant: the more runs, the less what is paid once weighs."""

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(p.total(p.throughput) / (p.cost_per_hour + 1.0))


class Dollars(Policy):
    """The ratio of `MinCost` upside down."""

    traits = MinCost.traits

    def objective(self, p: Problem) -> cp.Minimize:
        progress = p.total(cp.multiply(1 / p.fastest_throughput, p.throughput))
        return cp.Minimize(p.cost_per_hour / progress)


@pytest.mark.parametrize("seed", range(12))
def test_a_ratio_upside_down_has_the_same_bargains(seed: int) -> None:
    work, dollars = WarmJobs(MinCost()), WarmJobs(Dollars())
    for ids, instance in events(seed):
        one, other = work.certified(ids, instance), dollars.certified(ids, instance)
        assert one is not None
        assert other is not None
        anew = solve_instance(Dollars(), instance)
        np.testing.assert_allclose(other.X, one.X, atol=1e-12)
        np.testing.assert_allclose(other.X, anew.X, atol=1e-9)
        assert other.objective == pytest.approx(1 / one.objective, rel=1e-12)
        assert other.objective == pytest.approx(anew.objective, rel=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_no_allocation_is_a_better_bargain(seed: int) -> None:
    rng, kept = np.random.default_rng(seed), WarmJobs(MinCost())
    for ids, instance in events(seed):
        found = kept.certified(ids, instance)
        assert found is not None
        assert found.gap <= 1e-12
        price = instance.prices * instance.gpus
        for _ in range(20):
            X = rng.random(found.X.shape) * (rng.random(found.X.shape) < 0.3) * (instance.alone > 0)
            worth = ((instance.throughput * X).sum(axis=1) / instance.fastest_throughput).sum()
            if X.any():
                assert worth / (price * X).sum() <= found.objective * (1 + 1e-12)


def test_a_better_bargain_on_a_type_without_gpus_has_a_price() -> None:
    one = np.zeros(1, dtype=np.intp)
    for room, kept in (([1.0, 0.0], False), ([0.0, 1.0], True), ([1.0, 1.0], True)):
        told = Instance.of_jobs([[1.0, 0.9]], [1.0], room, prices=[3.0, 1.0])
        found = WarmJobs(MinCost()).certified(one, told)
        assert (found is not None) is kept
        assert found is None or not solve_instance(MinCost(), told).prices.any()


def test_what_has_other_limits_or_another_objective_is_solved_anew() -> None:
    one = np.zeros(1, dtype=np.intp)
    columns = {name: np.ones(1) for name in ("order", "steps_remaining", "elapsed_s")}
    columns["isolated_elapsed_s"] = columns["elapsed_s"]
    instance = Instance.of_jobs([[1.0]], [1.0], [1.0], columns=columns, prices=[1.0])
    for policy in (NashWelfare(), Setup()):
        assert WarmJobs(policy).certified(one, instance) is None
    plain = get_policy("fifo")
    assert WarmJobs(plain).certified(one, instance) is not None
    limited = type("Limited", (type(plain),), {"constraints": lambda _, p: [p.time <= 0.5]})()
    assert WarmJobs(limited).certified(one, instance) is None


@pytest.mark.parametrize("seed", range(20))
def test_slopes_are_what_one_more_of_each_adds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    u = cp.Variable(n)
    expression = u
    for _ in range(int(rng.integers(6))):
        by = rng.normal(size=n)
        expression = [
            lambda each, by=by: cp.multiply(by, each),
            lambda each, by=by: each + by,
            lambda each, by=by: by - each,
            lambda each, by=by: each / float(by[0]),
            lambda each, by=by: cp.multiply(each, by) + cp.multiply(by, u),
            lambda each, by=by: by * cp.sum(each),
            lambda each, by=by: each + by @ u,
        ][int(rng.integers(7))](expression)
    number: list[Any] = [
        cp.sum(expression),
        rng.normal(size=n) @ expression,
        expression @ rng.normal(size=n),
    ]
    chosen = number[int(rng.integers(3))] / 2 + 3
    found = affine_in(chosen, u)
    assert found is not None
    (slope,), constant = found
    for _ in range(3):
        u.value = rng.normal(size=n)
        assert float(slope @ u.value + constant) == pytest.approx(float(chosen.value), abs=1e-9)


def test_what_is_not_affine_in_a_vector_alone_has_no_slopes() -> None:
    u, v = cp.Variable(2), cp.Variable(2)
    others: list[Any] = [cp.sum(cp.square(u)), cp.min(u), cp.sum(u + v), cp.Parameter(2) @ u]
    for number in others:
        assert affine_in(number, u) is None
    assert affine_in(u, u) is None
