"""Rotations against the worked examples, and the ways of finding them against each other."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from tests.oracles.draw_whole import LINKS, draw_links
from tests.oracles.rotations import (
    Link,
    Profile,
    enumerate_shifts,
    fully_compatible,
    jensen_bound,
    mean_score,
    sampled_score,
    score,
    two_jobs,
)
from tests.seeds import sampled

ONE = Fraction(1)


def slots(*at: int) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, at))


def on(duration: int, period: int, rate: int = 50) -> Profile:
    return Profile(tuple(x for x in ((duration, rate), (period - duration, 0)) if x[0]))


def test_identical_jobs() -> None:
    half = on(50, 100)
    assert score([half, half], [0, 0], 50) == Fraction(1, 2)
    assert two_jobs(half, half, 50) == (ONE, Fraction(50))
    assert score([half, half], [0, 10], 50) == Fraction(6, 10)
    most = on(60, 100)
    assert score([most, most], [0, 0], 50) == Fraction(4, 10)
    assert two_jobs(most, most, 50) == (Fraction(8, 10), Fraction(40))
    assert score([most, most], [0, 60], 50) == Fraction(8, 10)
    assert float(
        max(sampled_score([most, most], [0, Fraction(100 * k, 72)], 50) for k in range(72))
    ) == (pytest.approx(0.7778, abs=5e-5))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_always_on(k: int) -> None:
    assert score([on(100, 100)] * k, [0] * k, 50) == 2 - k


def test_three_jobs() -> None:
    third, half = on(30, 90), on(50, 100)
    assert score([third] * 3, [0] * 3, 50) == Fraction(1, 3)
    assert enumerate_shifts([third] * 3, [Link(50, (0, 1, 2))], 30) == (ONE, slots(0, 30, 60))
    assert score([half] * 3, [0] * 3, 50) == 0
    assert enumerate_shifts([half] * 3, [Link(50, (0, 1, 2))], 10)[0] == Fraction(1, 2)
    mixed = [on(50, 100, 40), on(50, 100, 20), on(50, 100, 20)]
    assert score(mixed, [0] * 3, 40) == Fraction(1, 2)
    assert enumerate_shifts(mixed, [Link(40, (0, 1, 2))], 50) == (ONE, slots(0, 50, 50))


def test_a_long_common_period_needs_breakpoints() -> None:
    a, b = on(20, 40), on(20, 41)
    assert float(score([a, b], [0, 0], 50)) == pytest.approx(0.756, abs=5e-4)
    assert float(sampled_score([a, b], [0, 0], 50)) < 0.74


@pytest.mark.parametrize("kind", sampled(LINKS, 2))
def test_enumeration(kind: str) -> None:
    for seed in range(4):
        profiles, links = draw_links(seed, kind)
        best, shifts = enumerate_shifts(profiles, links)
        assert mean_score(profiles, links, shifts) == best
        ranges = [range(int(p.period)) for p in profiles]
        if len(ranges) and len(links) == 1:
            bound = jensen_bound([profiles[j] for j in links[0].jobs], links[0].capacity)
            assert best <= bound
        few = [r[:: max(1, len(r) // 3)] for r in ranges]
        assert all(mean_score(profiles, links, row) <= best for row in product(*few))


def test_two_jobs_by_kinks_beat_half_slots() -> None:
    for seed in range(20):
        profiles, links = draw_links(seed, "plain", jobs=2)
        best, _ = two_jobs(profiles[0], profiles[1], links[0].capacity)
        assert best == enumerate_shifts(profiles, links, Fraction(1, 2))[0]


def test_greatest_common_divisor_rule() -> None:
    for a, b in product((4, 6, 9), repeat=2):
        for d, e in product(range(1, a), range(1, b)):
            best, _ = two_jobs(on(d, a), on(e, b), 50)
            assert (best == 1) == fully_compatible(d, e, a, b)
