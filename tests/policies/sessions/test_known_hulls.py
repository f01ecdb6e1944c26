"""What jobs choose at prices, against the least cost of all mixes of two points."""

import numpy as np
import pytest

from apportion.policies.solving.worst_off.demand_hulls import Hulls, anywhere
from apportion.policies.solving.worst_off.last_filling import KnownPrices


def drawn(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw prices, speeds relative to the fastest, and where jobs may be."""
    types, jobs = int(rng.integers(1, 5)), int(rng.integers(1, 8))
    row = np.zeros((jobs, types + 1))
    row[:, 1:] = rng.lognormal(size=(jobs, types))
    if rng.random() < 0.5:  # points as fast as others, and on lines between others
        row = np.ceil(4 * row) / 4
    row /= row.max(axis=1, keepdims=True)
    prices = rng.random((int(rng.integers(1, 4)), types)) - rng.choice([0.0, 0.2])
    if rng.random() < 0.5:
        prices = np.round(4 * prices) / 4
        prices[~prices.any(axis=1)] = 1.0
    may = rng.random(row.shape) < 0.8
    may[np.arange(jobs), row.argmax(axis=1)] = may[:, 0] = True
    return prices / np.abs(prices).max(axis=1, keepdims=True), row, may


def cheapest(each: np.ndarray, row: np.ndarray, may: np.ndarray, wanted: float) -> float:
    """Return the least cost of making what is wanted at two points, or at one."""
    best = np.inf
    for low in np.flatnonzero(may & (row <= wanted)):
        for up in np.flatnonzero(may & (row >= wanted)):
            span = row[up] - row[low]
            part = (wanted - row[low]) / span if span > 0 else 0.0
            best = min(best, (1 - part) * each[low] + part * each[up])
    return float(best)


@pytest.mark.parametrize("seed", range(40))
def test_hulls_cost_the_least_of_all_mixes(seed: int) -> None:
    rng = np.random.default_rng([51, seed])
    prices, row, may = drawn(rng)
    jobs, most = np.arange(len(row)), np.where(may, row, 0.0).max(axis=1)
    wanted, each = rng.random(len(row)) * most, np.pad(prices, ((0, 0), (1, 0)))
    hulls = Hulls.of(each, row, may)
    for place, one in enumerate(each):
        least = [cheapest(one, row[job], may[job], wanted[job]) for job in jobs]
        total = hulls.costs(jobs, wanted, np.ones(jobs.size))[place]
        assert total == pytest.approx(sum(least), abs=1e-12)
        chosen = hulls.at(place, jobs, np.ones(jobs.size), np.ones(jobs.size))
        good, apart, margin = chosen.choices(wanted)
        assert (good <= may).all()
        assert apart > 0
        for job in jobs:  # on the line through what is chosen, and nothing is below it
            over = one - least[job] - margin[job] * (row[job] - wanted[job])
            assert over[may[job]].min() > -1e-9
            np.testing.assert_array_equal(good[job], may[job] & (over < 1e-9))


def test_who_must_be_where_it_is_fastest_may_rest_for_no_time() -> None:
    row, may = np.array([[0.0, 0.5, 1.0, 1.0]]), np.ones((1, 4), dtype=bool)
    hulls = Hulls.of(np.array([[0.0, 0.1, 0.4, 1.0]]), row, may)
    one = np.ones(1)
    good, apart, _ = hulls.at(0, np.zeros(1, dtype=np.intp), one, one).choices(one)
    np.testing.assert_array_equal(good, [[True, False, True, False]])
    assert apart == pytest.approx(0.6)
    np.testing.assert_array_equal(anywhere(row, may, one), [[True, False, True, True]])


@pytest.mark.parametrize("seed", range(10))
def test_what_is_known_of_prices_is_what_is_found_anew(seed: int) -> None:
    rng = np.random.default_rng([52, seed])
    prices, row, may = drawn(rng)
    types = prices.shape[1]
    known = KnownPrices(np.arange(types), types)
    for one in prices[::-1]:
        known.add(one)
        known.hulls(row[::2], may[::2])
    found, place = known.hulls(row, may)
    anew = Hulls.of(np.pad(prices, ((0, 0), (1, 0))), row, may)
    for mine, theirs in zip(found[:-1], anew[:-1], strict=True):
        np.testing.assert_array_equal(mine[:, place], theirs)
    np.testing.assert_array_equal(found.most[place], anew.most)
