"""Bisections against what trying every number finds."""

from __future__ import annotations

import numpy as np
import pytest

from apportion.answers.fewest import _Bisection


@pytest.mark.parametrize("seed", range(60))
def test_bisection_finds_what_trying_every_number_finds(seed: int) -> None:
    rng = np.random.default_rng([seed, 6])
    least = int(rng.integers(1, 9))
    falls = np.sort(rng.choice([0.0, 1.0, 2.0, 3.0, 10.0], 200))[::-1]
    wide = float(rng.choice([0.0, 0.3, 2.0]))
    waits = {size: (falls[size], falls[size] - wide, falls[size] + wide) for size in range(200)}
    asked = list[int]()

    def wait_s(machines: int) -> tuple[float, float, float]:
        asked.append(machines)
        return waits.get(machines, (0.0, 0.0, 0.0))

    limit_s = float(rng.choice([0.5, 1.0, 2.5, 9.0, 12.0]))
    found = _Bisection(wait_s, limit_s).sizes(least)
    expected = [
        next(size for size in range(least, 400) if waits.get(size, (0.0,) * 3)[end] <= limit_s)
        for end in (1, 0, 2)
    ]
    assert list(found) == expected
    assert len(asked) == len(set(asked)) <= 40


@pytest.mark.parametrize("seed", range(60))
def test_no_size_that_was_simulated_speaks_against_the_fewest(seed: int) -> None:
    """Ends of intervals that do not fall with the size: what is said to do too little did."""
    rng = np.random.default_rng([seed, 7])
    waits = np.sort(rng.uniform(0, 5, 64))[::-1]
    wide = rng.uniform(0, 2, 64)

    def wait_s(machines: int) -> tuple[float, float, float]:
        if machines >= 64:
            return 0.0, 0.0, 0.0
        return waits[machines], waits[machines] - wide[machines], waits[machines] + wide[machines]

    search = _Bisection(wait_s, float(rng.uniform(0.1, 5)))
    found = search.sizes(1)
    for end, size in zip((1, 0, 2), found, strict=True):
        assert search.known[size][end] <= search.limit_s
        assert all(x[end] > search.limit_s for n, x in search.known.items() if n < size)
