"""Nash welfare to rounding errors, whatever the weights: against duality computed from the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.policies import Instance, NashWelfare, Solution, StrategyProof, solve_instance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.signedinteger[Any]]


class Drawn(NamedTuple):
    """Jobs of single rows with speeds, GPUs and weights, and the GPUs of the cluster."""

    speed: Floats
    gpus: Floats
    capacity: Floats
    weight: Floats

    def instance(self, jobs: Ints, types: Ints) -> Instance:
        """Pose the problem with jobs and types in some order."""
        speed, weight = self.speed[np.ix_(jobs, types)], self.weight[jobs]
        posed = Instance.of_jobs(speed, self.gpus[jobs], self.capacity[types].tolist())
        return posed.with_columns({**posed.columns, "weight": weight})

    @property
    def plain(self) -> Instance:
        """The problem in the order in which it was drawn."""
        jobs, types = self.speed.shape
        return self.instance(np.arange(jobs), np.arange(types))


def draw(seed: int) -> Drawn:
    """Weights over up to six decades; every job can run somewhere; every third has whole speeds."""
    rng = np.random.default_rng(seed)
    jobs, types = int(rng.integers(1, 25)), int(rng.integers(1, 5))
    speed = np.exp(rng.normal(size=(jobs, types)) * rng.choice([0.1, 1.0, 3.0]))
    if seed % 3 == 0:
        speed = np.ceil(speed)
    speed[rng.random(speed.shape) < 0.2] = 0.0
    speed[np.arange(jobs), rng.integers(0, types, jobs)] = 1.0
    weight = 10.0 ** rng.uniform(0, rng.choice([0, 3, 6]), jobs)
    capacity = rng.integers(4, max(5, jobs) + 1, types).astype(float)
    if seed % 4 == 1 and types > 1:  # a type without GPUs
        capacity[-1], speed[:, 0] = 0.0, np.maximum(speed[:, 0], 0.5)
    return Drawn(speed, rng.choice([1.0, 1.0, 2.0, 4.0], jobs), capacity, weight)


def room(drawn: Drawn, solution: Solution) -> float:
    """How much more the welfare can be at most: logarithms lie below their tangents.

    ``sum w log(v') <= sum w log(v) + sum w v' / v - sum w``, and what a job adds to the middle sum
    is at most what it pays at any prices and its best surplus, types without GPUs apart.
    """
    each = (drawn.weight / solution.throughput)[:, None] * drawn.speed
    surplus = each - drawn.gpus[:, None] * solution.prices
    best = np.maximum(surplus[:, drawn.capacity > 0].max(axis=1), 0.0).sum()
    return float(drawn.capacity @ solution.prices + best - drawn.weight.sum())


@pytest.mark.parametrize("seed", each_seed(4, 40))
def test_prices_prove_the_welfare_to_rounding_errors(seed: int) -> None:
    drawn = draw(seed)
    solution = solve_instance(NashWelfare(), drawn.plain)
    assert abs(room(drawn, solution)) <= 1e-14 * drawn.weight.sum() + 1e-10
    assert solution.gap <= 1e-8
    assert solution.status == "optimal"


@pytest.mark.parametrize("seed", each_seed(3, 40))
def test_order_of_jobs_and_types_changes_nothing(seed: int) -> None:
    drawn, rng = draw(seed), np.random.default_rng([seed, 1])
    orders = [rng.permutation(size) for size in drawn.speed.shape]
    solution = solve_instance(NashWelfare(), drawn.plain)
    other = solve_instance(NashWelfare(), drawn.instance(*orders))
    fastest = drawn.speed.max(axis=1)[orders[0]]
    apart = np.abs(other.throughput - solution.throughput[orders[0]]) / fastest
    assert apart.max() <= 1e-9


@pytest.mark.thorough
def test_the_even_choice_does_not_hang_on_a_welfare_of_zero() -> None:
    """All jobs run all the time at any rate, so that the logarithms of their shares are zero."""
    alike = np.ones((6, 3))
    for seed in range(20):
        capacity = np.random.default_rng(seed).permutation([7.0, 2.0, 8.0])
        weight = np.random.default_rng([seed, 1]).uniform(1, 3, 6)
        jobs = Instance.of_jobs(alike, np.ones(6), capacity.tolist())
        jobs = jobs.with_columns({**jobs.columns, "weight": weight})
        X = solve_instance(NashWelfare(), jobs, group=False).X
        np.testing.assert_allclose(X, np.tile(capacity / 17, (6, 1)), atol=1e-6)


def by_hand(weight: Floats) -> Floats:
    """Partial allocation of one GPU among jobs of one speed: shares in proportion to weights."""
    total = weight.sum()
    kept = np.ones(weight.size)
    for job, own in enumerate(weight):
        others = np.delete(weight, job)
        kept[job] = np.exp(others.sum() * np.log((total - own) / total) / own)
    return np.asarray(weight / total * kept)


@pytest.mark.parametrize("decades", [0, 2, 4, 6])
def test_strategy_proof_shares_by_hand_over_six_decades(decades: int) -> None:
    weight = 10.0 ** np.linspace(0, decades, 5)
    jobs = Instance.of_jobs(np.full((5, 1), 3.0), np.ones(5), [1])
    jobs = jobs.with_columns({**jobs.columns, "weight": weight})
    solution = solve_instance(StrategyProof(), jobs)
    np.testing.assert_allclose(solution.X[:, 0], by_hand(weight), rtol=1e-7)
    assert solution.status == "optimal"
