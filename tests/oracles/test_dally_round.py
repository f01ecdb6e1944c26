"""A round of Dally against the worked examples, and the optimum against every decision."""

from __future__ import annotations

from itertools import product

import pytest
from tests.oracles.dally_round import (
    Cluster,
    Waiting,
    algorithm_1,
    in_order,
    lexicographic,
    preferences,
    priority,
    ranks,
    realisable,
    timers,
)
from tests.oracles.draw_whole import ROUNDS, draw_round
from tests.sim.leasing.packing import MACHINE, NETWORK, RACK


def tier(free: list[list[int]], gpus: int, waited: float) -> int | None:
    cluster = Cluster((tuple(map(tuple, free)),), 4, 8)
    job = Waiting(0, gpus, waited, 12.0, 24.0)
    answers = {f(cluster, [job])[0] for f in (algorithm_1, lexicographic)}
    assert len(answers) == 1
    option = answers.pop()
    return None if option is None else option[1]


def test_priority() -> None:
    assert priority(300, 2, 900) == pytest.approx(2 / 3)
    assert priority(100, 1, 500) == pytest.approx(0.2)
    assert priority(0, 1, 0) == 0
    held = [priority(10, 1, 10 * x) for x in (1.07, 2.16, 28.49)]
    assert held == pytest.approx([0.9346, 0.4630, 0.0351], abs=5e-5)


def test_timers() -> None:
    assert tier([[2, 2], [1, 0]], 4, 11.9) is None
    assert tier([[2, 2], [1, 0]], 4, 12) == RACK
    assert tier([[2, 1], [1, 0]], 4, 12) is None
    assert tier([[2, 1], [1, 0]], 4, 23.9) is None
    assert tier([[2, 1], [1, 0]], 4, 24) == NETWORK
    assert tier([[4, 0], [0, 0]], 4, 0) == MACHINE
    assert timers([(0, 9), (5, 1), (6, 3)], 10, 5) == pytest.approx(2 + 2 * 2**0.5)
    assert timers([(5, 1), (6, 3)], 10, 5, sample=False) == pytest.approx(4)
    assert timers([], 10, 5) == 0


def test_the_network_comes_after_the_rack() -> None:
    """A rack timer below the machine timer does not open the network before the rack."""
    cluster = Cluster((((2, 1), (1, 0)),), 4, 8)
    assert algorithm_1(cluster, [Waiting(0, 4, 8.0, 12.0, 6.0)]) == {0: None}
    assert algorithm_1(cluster, [Waiting(0, 4, 12.0, 12.0, 6.0)]) == {0: (0, NETWORK)}


def test_oversize() -> None:
    assert tier([[4, 2], [1, 0]], 6, 0) == RACK
    assert tier([[3, 2], [1, 0]], 6, 23.9) is None
    assert tier([[3, 2], [1, 0]], 6, 24) == NETWORK
    assert tier([[4, 4], [1, 1]], 10, 0) == NETWORK


def test_no_blocking_by_the_head() -> None:
    cluster = Cluster((((8, 2),),), 8, 64)
    jobs = [
        Waiting(0, 8, 0, 12, 24, 0.2),
        Waiting(1, 8, 0, 12, 24, 0.0),
        Waiting(2, 2, 0, 12, 24, 0.9),
    ]
    assert algorithm_1(cluster, jobs) == {1: (0, 0), 0: None, 2: (0, 0)}


def test_best_fit_in_the_way() -> None:
    """Best fit puts the first 2 on the machine of 3, so 3 waits; with both on the other all run."""
    cluster = Cluster((((4, 3),),), 4, 8)
    jobs = [Waiting(j, n, 0, 12, 24, j) for j, n in enumerate((2, 2, 3))]
    assert algorithm_1(cluster, jobs)[2] is None
    assert lexicographic(cluster, jobs)[2] == (0, MACHINE)


@pytest.mark.parametrize("kind", ROUNDS)
def test_optimum_over_every_decision(kind: str) -> None:
    for seed in range(5):
        cluster, jobs = draw_round(seed, kind, jobs=3)
        best, heuristic = (f(cluster, jobs) for f in (lexicographic, algorithm_1))
        assert realisable(cluster, jobs, best)
        assert realisable(cluster, jobs, heuristic)
        rows = []
        for options in product(*([*preferences(j, cluster), None] for j in jobs)):
            decision = dict(zip((j.name for j in jobs), options, strict=True))
            if realisable(cluster, jobs, decision):
                rows.append(ranks(cluster, jobs, decision))
        assert ranks(cluster, jobs, best) == min(rows) <= ranks(cluster, jobs, heuristic)
        assert lexicographic(cluster, in_order(jobs)[::-1]) == best
