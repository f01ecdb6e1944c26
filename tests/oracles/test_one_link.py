"""Closed forms of one link against the simulation of it and against the worked cases."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.oracles.draw_contention import draw_link
from tests.oracles.one_link import (
    added,
    all_reduce,
    begins_now,
    best_starts,
    cost_of_starts,
    limit,
    on_one_link,
    together,
)
from tests.oracles.shared_links import Law, completions, fluid_iteration
from tests.oracles.transfer_gates import Asking, adadual, k_way, srsf, what_if

PAPER = Law(6.69e-4, 8.53e-10, 2.35e-10)
CODE = Law(0, Fraction("0.856"), Fraction("0.235"))
LINK = ("link",)


def asks(law: Law, size: float, rest: float) -> bool:
    asking = Asking(9, LINK, Fraction(size))
    answers = {gate(on_one_link([rest], law), asking) for gate in (adadual(), k_way, what_if)}
    assert len(answers) == 1
    return answers.pop()


def test_threshold() -> None:
    law = Law(0, 1, Fraction(1, 4))
    assert limit(law) == Fraction(2, 5)
    assert not asks(law, 2, 5)
    assert asks(law, 1.99, 5)
    assert float(limit(CODE)) == pytest.approx(0.3923, abs=5e-5)
    assert not asks(CODE, 99.2, 251.8)
    assert asks(CODE, 99.2, 252.9)
    several = [float(limit(CODE, k)) for k in range(1, 6)]
    assert several == pytest.approx([0.3923, 0.4461, 0.4641, 0.4731, 0.4785], abs=6e-5)


@pytest.mark.parametrize(
    ("first", "at_once", "in_turn"), [(1, (4, 5), 6.5), (2, (5, 7), 7), (3, (6, 9), 7.5)]
)
def test_theorems(first: int, at_once: tuple[int, int], in_turn: float) -> None:
    """b = 1, eta = .5, M2 = 6 and M1: mean times if the smaller leads, at once, if it waits."""
    law, sizes = Law(0, 1, Fraction(1, 2)), [first, 6]
    mean = [cost_of_starts([], sizes, at, law) / 2 for at in ([0, first], [0, 0], [6, 0])]
    assert mean == [*at_once, Fraction(in_turn)]


def test_theorem_between_the_ends() -> None:
    assert cost_of_starts([], [1, 6], [3, 0], Law(0, 1, Fraction(1, 2))) / 2 == Fraction(13, 2)


def test_contended_seconds() -> None:
    times = [float(PAPER.seconds(100e6, k)) for k in (1, 2, 4)]
    assert times == pytest.approx([0.085969, 0.194769, 0.412369], abs=1e-9)
    compute = 0.0358 + 0.0537
    share = compute / (compute + float(PAPER.seconds(526.4e6)))
    assert share == pytest.approx(0.166, abs=5e-4)


def test_table_1_at_four_nodes() -> None:
    alpha, beta, gamma = 1.0, 10.0, 100.0
    assert all_reduce("binary tree", 4, alpha, beta, gamma) == (4, 240)
    assert all_reduce("recursive doubling", 4, alpha, beta, gamma) == (2, 220)
    assert all_reduce("halving and doubling", 4, alpha, beta, gamma) == (4, 90)
    assert all_reduce("ring", 4, alpha, beta, gamma) == (6, 90)


def test_closed_forms() -> None:
    for seed in range(60):
        rests, sizes, law = draw_link(seed, seed % 5, 1)
        alone = sum(completions(on_one_link(rests, law)).values())
        assert together(rests, law) == alone
        ends = sorted(completions(on_one_link(rests, law)).values())
        costs = []
        for j, at in enumerate([Fraction(0), *ends]):
            cost = cost_of_starts(rests, sizes, [at], law)
            assert cost == alone + added(sizes[0], rests, law, j)
            costs.append(cost)
        assert begins_now(sizes[0], rests, law) == all(costs[0] < c for c in costs[1:])
        assert min(costs) == best_starts(rests, sizes, law)
        last = ends[-1] if ends else Fraction(0)
        between = [last * Fraction(i, 7) for i in range(8)]
        assert all(cost_of_starts(rests, sizes, [at], law) >= min(costs) for at in between)


def test_gates_on_one_link() -> None:
    for seed in range(40):
        rests, sizes, law = draw_link(seed, seed % 4, 1)
        net, asking = on_one_link(rests, law), Asking(9, LINK, sizes[0])
        before = list(net.running)
        expected = begins_now(sizes[0], rests, law)
        assert k_way(net, asking) == what_if(net, asking) == expected
        assert [srsf(n)(net, asking) for n in (1, 2)] == [len(rests) < 1, len(rests) < 2]
        if len(rests) < 2:
            assert adadual()(net, asking) == adadual("first")(net, asking) == expected
        assert net.running == before


def test_first_conflict_depends_on_the_order_of_links() -> None:
    net = on_one_link([], CODE)
    net.start(0, ["a"], 100)
    net.start(1, ["b"], 1000)
    ask = [Asking(9, links, Fraction(300)) for links in (("a", "b"), ("b", "a"))]
    assert [adadual("first")(net, x) for x in ask] == [False, True]
    assert [adadual("all")(net, x) for x in ask] == [False, False]


def test_several_waiting_are_not_additive() -> None:
    """Waiting ones can only gain by waiting for one another: the best is below greedy sums."""
    for seed in range(12):
        rests, sizes, law = draw_link(seed, 1 + seed % 2, 2)
        best = best_starts(rests, sizes, law)
        ends = [Fraction(0), *completions(on_one_link(rests, law)).values()]
        assert all(best <= cost_of_starts(rests, sizes, [a, b], law) for a in ends for b in ends)


def test_fluid_iteration() -> None:
    law, near = Law(1, 2, 3), [(0, 1), (1, 2), (3, 4), ()]
    assert fluid_iteration(10, 5, (1, 3), near, law) == 10 + 1 + (3 * 2 + 2 * 3) * 5
    assert fluid_iteration(10, 5, (5, 6), near, law) == 10 + 1 + 2 * 5
    assert fluid_iteration(10, 5, (), near, law) == 10
