"""The arithmetic of work and rest, against a clock that is moved second by second."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from apportion.mechanism.scheduler import DutyCycle
from apportion.sim.engine.duty_cycle import DutyClock, whole_turns


def at_work(ready_s: float, work_s: float, rest_s: float, second: int) -> bool:
    """Whether a line works in the second that begins then."""
    if second < ready_s:
        return False
    cycle_s = work_s + rest_s
    into_s = second - ready_s if np.isinf(cycle_s) else (second - ready_s) % cycle_s
    return bool(into_s < work_s)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("for_good", [0.0, 0.5])
def test_work_done_and_work_needed_are_those_of_a_ticking_clock(seed: int, for_good: float) -> None:
    rng = np.random.default_rng(seed)
    lines = int(rng.integers(1, 6))
    ready_s = rng.integers(-30, 30, lines).astype(float)
    ready_s[rng.random(lines) < for_good / 2] = np.inf
    work_s = rng.integers(1, 9, lines).astype(float)
    rest_s = rng.integers(1, 6, lines).astype(float)
    endless = rng.random(lines) < for_good
    work_s[endless] = rest_s[endless] = np.inf
    clock = DutyClock(DutyCycle(ready_s, work_s, rest_s))
    duty_cycle = list(zip(ready_s, work_s, rest_s, strict=True))
    for now_s in (0, int(rng.integers(1, 40)), int(rng.integers(40, 90))):
        needed = rng.integers(1, 30, lines).astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            found_s = clock.needed_s(float(now_s), needed)
        worked_s = clock.worked_s(now_s + 17.0) - clock.worked_s(float(now_s))
        for line, spell in enumerate(duty_cycle):
            seconds = [at_work(*spell, second) for second in range(now_s, now_s + 1000)]
            assert worked_s[line] == sum(seconds[:17])
            done = np.cumsum(seconds) >= needed[line]
            assert found_s[line] == (done.argmax() + 1 if done.any() else np.inf)


@pytest.mark.parametrize("seed", range(10))
def test_whole_turns_are_those_of_exact_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    turn_s = rng.choice([0.1, 1 / 3, 610.0, np.inf, *rng.uniform(1e-3, 1e4, 6)], 3000)
    many = rng.integers(0, 10**6, turn_s.size)
    passed_s = np.where(turn_s < np.inf, many * np.where(turn_s < np.inf, turn_s, 0.0), many)
    passed_s = np.nextafter(passed_s, rng.choice([0.0, 1e300], turn_s.size))
    passed_s[::3] *= rng.random(passed_s[::3].size)
    passed_s[::7] = 0.0
    found = whole_turns(passed_s, turn_s)
    exact = [
        0 if np.isinf(turn) else Fraction(passed) // Fraction(turn)
        for passed, turn in zip(passed_s.tolist(), turn_s.tolist(), strict=True)
    ]
    assert found.tolist() == exact
    assert (found == passed_s // turn_s).all()
