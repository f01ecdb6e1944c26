from __future__ import annotations

import numpy as np
import pytest

from apportion import InputError
from apportion.mechanism.configurations import RECLAIMS, Loan, change_of_speedup, reclaim_rule
from apportion.mechanism.configurations.reclaims import Shape


class Table:
    """Speed-ups by hand: those of GPUs, less a half for every node beyond the first."""

    def __init__(self, by_gpus: list[float]) -> None:
        self.by_gpus = by_gpus

    def speedup(self, job: int, kind: int, gpus: int, nodes: int) -> float:
        return self.by_gpus[gpus - 1] * (1 + job / 10) - 0.5 * (nodes - 1)


def loans_of(shapes: dict[int, Shape]) -> list[Loan]:
    cells = [
        (n, job)
        for job, shape in shapes.items()
        for n, k in shape.per_node.items()
        for _ in range(k)
    ]
    return [Loan(gpu, node, job) for gpu, (node, job) in enumerate(sorted(cells))]


def test_the_gpu_of_a_straggling_node_is_given_back_first() -> None:
    worth = Table([1.0, 1.9, 2.6, 3.0, 3.0])
    shapes = {0: Shape(0, {0: 4, 1: 1}), 1: Shape(0, {1: 3})}
    assert change_of_speedup(worth, 0, shapes[0], 1) == pytest.approx(0.5)
    assert change_of_speedup(worth, 0, shapes[0], 0) == pytest.approx(0.0)
    assert change_of_speedup(worth, 1, shapes[1], 1) == pytest.approx(1.1 * -0.7)
    assert change_of_speedup(worth, 1, shapes[1], 1, gpus=3) == pytest.approx(1.1 * -2.6)
    (chosen,) = reclaim_rule("least_loss").choose(loans_of(shapes), shapes, worth)
    assert (chosen.job, chosen.node) == (0, 1)


@pytest.mark.parametrize("seed", range(20))
def test_the_least_loss_is_that_of_all_sums_reckoned_anew(seed: int) -> None:
    rng = np.random.default_rng(seed)
    worth = Table(np.cumsum(rng.random(40)).tolist())
    shapes = {
        job: Shape(0, {int(n): int(rng.integers(1, 4)) for n in rng.permutation(4)[: 1 + job % 3]})
        for job in range(5)
    }

    def total(without: Loan) -> float:
        value = 0.0
        for job, shape in shapes.items():
            there = dict(shape.per_node)
            there[without.node] = there.get(without.node, 0) - (job == without.job)
            gpus = sum(there.values())
            value += worth.speedup(job, 0, gpus, sum(k > 0 for k in there.values())) if gpus else 0
        return value

    loans = loans_of(shapes)
    (chosen,) = reclaim_rule("least_loss").choose(loans, shapes, worth)
    best = max(map(total, loans))
    ties = [loan for loan in loans if total(loan) > best - 1e-9]
    assert (chosen.job, chosen.node) == min((loan.job, loan.node) for loan in ties)


def test_ties_go_to_the_lower_job_and_node_and_the_last_gpu() -> None:
    shapes = {3: Shape(0, {0: 2, 1: 2}), 2: Shape(0, {1: 2, 2: 2})}
    worth = Table([1.0, 2.0, 3.0, 4.0])
    worth.speedup = lambda job, kind, gpus, nodes: float(gpus)  # type: ignore[method-assign]
    loans = loans_of(shapes)
    (chosen,) = reclaim_rule("least_loss").choose(loans, shapes, worth)
    assert (chosen.job, chosen.node) == (2, 1)
    assert chosen.gpu == max(each.gpu for each in loans if (each.job, each.node) == (2, 1))


def test_a_whole_server_is_that_with_the_fewest_gpus_in_training() -> None:
    shapes = {0: Shape(0, {0: 4, 1: 1}), 1: Shape(0, {1: 1, 2: 2})}
    chosen = reclaim_rule("whole_server").choose(loans_of(shapes), shapes, Table([1.0] * 9))
    assert [(loan.node, loan.job) for loan in chosen] == [(1, 0), (1, 1)]


def test_random_draws_hang_on_the_seed_and_reach_all() -> None:
    shapes = {0: Shape(0, {0: 4, 1: 1})}
    loans, worth = loans_of(shapes), Table([1.0] * 9)
    draws = []
    for seed in (0, 0, 1):
        rule = reclaim_rule("random", seed)
        draws.append([rule.choose(loans, shapes, worth)[0].gpu for _ in range(40)])
    assert draws[0] == draws[1] != draws[2]
    assert set(draws[0]) == {0, 1, 2, 3, 4}


def test_an_unknown_way_is_named() -> None:
    with pytest.raises(InputError, match=r"'best'.*least_loss"):
        reclaim_rule("best")
    assert set(RECLAIMS) == {"least_loss", "random", "whole_server"}
