"""Algorithm 1 on states worked by hand; the capped variant enumerated in two ways."""

from __future__ import annotations

import pytest
from tests.oracles.draw_whole import SERVERS, draw_servers
from tests.oracles.least_workload import (
    Cap,
    Servers,
    capped,
    capped_by_gpus,
    first_fit,
    least_workload,
    list_scheduling,
    workload,
)

STATE = Servers([[5, 1], [0, 9], [2, 3]], [[8, 8], [8, 8], [8, 2]])
"""Server loads 6, 9, 5; GPU 5 has 2 free."""


def test_by_hand() -> None:
    assert least_workload(STATE, 1, 4, 1) == (2,)
    assert least_workload(STATE, 2, 4, 1) == (4, 1)
    assert least_workload(STATE, 2, 2, 1) == (4, 5)
    assert least_workload(STATE, 2, 4, 2) == (2, 1)
    assert least_workload(STATE, 2, 4, 1, strict_servers=True) is None
    assert least_workload(STATE, 6, 4, 1) is None
    assert least_workload(STATE, 5, 4, 1) == (4, 1, 0, 2, 3)
    assert least_workload(STATE, 2, 4, 1, server_load="available") == (4, 1)
    assert first_fit(STATE, 2, 4) == (0, 1)
    assert list_scheduling(STATE, 3, 4) == (2, 1, 4)


def test_ties_go_by_number_or_by_a_given_order() -> None:
    idle = Servers([[0, 0], [0, 0]], [[1, 1], [1, 1]])
    assert least_workload(idle, 2, 1, 1) == (0, 1)
    assert least_workload(idle, 2, 1, 1, order=[1, 0]) == (2, 3)


def test_workload() -> None:
    assert workload(10, 4, 3, 1) == 30
    assert workload(10, 4, 3, 2) == 42
    assert workload(10, 4, 3, 2, with_network=False) == 30
    assert workload(10, 4, 3, 2, times_n=False) == 14


@pytest.mark.parametrize("kind", SERVERS)
def test_capped_variant(kind: str) -> None:
    for seed in range(6):
        servers, n, memory = draw_servers(seed, kind, servers=3, gpus=3)
        for most in (1, 2, 3):
            cap, near = Cap(most, several=seed * 100, rho=seed), [seed, 0, 2]
            slow, quick = (f(servers, n, memory, cap, near) for f in (capped_by_gpus, capped))
            assert (slow is None) == (quick is None)
            if slow is not None and quick is not None:
                assert slow[0] == quick[0]
                assert cap.cost(servers, quick[1], near) == quick[0]
