from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from tests.seeds import sampled

from apportion.policies.tiers import packing_limits, packing_patterns

Floats = NDArray[np.float64]
ODD = [(3, 2), (1, 2, 3), (1, 3), (3,), (2, 3, 4), (1, 2, 3, 4)]
MIXES = [(tuple(sorted(sizes)), 4) for sizes in ODD] + [
    (sizes, 8)
    for sizes in [(2, 3), (3,), (5,), (1, 3, 5), (3, 5), (2, 3, 5, 7), (3, 4, 5), (6, 7)]
] + [(tuple(range(1, 9)), 8)]  # fmt: skip


def every_packing(sizes: tuple[int, ...], gpus: int) -> Floats:
    """All ways to put gangs into one machine, full or not, by trying every multiset."""
    most = gpus // min(sizes)
    packings = {
        tuple(gangs.count(size) for size in sizes)
        for number in range(most + 1)
        for gangs in combinations_with_replacement(sizes, number)
        if sum(gangs) <= gpus
    }
    return np.array(sorted(packings), dtype=float)


def most_by_patterns(gain: Floats, packings: Floats, machines: float) -> float:
    """Maximize gain @ v, v an average of packings of so many machines."""
    v = cp.Variable(gain.size, nonneg=True)
    y = cp.Variable(len(packings), nonneg=True)
    limits: list[Any] = [v <= packings.T @ y, cp.sum(y) <= machines]
    best: Any = cp.Problem(cp.Maximize(gain @ v), limits).solve(solver=cp.HIGHS)
    return float(best)


def most_by_limits(gain: Floats, weights: Floats, machines: float) -> float:
    result = linprog(-gain, A_ub=weights, b_ub=np.full(len(weights), machines))
    return -float(result.fun or 0.0)


def test_a_machine_of_eight_is_filled_in_as_many_ways_as_eight_has_partitions() -> None:
    patterns = list(packing_patterns(tuple(range(1, 9)), 8))
    assert len(set(patterns)) == len(patterns) == 22
    assert all(np.dot(pattern, range(1, 9)) == 8 for pattern in patterns)


@pytest.mark.parametrize(("sizes", "gpus"), MIXES)
def test_patterns_are_the_packings_to_which_nothing_can_be_added(
    sizes: tuple[int, ...], gpus: int
) -> None:
    fits = every_packing(sizes, gpus)
    full = {tuple(p) for p in fits.tolist() if gpus - np.dot(p, sizes) < min(sizes)}
    assert {tuple(map(float, p)) for p in packing_patterns(sizes, gpus)} == full


@pytest.mark.parametrize(("sizes", "gpus"), sampled(MIXES, 2))
def test_limits_say_what_patterns_say(sizes: tuple[int, ...], gpus: int) -> None:
    limits = packing_limits(sizes, gpus)
    assert limits.exact
    packings = every_packing(sizes, gpus)
    rng = np.random.default_rng(sum(sizes) + gpus)
    for _ in range(8):
        gain = rng.uniform(0.2, 1, len(sizes)) * np.array(sizes) ** rng.uniform(0.5, 1.5)
        expected = most_by_patterns(gain, packings, 3.0)
        assert most_by_limits(gain, limits.weights, 3.0) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    ("sizes", "gpus"),
    [((1, 2, 4, 8, 16, 32, 40, 48, 56), 64), ((3, 5, 8, 16), 64), ((2, 3, 7), 32)],
)
def test_limits_of_racks_say_what_patterns_say(sizes: tuple[int, ...], gpus: int) -> None:
    limits = packing_limits(sizes, gpus)
    assert limits.exact
    patterns = np.array(list(packing_patterns(sizes, gpus)), dtype=float)
    rng = np.random.default_rng(gpus)
    for _ in range(3):
        gain = rng.uniform(0.5, 1, len(sizes)) * np.array(sizes)
        expected = most_by_patterns(gain, patterns, 2.0)
        assert most_by_limits(gain, limits.weights, 2.0) == pytest.approx(expected, abs=1e-8)


def test_three_three_and_two_share_a_machine_of_eight() -> None:
    # One over the gangs of a size that fit alone, 1/2 + 1/2 + 1/4, would forbid it.
    weights = packing_limits((2, 3), 8).weights
    assert 2 / (8 // 3) + 1 / (8 // 2) == 1.25
    assert (weights @ [1, 2]).max() == pytest.approx(1.0)
    assert (weights @ [0, 2.001]).max() > 1


@pytest.mark.parametrize(("sizes", "gpus"), [((1, 2, 4, 8), 8), ((2, 8), 64), ((4, 6), 12)])
def test_sizes_that_divide_a_machine_are_limited_by_its_gpus_alone(
    sizes: tuple[int, ...], gpus: int
) -> None:
    weights, exact = packing_limits(sizes, gpus)
    assert exact
    np.testing.assert_array_equal(weights, [np.array(sizes) / gpus])
    gain = np.random.default_rng(0).uniform(0, 1, len(sizes))
    expected = most_by_patterns(gain, every_packing(sizes, gpus), 1.0)
    assert most_by_limits(gain, weights, 1.0) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("sizes", "gpus"), MIXES)
def test_every_limit_is_met_by_every_packing_and_by_one_exactly(
    sizes: tuple[int, ...], gpus: int
) -> None:
    weights = packing_limits(sizes, gpus).weights
    worst = (every_packing(sizes, gpus) @ weights.T).max(axis=0)
    np.testing.assert_allclose(worst, 1.0, rtol=1e-12)
    below = (weights[:, None] <= weights + 1e-9).all(axis=2)
    assert below.sum() == len(weights)  # only of itself


def test_many_sizes_get_limits_that_hold_but_may_be_loose() -> None:
    sizes, gpus = tuple(range(1, 12)), 11
    limits = packing_limits(sizes, gpus)
    assert not limits.exact
    packings = np.array(list(packing_patterns(sizes, gpus)), dtype=float)
    assert (packings @ limits.weights.T).max() <= 1 + 1e-12
    rng = np.random.default_rng(0)
    tighter = []
    for _ in range(10):
        gain = rng.uniform(0.5, 1, len(sizes)) * np.array(sizes)
        by_limits = most_by_limits(gain, limits.weights, 1.0)
        by_gpus = most_by_limits(gain, np.array([sizes]) / gpus, 1.0)
        assert (packings @ gain).max() <= by_limits + 1e-9
        assert by_limits <= by_gpus + 1e-9
        tighter.append(by_limits < by_gpus - 1e-6)
    assert any(tighter)
