from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from apportion.mechanism.gates import START, Flow
from apportion.mechanism.gates.gate import _reached, next_turn, small_beside


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
    assert small_beside(float(size), float(rest), float(b), float(eta)) == (now < later)


@pytest.mark.parametrize("seed", range(20))
def test_a_job_has_its_turn_at_its_shift_and_each_period_after_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    period = Fraction(int(rng.integers(1, 500)), 64)
    shift, now = period * Fraction(int(rng.integers(64)), 64), Fraction(int(rng.integers(9000)), 64)
    turns = (now - shift) / period
    expected = START if turns.denominator == 1 else float(shift + math.ceil(turns) * period)
    assert next_turn(float(now), float(shift), float(period)) == pytest.approx(expected)


def test_whom_a_transfer_reaches_through_others() -> None:
    """Against joining sets of links until nothing changes, on random transfers."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        links = [
            tuple(rng.choice(9, rng.integers(1, 4), replace=False).tolist())
            for _ in range(rng.integers(1, 9))
        ]
        flows = [Flow(job, each, 1.0, 1.0, 1.0) for job, each in enumerate(links)]
        groups: list[set[int]] = []
        for each in links:
            joined = [group for group in groups if group & set(each)]
            groups = [group for group in groups if not group & set(each)]
            groups.append(set(each).union(*joined))
        (own,) = (group for group in groups if group & set(links[0]))
        found = [other.job for other in _reached(flows[0], flows[1:])]
        assert found == [job for job, each in enumerate(links) if job and own & set(each)]
