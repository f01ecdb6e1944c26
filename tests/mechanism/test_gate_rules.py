from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from apportion.mechanism.gates import START, AdaDual, Flow, TimeShift


class OneLink:
    """A link with one transfer under way."""

    def __init__(self, b: float, eta: float, rest: float) -> None:
        self.s_per_byte, self.penalty_s_per_byte = b, eta
        self.flows = [Flow(1, (0,), rest, rest)]
        self.waiting: list[Flow] = []

    def on(self, link: int) -> list[Flow]:
        return self.flows


def sum_of_ends(
    rests: list[Fraction], after: int, size: Fraction, costs: list[Fraction]
) -> Fraction:
    """Sum completion times on one link; so many transfers together cost so much a byte each."""
    running, now_s, total_s, ended = list(rests), Fraction(0), Fraction(0), 0
    starts = [size] if size else []
    while running or starts:
        if starts and ended >= after:
            running.append(starts.pop())
        step = min(running)
        now_s += step * costs[len(running)]
        done = running.count(step)
        running = [rest - step for rest in running if rest > step]
        total_s, ended = total_s + done * now_s, ended + done
    return total_s


@pytest.mark.parametrize("seed", range(40))
def test_a_small_transfer_joins_if_that_ends_both_sooner_in_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rest, size, b, eta = (Fraction(int(rng.integers(1, 1000)), 8) for _ in range(4))
    costs = [m * b + (m - 1) * eta for m in range(3)]
    now, later = (sum_of_ends([rest], after, size, costs) for after in (0, 1))
    flow, link = Flow(0, (0,), float(size), float(size)), OneLink(float(b), float(eta), float(rest))
    assert (AdaDual().decide(0.0, flow, link) == START) == (now < later)


@pytest.mark.parametrize("seed", range(20))
def test_a_job_has_its_turn_at_its_shift_and_each_period_after_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    period = Fraction(int(rng.integers(1, 500)), 64)
    shift, now = period * Fraction(int(rng.integers(64)), 64), Fraction(int(rng.integers(9000)), 64)
    turns = (now - shift) / period
    expected = START if turns.denominator == 1 else float(shift + math.ceil(turns) * period)
    gate = TimeShift({0: (float(shift), float(period))})
    found = gate.decide(float(now), Flow(0, (0,), 1.0, 1.0), OneLink(1.0, 0.0, 1.0))
    assert found == pytest.approx(expected)
