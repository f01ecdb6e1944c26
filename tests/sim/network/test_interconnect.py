from __future__ import annotations

import math
from typing import Any

import pytest

from apportion.errors import InputError
from apportion.sim.network import Dimension, Interconnect, Shape, hierarchical
from apportion.sim.network.interconnect import is_unbalanced
from apportion.sim.network.registry import TABLE1_INTERCONNECT

RING = Dimension("machine", "ring", 1e9)
FOURS = Dimension("machine", "fully_connected", 1e9, size=4)


@pytest.mark.parametrize("bandwidth", [0, 0.0, math.nan, None, math.inf, -1.0, "fast"])
@pytest.mark.parametrize("tier", ["machine", "rack", "network"])
def test_a_tier_without_bandwidth_is_named(tier: str, bandwidth: float) -> None:
    with pytest.raises(InputError, match=f"tier '{tier}' has no bandwidth"):
        Dimension(tier, "ring", bandwidth)


def test_other_figures_out_of_range_are_named() -> None:
    with pytest.raises(InputError, match="Unknown tier 'row'"):
        Dimension("row", "ring", 1.0)
    with pytest.raises(InputError, match=r"topology of tier 'rack' 'rings'.*mean 'ring'"):
        Dimension("rack", "rings", 1.0)
    with pytest.raises(InputError, match="latency_s of tier 'rack' is nan"):
        Dimension("rack", "ring", 1.0, math.nan)
    with pytest.raises(InputError, match="size of tier 'rack' is 0"):
        Dimension("rack", "ring", 1.0, size=0)
    with pytest.raises(InputError, match="links_per_unit of tier 'rack' is 0"):
        Dimension("rack", "ring", 1.0, links_per_unit=0)
    tiers: Any
    for tiers in (((RING,), (RING, RING), RING), ((RING,), RING, None), ((RING, "x"), RING, RING)):
        with pytest.raises(
            InputError, match=r"(machine|rack|network).* is .*; it must be a.*Dimension"
        ):
            Interconnect(*tiers)
    with pytest.raises(InputError, match=r"machine is .*; it must be a tuple"):
        Interconnect(RING, RING, RING)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="all but its last a size"):
        Interconnect((RING, RING), RING, RING)


@pytest.mark.parametrize(
    ("shape", "units"),
    [
        (((1,),), []),
        (((4,),), [4]),
        (((5,),), [3, 2]),
        (((8,),), [4, 2]),
        (((4, 4),), [4, 2]),
        (((2, 2), (2, 2)), [2, 2, 2]),
        (((8, 8), (8, 8), (8, 8)), [4, 2, 2, 3]),
        (((1,), (1,)), [2]),
    ],
)
def test_a_gang_spans_only_dimensions_with_several_units(shape: Shape, units: list[int]) -> None:
    assert [span.units for span in TABLE1_INTERCONNECT.spans(shape)] == units


@pytest.mark.parametrize(
    ("shape", "unbalanced"),
    [
        (((7,),), False),
        (((4, 4),), False),
        (((6, 2),), False),  # only totals count
        (((4, 3),), True),
        (((1, 1),), False),
        (((1, 1), (1, 1)), False),
        (((2, 2), (2, 2)), False),
        (((6,), (5,), (5,)), True),  # 16 GPUs over 3 racks
        (((4, 4), (4,)), False),  # 12 over 2 racks, however they lie on machines
        (((8,), (4, 4)), False),
        (((4, 3), (3, 3)), True),
    ],
)
def test_unbalanced_gangs_are_those_that_the_authors_flatten(
    shape: Shape, unbalanced: bool
) -> None:
    assert is_unbalanced(shape) == unbalanced


def test_a_flat_gang_is_one_ring_over_its_slowest_tier() -> None:
    (span,) = TABLE1_INTERCONNECT.spans(((6,), (5,), (5,)), flat_if_unbalanced=True)
    assert (span.dimension.tier, span.units) == ("network", 16)
    (span,) = TABLE1_INTERCONNECT.spans(((4, 3),), flat_if_unbalanced=True)
    assert (span.dimension.tier, span.units) == ("rack", 7)
    # Over racks that divide the gang only the rack is flat in which machines do not.
    rack, network = TABLE1_INTERCONNECT.spans(((8,), (4, 4)), flat_if_unbalanced=True)
    assert (rack.dimension.tier, rack.units, rack.narrowest) == ("rack", 8, 8)
    assert (network.dimension.tier, network.units) == ("network", 2)
    balanced = ((4, 4),)
    assert TABLE1_INTERCONNECT.spans(
        balanced, flat_if_unbalanced=True
    ) == TABLE1_INTERCONNECT.spans(balanced)


@pytest.mark.parametrize(
    ("topology", "links"),
    [
        ("ring", {2: 4, 3: 4, 4: 4, 5: 6, 8: 8}),
        ("switch", {2: 2, 3: 3, 8: 8}),
        ("fully_connected", {2: 2, 3: 1, 4: 1, 8: 1}),
    ],
)
def test_links_that_are_counted_add_bandwidth(topology: str, links: dict[int, int]) -> None:
    counted = Dimension("rack", topology, 5.0, links_per_unit=1)
    assert {units: counted.bytes_per_s(units) / 5.0 for units in links} == links
    assert Dimension("rack", topology, 5.0).bytes_per_s(8) == 5.0


def test_equal_dimensions_are_worth_one_flat_ring_in_bandwidth() -> None:
    same = Interconnect((FOURS, RING), Dimension("rack", "ring", 1e9), RING)
    cost = hierarchical("all_reduce", same.spans(((8, 8), (8, 8))))
    assert cost.s_per_byte == pytest.approx(2 * 31 / 32 / 1e9)
