from __future__ import annotations

import math
from typing import Any

import pytest

from apportion.errors import InputError
from apportion.sim.network import Dimension, Interconnect, Shape
from apportion.sim.network.interconnect import is_unbalanced
from apportion.sim.network.registry import TABLE1_INTERCONNECT

RING = Dimension("machine", "ring", 1e9)


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
