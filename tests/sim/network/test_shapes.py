from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.cluster import TIERS
from apportion.errors import InputError
from apportion.sim.network.shapes import (
    Shape,
    canonical_shape,
    gpus_of,
    machines_of,
    tier_of,
)

RACKS = st.lists(st.lists(st.integers(0, 8), max_size=8), min_size=1, max_size=4)


def test_racks_with_more_gpus_come_first_then_those_with_more_machines() -> None:
    assert canonical_shape([[8], [4, 4]]) == ((4, 4), (8,))
    assert canonical_shape([[1], [2, 8], [3, 7]]) == ((8, 2), (7, 3), (1,))
    assert canonical_shape([np.array([0, 3]), [0, 0], [5]]) == ((5,), (3,))


@given(RACKS.filter(lambda racks: any(map(any, racks))), st.randoms())
def test_equal_shapes_are_written_alike(racks: list[list[int]], random: object) -> None:
    shape = canonical_shape(racks)
    assert canonical_shape(shape) == shape
    assert gpus_of(shape) == sum(map(sum, racks))
    assert machines_of(shape) == sum(gpus > 0 for rack in racks for gpus in rack)
    for rack in [racks, *racks]:
        random.shuffle(rack)  # type: ignore[attr-defined]
    assert canonical_shape(racks) == shape


@pytest.mark.parametrize(
    ("shape", "tier"),
    [
        (((1,),), "machine"),
        (((8,),), "machine"),
        (((4, 4),), "rack"),
        (((1,), (1,)), "network"),
        (((8, 8), (1,)), "network"),
    ],
)
def test_the_tier_is_the_tightest_that_holds_the_shape(shape: Shape, tier: str) -> None:
    assert TIERS[tier_of(shape)] == tier


@pytest.mark.parametrize("racks", [[], [[]], [[0, 0]]])
def test_a_gang_without_gpus_is_refused(racks: list[list[int]]) -> None:
    with pytest.raises(InputError, match="has no GPU"):
        canonical_shape(racks)


@pytest.mark.parametrize("count", [-1, 1.5, "two", None, True])
def test_counts_that_are_none_are_named(count: object) -> None:
    with pytest.raises(InputError, match=f"has {count!r} GPUs in a machine"):
        canonical_shape([[4, count]])  # type: ignore[list-item]
