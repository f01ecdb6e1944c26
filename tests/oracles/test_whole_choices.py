"""The enumeration against the worked examples and against trying every product."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from tests.oracles import elastic_values as values
from tests.oracles.draw_whole import CHOICES, draw_choices, permuted
from tests.oracles.whole_choices import Choices, best_of_counts, enumerate_best, knapsack

A, B, C = [1, 1.8, 2.4, 2.8], [1, 1.5, 1.7, 1.8], [1, 1.9, 2.7, 3.4]


def gpus(rows: list[list[Fraction | None]] | list[list[float]], capacity: int) -> Choices:
    return Choices(rows, [[[k + 1] for k in range(len(row))] for row in rows], [capacity])


def counts(case: Choices) -> tuple[list[int], object]:
    best = enumerate_best(case)
    assert best is not None
    return [0 if c is None else c + 1 for c in best.rows[0]], float(best.worth)


def test_multiple_choice_knapsack() -> None:
    assert counts(gpus([A, B, C], 4)) == ([1, 1, 2], pytest.approx(3.9))
    assert counts(gpus([[0.9, 1.2, 1.5, 3.9], [1, 1.9]], 5)) == ([4, 1], pytest.approx(4.9))
    assert counts(gpus([[0.9, 1.2, 1.5, 3.9], [1, 1.9]], 4)) == ([4, 0], pytest.approx(3.9))
    assert knapsack([A, B, C], 4)[1] == [1, 1, 2]


def test_reallocation_factor() -> None:
    factor = values.reallocation_factor
    assert factor(600, 2, 30) == Fraction(6, 7)
    assert float(factor(600, 2, 10)) == pytest.approx(0.950820, abs=5e-7)
    assert factor(60, 0, 30) == Fraction(2, 3)
    assert factor(50, 3, 30) == 0
    assert factor(0, 0, 30) == 0
    assert factor(0, 0, 30, young="one below delay") == 1


def test_penalty_keeps_what_is_held() -> None:
    """A holds 2 GPUs, B is new; B's 2.75 on three GPUs is what the quoted 3.75 leaves."""
    b = [1, 1.9, 2.75, 3.4]
    assert counts(gpus([A, b], 4)) == ([1, 3], pytest.approx(3.75))
    old = values.deepboot(A, 1, values.reallocation_factor(600, 2, 30))
    new = values.deepboot(b, None, values.reallocation_factor(60, 0, 30))
    assert counts(gpus([old, new], 4)) == ([2, 2], pytest.approx(3.066667, abs=5e-7))


@pytest.mark.parametrize(("p", "expected"), [(1, [3, 0]), (-1, [2, 1])])
def test_power_mean(p: float, expected: list[int]) -> None:
    rows = [values.pollux(row, p=p) for row in ([1, 2.2, 3.5], [1, 1.1, 1.15])]
    assert counts(gpus(rows, 3))[0] == expected
    assert values.fitness([2.2, 1]) == pytest.approx(1.375)


def test_sia_leaves_a_newcomer_out() -> None:
    """With lambda 1.1 a new job is worth .1 at most, and growing from 1 to 4 GPUs is worth .5."""
    grown = values.sia([1, 2, 4], p=-0.5)
    assert [float(v or 0) for v in grown] == pytest.approx([0.1, 1.1 - 2**-0.5, 0.6])
    assert values.sia([1, None, 2], 0, 0, p=-0.5)[1:] == [None, None]
    assert values.sia([2, 4], p=1) == [Fraction(21, 10), Fraction(31, 10)]


def test_greedy_rules() -> None:
    assert values.optimus_greedy([[8, 4, 3], [6, 3, 2]], [1, 1], 4) == [2, 2]
    assert values.lyra_extra(120, 2, 2) == [40, 60]
    assert values.lyra_base([5, 1, 3], [2, 3, 2], 5) == [False, True, True]
    assert values.afs([[1, 1.9, 2.7], [1, 1.1, 1.15]], [10, 1], 3) == [2, 1]
    assert values.afs([[1, 1.9]], [10], 0) == [0]
    two, left = [[1, 1.6], [1.0, 2.0]], [1, 10]
    assert values.afs(two, left, 3) == [1, 2]
    assert values.afs(two, left, 3, a_over="before") == [2, 1]


@pytest.mark.parametrize("kind", CHOICES)
def test_equal_to_trying_every_product(kind: str) -> None:
    for seed in range(6):
        case = draw_choices(seed, kind, jobs=4, options=3)
        every = product(*(case.open_to(j) for j in range(len(case.value))))
        worth = {row: case.worth(row) for row in every if case.feasible(row)}
        best = enumerate_best(case, all_rows=True)
        if not worth:
            assert best is None
            continue
        assert best is not None
        assert best.worth == max(worth.values())
        assert set(best.rows) == {row for row, v in worth.items() if v == best.worth}
        shuffled = enumerate_best(permuted(case, seed)[0])
        assert shuffled is not None
        assert shuffled.worth == best.worth


def test_classes_are_split() -> None:
    case = gpus([A, B], 5)
    best = best_of_counts(case, [2, 1])
    split = enumerate_best(gpus([A, A, B], 5))
    assert best is not None
    assert split is not None
    assert best.worth == split.worth


def test_one_type_equals_the_knapsack() -> None:
    for seed in range(20):
        case = draw_choices(seed, "one type", jobs=5, options=4)
        best = enumerate_best(case)
        assert best is not None
        rows = [[v or 0 for v in row] for row in case.value]
        assert knapsack(rows, int(case.capacity[0] or 0))[0] == best.worth
