"""Water filling at prices of types, against the programs of every level."""

from dataclasses import dataclass
from unittest.mock import patch

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.errors import SolveError
from apportion.policies import (
    HierarchicalFairness,
    Instance,
    MaxMinFairness,
    Policy,
    Problem,
    RatesOfGroups,
    WaterFilling,
    solve_instance,
)
from apportion.policies.water_filling import Rates
from apportion.policies.solving import driver
from apportion.policies.solving.solvers.even_ties import Indifferent

POLICIES: tuple[Policy, ...] = (
    MaxMinFairness(lexicographic=True),
    MaxMinFairness(lexicographic=True, heterogeneity_aware=False),
    HierarchicalFairness(),
    HierarchicalFairness(inner="fifo", weights={"a": 1, "b": 2, "b/x": 3, "b/y": 1, "c": 0.5}),
    HierarchicalFairness(inner={"a": "fifo"}),
)


@dataclass(frozen=True)
class FilledInTurn(WaterFilling):
    """A policy of one's own: progress rises, of the first of each entity, then of the next."""

    name = "filled_in_turn"
    source = "a test"
    columns = ("entity", "order")
    heterogeneity_aware: bool = True
    lexicographic: bool = True

    def utility(self, p: Problem) -> cp.Expression:
        return cp.multiply(1 / p.fastest_throughput, p.throughput)

    def rates(self, p: Problem) -> Rates:
        group, order = p.column("entity").astype(int), p.column("order")
        gpus = p.count * p.scale_factor
        return RatesOfGroups(
            4, group, order, p.count, gpus, lambda alive: np.where(alive, 2.0, 0.0)
        )


@dataclass(frozen=True)
class FilledByWeight(Policy):
    """Another one, without any base: all progress rises at once, faster by weight."""

    name = "filled_by_weight"
    source = "a test"
    columns = ("weight",)
    heterogeneity_aware: bool = True
    lexicographic: bool = True

    def utility(self, p: Problem) -> cp.Expression:
        return cp.multiply(1 / p.fastest_throughput, p.throughput)

    def rates(self, p: Problem) -> Rates:
        return lambda active: np.where(active, p.weight, 0.0)

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(cp.min(cp.multiply(1 / p.weight, self.utility(p))))


def drawn(rng: np.random.Generator, jobs: int) -> Instance:
    """Draw jobs of few models: ties of many jobs, and of one job between all types."""
    types, models = int(rng.integers(1, 6)), int(rng.integers(1, 7))
    speeds = rng.lognormal(0.0, 1.0, (models, types))
    if rng.random() < 0.3:  # many that are as fast as others
        speeds = np.round(4 * speeds) / 4 + 0.25
    if rng.random() < 0.3:  # some that cannot run
        speeds[:, 1:] *= rng.random((models, types - 1)) < 0.7
    speed, gpus = speeds[rng.integers(models, size=jobs)], rng.choice([1.0, 1.0, 2.0, 4.0], jobs)
    if rng.random() < 0.3:
        speed = speed * rng.lognormal(0.0, 0.1, speed.shape)
    room = rng.dirichlet(np.full(types, 3.0)) * gpus.sum() / rng.choice([0.3, 1, 2, 4])
    columns = {
        "weight": rng.choice([np.ones(jobs), rng.integers(1, 5, jobs)]).astype(float),
        "entity": rng.integers(4, size=jobs).astype(float),
        "order": rng.permutation(jobs) * float(rng.random() < 0.8),
    }
    texts = {"entity": ("a", "b/x", "b/y", "c")}
    room = np.maximum(1.0, np.round(room))
    return Instance.of_jobs(speed, gpus, room, columns=columns, texts=texts)


def refuses(*_: object) -> None:
    """Find nothing."""
    raise SolveError("left to programs")


def compared(seed: int, policies: tuple[Policy, ...] = POLICIES) -> bool:
    """Fill at prices, and by programs: the same shares, levels, objective and prices."""
    rng = np.random.default_rng([11, seed])
    policy, instance = policies[seed % len(policies)], drawn(rng, int(rng.integers(1, 26)))
    solved = solve_instance(policy, instance)
    if solved.stats["tried"].keys() != {"prices"}:
        return False
    with patch.object(driver, "filled_at_prices", refuses):
        known = solve_instance(policy, instance)
    np.testing.assert_allclose(solved.X, known.X, rtol=0, atol=1e-9)
    np.testing.assert_allclose(solved.throughput, known.throughput, rtol=1e-9, atol=1e-12)
    assert solved.objective == pytest.approx(known.objective, rel=1e-9)
    dearest = max(float(known.prices.max()), 1e-9)
    np.testing.assert_allclose(solved.prices, known.prices, rtol=0, atol=1e-7 * dearest)
    return True


@pytest.mark.parametrize("part", each_seed(2, 5))
def test_shares_at_prices_are_those_of_the_programs(part: int) -> None:
    outcomes = [compared(seed) for seed in range(10 * part, 10 * part + 10)]
    assert sum(outcomes) >= 6


def test_policies_of_ones_own_are_filled_at_prices() -> None:
    own = FilledInTurn(), FilledByWeight()
    outcomes = [compared(seed, own) for seed in range(40)]
    assert sum(outcomes) >= 30


@pytest.mark.parametrize("seed", [58, 189, 268, 640, 1083])
def test_types_that_fill_at_once_stay_full(seed: int) -> None:
    """Whoever goes on beside them holds no more of either than is left."""
    assert compared(seed)


def test_a_job_that_makes_just_what_one_type_does_may_mix_others() -> None:
    """All edges that end there cost as much: the one of the hull tells where else it may be."""
    assert compared(3347)


@pytest.mark.thorough
@pytest.mark.parametrize("part", each_seed(1, 20))
def test_shares_at_prices_are_those_of_the_programs_of_many(part: int) -> None:
    outcomes = [compared(seed) for seed in range(100 + 100 * part, 200 + 100 * part)]
    assert sum(outcomes) >= 60


def test_a_job_that_waits_goes_on_where_types_are_left() -> None:
    """The first two fill the fast type; the last one makes what the slow type leaves."""
    columns = {"order": np.arange(3.0), "entity": np.zeros(3), "weight": np.ones(3)}
    instance = Instance.of_jobs(
        [[4.0, 1.0]] * 3, [1.0] * 3, [1.5, 1.0], columns=columns, texts={"entity": ("a",)}
    )
    solved = solve_instance(HierarchicalFairness(inner="fifo"), instance)
    expected = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 0.5]])
    np.testing.assert_allclose(solved.X, expected, atol=1e-12)
    assert solved.stats["steps"] == 2


def test_ties_that_cannot_fill_what_is_left_are_no_shares() -> None:
    row, may = np.array([[0.0, 1.0, 0.5]]), np.ones((1, 3), dtype=bool)
    job = Indifferent(row, np.array([0.5]), np.ones(1), may, np.zeros(1, dtype=bool))
    of_types = np.eye(3)[:, 1:], np.array([0.0, 1.0, 1.0])
    full = np.ones(2, dtype=bool)
    assert job.evenest(*of_types, np.array([2.0, 0.0]), full) is None
    shares = job.evenest(*of_types, np.array([0.25, 0.5]), full)
    assert shares is not None
    np.testing.assert_allclose(shares, np.array([[0.25, 0.25, 0.5]]), atol=1e-12)


def test_a_job_that_may_make_more_fills_what_is_left() -> None:
    """It makes 0.5, of which 0.2 is wanted; of two GPUs that need not be full it leaves some."""
    row, may, freed = np.array([[0.0, 1.0, 0.5]]), np.ones((1, 3), dtype=bool), np.ones(1, bool)
    of_types, left = (np.eye(3)[:, 1:], np.array([0.0, 1.0, 1.0])), np.array([0.25, 0.5])
    full, jobs = np.ones(2, dtype=bool), (row, np.array([0.2]), np.ones(1), may)
    assert Indifferent(*jobs, ~freed).evenest(*of_types, left, full) is None
    shares = Indifferent(*jobs, freed).evenest(*of_types, left, full)
    assert shares is not None
    np.testing.assert_allclose(shares, np.array([[0.25, 0.25, 0.5]]), atol=1e-12)
    least = Indifferent(*jobs, freed).evenest(*of_types, np.array([0.1, 0.5]), ~full)
    assert least is not None  # 0.2 would be made by (0.16, 0.08): the first holds 0.1
    np.testing.assert_allclose(least, np.array([[0.7, 0.1, 0.2]]), atol=1e-12)
