from __future__ import annotations

import pytest

from apportion.sim.network import (
    COLLECTIVES,
    Dimension,
    Interconnect,
    Span,
    halving_doubling,
    hierarchical,
    ring,
)

LINK = Dimension("rack", "fully_connected", 1e9, 1e-3)
INSIDE = Dimension("machine", "fully_connected", 4e9, 0.0)


def test_ring_all_reduce_by_hand() -> None:
    # Eight peers, 1 GB: 14 steps of 1 ms, each of an eighth of a GB over 1 GB/s.
    assert ring("all_reduce", 8, LINK).seconds(1e9) == pytest.approx(14 * (1e-3 + 0.125))


def test_halving_doubling_by_hand() -> None:
    # Eight peers: 6 steps; halves, quarters, eighths of a GB go out and come back.
    spent_s = 6e-3 + 2 * (0.5 + 0.25 + 0.125)
    assert halving_doubling(8, LINK).seconds(1e9) == pytest.approx(spent_s)


def test_hierarchical_all_reduce_by_hand() -> None:
    # 1 GB in fours: 1.5 GB at 4 GB/s. Then a quarter GB among two: a quarter GB at 1 GB/s.
    spans = (Span(INSIDE, 4, 4), Span(LINK, 2, 2))
    assert hierarchical("all_reduce", spans).seconds(1e9) == pytest.approx(0.375 + 2e-3 + 0.25)


def test_the_halves_of_an_all_reduce_make_it_whole() -> None:
    spans = (Span(INSIDE, 4, 4), Span(LINK, 3, 3))
    halves = [hierarchical(name, spans).seconds(1e9) for name in ("reduce_scatter", "all_gather")]
    assert sum(halves) == pytest.approx(hierarchical("all_reduce", spans).seconds(1e9))


def test_an_all_to_all_does_not_shrink_on_its_way() -> None:
    # Four peers keep a quarter each and send the rest, then half of it all crosses the rack.
    spans = (Span(INSIDE, 4, 4), Span(LINK, 2, 2))
    expected = 0.75 / 4 + 1e-3 + 0.5
    assert hierarchical("all_to_all", spans).seconds(1e9) == pytest.approx(expected)


def test_the_narrowest_machine_divides_the_bytes_and_the_widest_sets_the_steps() -> None:
    shape = ((6, 2),)
    interconnect = Interconnect((INSIDE,), LINK, LINK)
    spans = interconnect.spans(shape)
    assert [(span.units, span.narrowest) for span in spans] == [(6, 2), (2, 2)]
    # 10/6 GB inside, then half a GB over each of the two ports of the small machine.
    expected = 10 / 6 / 4 + 2e-3 + 0.5
    assert hierarchical("all_reduce", spans).seconds(1e9) == pytest.approx(expected)


def test_two_peers_make_ring_and_halving_doubling_equal() -> None:
    assert halving_doubling(2, LINK) == ring("all_reduce", 2, LINK)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_alone_or_with_nothing_to_send_a_collective_takes_no_time(name: str) -> None:
    assert ring(name, 1, LINK).seconds(1e9) == 0
    assert ring(name, 8, LINK).seconds(0) == 0
